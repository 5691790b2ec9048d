//! Requests that meet: whatever the order, the rules hold at the end.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Code, Secret, UserId, UserPatch};
use entourage_service::{BatchDone, BatchOperation, Call, Limit, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock};
use entourage_testkit::{
    conformance::hooked::{Hooked, Unhurried},
    crash_disk::CrashDisk,
};
use tokio::sync::Barrier;

const ROUNDS: usize = 40;

fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

async fn service(following_max: Option<u64>, people: &[&str]) -> Arc<Service> {
    let disk = Arc::new(CrashDisk::new());
    let store = embedded::Store::open(disk, "the test disk", embedded::Options::default(), Arc::new(SystemClock));
    over(Arc::new(store.unwrap()), following_max, people).await
}

async fn over(store: Arc<dyn Store>, following_max: Option<u64>, people: &[&str]) -> Arc<Service> {
    let service = Service::new(store, Rules { following_max, limits: Limits::NONE, ..Rules::default() });
    for person in people {
        let private = Some(person.starts_with("private"));
        let patch = UserPatch { private, ..UserPatch::default() };
        service.graph.put_user(&Call::default(), id(person), patch).await.unwrap();
    }
    Arc::new(service)
}

/// Runs all of them at once, and waits for their ends.
async fn at_once<T: Send + 'static>(tasks: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let barrier = Arc::new(Barrier::new(tasks.len()));
    let spawned: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                task.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in spawned {
        results.push(task.await.unwrap());
    }
    results
}

