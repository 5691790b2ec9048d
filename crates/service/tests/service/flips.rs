//! A follow that is made and ended again and again cools down, whichever way its ends come in.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use entourage_embedded as embedded;
use entourage_model::{Code, Error, UserId, UserPatch};
use entourage_service::{BatchOperation, Call, Limits, Rules, Service};
use entourage_store::{Store, SystemClock};
use entourage_testkit::{
    conformance::hooked::{Hooked, Unhurried},
    crash_disk::CrashDisk,
};

const FLIPS: u32 = 3;

fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

/// On a store whose commits take a moment, so that a caller can hang up in between.
async fn service() -> Service {
    let disk = Arc::new(CrashDisk::new());
    let store = embedded::Store::open(disk, "the test disk", embedded::Options::default(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(Hooked::new(Arc::new(store.unwrap()), Unhurried));
    let limits = Limits { flips_per_day: FLIPS, ..Limits::NONE };
    let service = Service::new(store, Rules { limits, ..Rules::default() });
    for (person, private) in [("a", false), ("b", false), ("shy", true)] {
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        service.graph.put_user(&Call::default(), id(person), patch).await.unwrap();
    }
    service
}

async fn follow(service: &Service, target: &str) -> Result<(), Error> {
    service.graph.follow(&Call::default(), &id("a"), &id(target), None).await.map(|_| ())
}

/// Ends the follow so often in one way, and must then wait.
async fn cools_down(how: &str, target: &str, end: impl AsyncFn(&Service)) {
    let service = service().await;
    for flip in 0..FLIPS {
        follow(&service, target).await.unwrap_or_else(|error| panic!("{how}, {flip} times: {error}"));
        end(&service).await;
    }
    let refused = follow(&service, target).await.expect_err(how);
    assert_eq!(refused.code(), Code::CoolingDown, "{how}");
    assert!(refused.retry_delay().is_some_and(|delay| delay > Duration::from_secs(23 * 60 * 60)), "{how}");
}

#[tokio::test]
async fn whatever_ends_a_follow_counts() {
    let (call, [a, b, shy]) = (&Call::default(), &["a", "b", "shy"].map(id));
    cools_down("unfollowed", "b", async |service| drop(service.graph.unfollow(call, a, b).await.unwrap())).await;
    cools_down("removed", "b", async |service| drop(service.graph.remove_follower(call, b, a).await.unwrap())).await;
    for (blocker, blocked) in [(a, b), (b, a)] {
        cools_down("blocked", "b", async |service| {
            service.graph.block(call, blocker, blocked).await.unwrap();
            service.graph.unblock(call, blocker, blocked).await.unwrap();
        })
        .await;
    }
    cools_down("cancelled", "shy", async |service| drop(service.graph.unfollow(call, a, shy).await.unwrap())).await;
    cools_down("rejected", "shy", async |service| drop(service.graph.reject(call, shy, a).await.unwrap())).await;
    cools_down("in a batch", "b", async |service| {
        let operations = vec![BatchOperation::Unfollow { follower: id("a"), target: id("b") }];
        service.graph.batch(call, operations).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_is_counted() {
    let (call, [a, b]) = (&Call::default(), &["a", "b"].map(id));
    let service = service().await;
    for _ in 0..FLIPS {
        follow(&service, "b").await.unwrap();
        {
            let mut asked = std::pin::pin!(service.graph.unfollow(call, a, b));
            let mut context = Context::from_waker(Waker::noop());
            assert!(asked.as_mut().poll(&mut context).is_pending(), "the commit was done before its caller could go");
        }
        while service.graph.is_following(call, a, b).await.unwrap().following {
            tokio::task::yield_now().await;
        }
    }
    // What was committed is counted a moment later, by a task of its own.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(follow(&service, "b").await.unwrap_err().code(), Code::CoolingDown);
}

#[tokio::test]
async fn forty_flips_in_one_request_are_forty() {
    let service = service().await;
    let flip = || {
        let (follower, target) = (id("a"), id("b"));
        let follow = BatchOperation::Follow { follower: follower.clone(), target: target.clone(), quiet: None };
        [follow, BatchOperation::Unfollow { follower, target }]
    };
    let operations: Vec<BatchOperation> = (0..40).flat_map(|_| flip()).collect();
    for run in 0..2 {
        let results = match run {
            0 => {
                let done = service.graph.batch(&Call::default(), operations.clone()).await.unwrap();
                done.results.into_iter().map(|result| result.map(|_| ())).collect::<Vec<_>>()
            }
            // As a pipeline of Redis commands.
            _ => {
                let done = service.graph.pipeline(&Call::default(), operations.clone()).await;
                done.results.into_iter().map(|result| result.map(|_| ())).collect()
            }
        };
        let cooled =
            results.iter().filter(|result| result.as_ref().is_err_and(|error| error.code() == Code::CoolingDown));
        let expected = if run == 0 { 40 - FLIPS as usize } else { 40 };
        assert_eq!(cooled.count(), expected, "{results:?}");
    }
}
