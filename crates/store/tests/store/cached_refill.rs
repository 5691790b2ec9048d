//! Many missing rows: collected, read for the next caller, and after a restart the most wanted ones first.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use entourage_model::{Key, Kind, ManualClock, Operation};
use entourage_store::{
    Answer, Store,
    layers::cached::{self, Options, Surroundings},
};
use entourage_testkit::cached::*;
use entourage_testkit::{
    conformance::{block_on, hooked::Hooked},
    crash_disk::CrashDisk,
};

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn one_call_for_many_users_has_all_their_rows_read_for_the_next_one() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=600).await;
        for user in (2..=600).step_by(3) {
            done(&*store, follow(user, 1)).await;
        }
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        let pairs: Vec<(Key, Key)> = (2..=600).map(|user| (Key(user), Key(1))).collect();
        let found = layer.get_edges(Kind::Follow, &pairs).await.unwrap();
        let exact = store.get_edges(Kind::Follow, &pairs).await.unwrap();
        assert_eq!(found, exact);
        until("every row is read", || layer.figures().fills == 599).await;
        let (asked, scans) = (store.hooks.edge_reads(), store.hooks.scans());
        let mut answers = vec![Answer::Unknown; pairs.len()];
        layer.peek_all(Kind::Follow, &pairs, &mut answers);
        for (answer, edge) in answers.iter().zip(&exact) {
            assert_eq!(*answer, if edge.is_some() { Answer::Yes } else { Answer::No });
        }
        assert_eq!((store.hooks.edge_reads(), store.hooks.scans()), (asked, scans));
    });
}

/// Where nothing more fits, a call does not push out what others asked for.
#[test]
fn rows_are_not_read_ahead_into_a_cache_that_is_full() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=600).await;
        let options = Options { budget_bytes: 20_000, ..by_hand() };
        let layer = over(Arc::clone(&store) as _, options).await;
        for user in 2..=200 {
            follows(&layer, user, 1).await;
        }
        let before = layer.figures().fills;
        let pairs: Vec<(Key, Key)> = (201..=600).map(|user| (Key(user), Key(1))).collect();
        layer.get_edges(Kind::Follow, &pairs).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let read = layer.figures().fills - before;
        assert!(read <= 4, "{read} rows were read for later");
    });
}

/// Three rows: that of 1 was looked at in three stretches of time, that of 2 in two, that of 3 in one.
async fn used(clock: &Arc<ManualClock>) -> (Arc<Hooked<Between>>, CrashDisk) {
    let (store, disk) = (Between::over(memory()), CrashDisk::new());
    people(&*store, 1..=6).await;
    let layer = opened(&store, &disk, clock, 0).await;
    for (follower, target) in [(1, 4), (2, 5), (3, 6)] {
        done(&layer, follow(follower, target)).await;
    }
    for last in [3, 2, 1] {
        layer.catch_up().await.unwrap();
        for user in 1..=last {
            assert!(!follows(&layer, user, 6 - user / 3).await);
        }
        clock.advance(20_000);
    }
    layer.catch_up().await.unwrap();
    layer.close().await.unwrap();
    (store, disk)
}

async fn opened(
    store: &Arc<Hooked<Between>>,
    disk: &CrashDisk,
    clock: &Arc<ManualClock>,
    refill: usize,
) -> cached::Store {
    let options = Options { refill_max: refill, ttl: Duration::from_secs(600), ..by_hand() };
    let surroundings = Surroundings {
        clock: Arc::clone(clock) as _,
        uptime: Arc::clone(clock) as _,
        disk: Some(Arc::new(disk.clone())),
    };
    cached::Store::open(Arc::clone(store) as _, options, surroundings).await
}

#[test]
fn of_a_snapshot_that_is_too_old_the_most_wanted_rows_are_read_first() {
    block_on(async {
        let clock = clock();
        for refill in 0..=3 {
            let (store, disk) = used(&clock).await;
            // What the snapshot says is no longer so, and the events that told of it are gone.
            for (follower, target) in [(1, 4), (2, 5), (3, 6)] {
                done(&*store, Operation::Unfollow { follower: Key(follower), target: Key(target) }).await;
            }
            let last = store.last_event(0).await.unwrap();
            store.hooks.dropped.store(last.0, Ordering::SeqCst);
            let layer = opened(&store, &disk, &clock, refill).await;
            until("rows are read again", || layer.figures().fills == refill as u64).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let known = [(1, 4), (2, 5), (3, 6)].map(|(follower, target)| peek(&layer, follower, target));
            let expected = [1, 2, 3].map(|user| if user <= refill { Answer::No } else { Answer::Unknown });
            assert_eq!(known, expected, "{refill} rows");
        }
    });
}

#[test]
fn rows_that_are_past_their_time_at_the_start_are_read_again() {
    block_on(async {
        let clock = clock();
        let (store, disk) = used(&clock).await;
        clock.advance(600_000);
        let layer = opened(&store, &disk, &clock, 10).await;
        until("rows are read again", || layer.figures().fills == 3).await;
        assert_eq!([(1, 4), (2, 5), (3, 6)].map(|(one, other)| peek(&layer, one, other)), [Answer::Yes; 3]);
    });
}