async fn totals(service: &Service, follower: &str, target: &str) -> (u64, u64) {
    let call = Call::default();
    let following = service.graph.following(&call, &id(follower), None, Limit::DEFAULT).await.unwrap();
    let followers = service.graph.followers(&call, &id(target), None, Limit::DEFAULT).await.unwrap();
    (following.total.unwrap(), followers.total.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_is_accepted_while_it_is_cancelled_ends_one_way() {
    let service = service(None, &["fan", "private"]).await;
    for _ in 0..ROUNDS {
        let call = Call::default();
        service.graph.follow(&call, &id("fan"), &id("private"), false).await.unwrap();
        let (one, other) = (Arc::clone(&service), Arc::clone(&service));
        let (accepted, cancelled) = tokio::join!(
            tokio::spawn(async move { one.graph.accept(&Call::default(), &id("private"), &id("fan")).await }),
            tokio::spawn(async move { other.graph.unfollow(&Call::default(), &id("fan"), &id("private")).await }),
        );
        // The unfollow takes away whichever of the two it finds; an accept that comes later finds nothing.
        assert!(cancelled.unwrap().unwrap().changed);
        if let Err(error) = accepted.unwrap() {
            assert_eq!(error.code(), Code::NotFound);
        }
        assert_eq!(totals(&service, "fan", "private").await, (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_accept_that_races_a_block_leaves_no_edge() {
    let service = service(None, &["fan", "private"]).await;
    for _ in 0..ROUNDS {
        let call = Call::default();
        service.graph.follow(&call, &id("fan"), &id("private"), false).await.unwrap();
        let (one, other) = (Arc::clone(&service), Arc::clone(&service));
        let (_, blocked) = tokio::join!(
            tokio::spawn(async move { one.graph.accept(&Call::default(), &id("private"), &id("fan")).await }),
            tokio::spawn(async move { other.graph.block(&Call::default(), &id("fan"), &id("private")).await }),
        );
        assert!(blocked.unwrap().unwrap().created);
        assert_eq!(totals(&service, "fan", "private").await, (0, 0));
        let requests = service.graph.follow_requests(&call, &id("private"), None, Limit::DEFAULT).await.unwrap();
        assert_eq!(requests.total, Some(0));
        service.graph.unblock(&call, &id("fan"), &id("private")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_and_single_follows_share_one_cap() {
    let names: Vec<String> = (0..70).map(|number| number.to_string()).collect();
    let mut people: Vec<&str> = names.iter().map(String::as_str).collect();
    people.push("fan");
    let service = service(Some(20), &people).await;
    let tasks = names.iter().map(|name| {
        let (service, target, batched) = (Arc::clone(&service), id(name), name.len() == 1 || name.starts_with('2'));
        async move {
            if !batched {
                return service
                    .graph
                    .follow(&Call::default(), &id("fan"), &target, false)
                    .await
                    .map(|done| done.created);
            }
            let operation = BatchOperation::Follow { follower: id("fan"), target, quiet: Some(false) };
            let mut done = service.graph.batch(&Call::default(), vec![operation]).await.unwrap();
            done.results.remove(0).map(|done| matches!(done, BatchDone::Followed(done) if done.created))
        }
    });
    let results = at_once(tasks.collect()).await;
    assert_eq!(results.iter().filter(|result| matches!(result, Ok(true))).count(), 20);
    let codes = results.iter().filter_map(|result| result.as_ref().err()).map(|error| error.code());
    assert!(codes.into_iter().all(|code| code == Code::FollowingLimit));
    let page = service.graph.following(&Call::default(), &id("fan"), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.total, page.rows.len()), (Some(20), 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_batches_have_one_effect() {
    let service = service(None, &["fan", "idol"]).await;
    let tasks = (0..32).map(|_| {
        let service = Arc::clone(&service);
        async move {
            let operation = BatchOperation::Follow { follower: id("fan"), target: id("idol"), quiet: Some(false) };
            service.graph.batch(&Call::default(), vec![operation.clone(), operation]).await.unwrap().results
        }
    });
    let results = at_once(tasks.collect()).await;
    let created = |done: &BatchDone| matches!(done, BatchDone::Followed(done) if done.created);
    let created = results.iter().flatten().filter(|result| result.as_ref().is_ok_and(created)).count();
    assert_eq!(created, 1);
    assert_eq!(totals(&service, "fan", "idol").await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_leaderboard_never_forgets_a_follow_that_was_acked_before() {
    let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut people: Vec<&str> = names.iter().map(String::as_str).collect();
    people.push("idol");
    let service = service(None, &people).await;
    let tasks = names.iter().map(|name| {
        let (service, follower) = (Arc::clone(&service), id(name));
        async move {
            service.graph.follow(&Call::default(), &follower, &id("idol"), false).await.unwrap();
            let board = service.graph.leaderboard(&Call::default(), None, Limit::DEFAULT).await.unwrap();
            board.rows.first().map_or(0, |row| row.followers)
        }
    });
    let seen = at_once(tasks.collect()).await;
    assert!(seen.iter().all(|followers| *followers >= 1));
    let board = service.graph.leaderboard(&Call::default(), None, Limit::DEFAULT).await.unwrap();
    assert_eq!(board.rows.iter().map(|row| row.followers).collect::<Vec<_>>(), [50]);
}

/// How many follow the idol, by the list and by the leaderboard.
async fn list_and_leaderboard(service: &Service) -> (u64, u64) {
    let call = Call::default();
    let list = service.graph.followers(&call, &id("idol"), None, Limit::DEFAULT).await.unwrap();
    let board = service.graph.leaderboard(&call, None, Limit::DEFAULT).await.unwrap();
    (list.total.unwrap(), board.rows.first().map_or(0, |row| row.followers))
}

#[tokio::test]
async fn list_and_leaderboard_agree_on_a_follow_whose_caller_is_gone_after_the_first_poll() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store = memory::Store::new(identity, Arc::new(SystemClock));
    let store = Arc::new(Hooked::new(Arc::new(store), Unhurried));
    let service = over(store, None, &["1", "2", "3", "4", "idol"]).await;
    let call = Call::default();
    service.graph.follow(&call, &id("1"), &id("idol"), false).await.unwrap();
    assert_eq!(list_and_leaderboard(&service).await, (1, 1));
    let follow = |follower: &str| {
        vec![BatchOperation::Follow { follower: id(follower), target: id("idol"), quiet: Some(false) }]
    };
    let (fan, idol) = (id("2"), id("idol"));
    let ways: [Pin<Box<dyn Future<Output = ()>>>; 3] = [
        Box::pin(async { drop(service.graph.follow(&call, &fan, &idol, false).await) }),
        Box::pin(async { drop(service.graph.batch(&call, follow("3")).await) }),
        Box::pin(async { drop(service.graph.pipeline(&call, follow("4")).await) }),
    ];
    for (mut way, expected) in ways.into_iter().zip(2..) {
        let is_done = poll_fn(|context| Poll::Ready(way.as_mut().poll(context).is_ready())).await;
        assert!(!is_done, "the store is to be asked and has not answered yet");
        drop(way);
        let agree = async {
            while list_and_leaderboard(&service).await != (expected, expected) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(10), agree).await.is_err() {
            assert_eq!(list_and_leaderboard(&service).await, (expected, expected));
        }
    }
}
