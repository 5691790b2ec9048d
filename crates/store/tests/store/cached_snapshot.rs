//! A restart with what the last process held: believed only when it is whole, of this store, and can be brought up to
//! date.

use std::{sync::Arc, time::Duration};

use entourage_memory as memory;
use entourage_model::{Clock, Key, Kind, ManualClock, Operation, Secret};
use entourage_store::{
    Answer, Identity, Store, StoreExt as _,
    disk::Disk as _,
    layers::cached::{self, Options, Surroundings},
};
use entourage_testkit::cached::*;
use entourage_testkit::{
    conformance::{block_on, hooked::Hooked},
    crash_disk::{CrashDisk, Image},
};

const NAME: &str = "cache.snapshot";

/// A store with a few edges, and a snapshot of all rows that have any.
async fn snapshot() -> (Arc<Hooked<Between>>, CrashDisk) {
    let (store, disk) = (Between::over(memory()), CrashDisk::new());
    people(&*store, 1..=6).await;
    let layer = over_with_disk(Arc::clone(&store) as _, by_hand(), Arc::new(disk.clone())).await;
    for (follower, target) in [(1, 2), (1, 3), (2, 1), (-1, 1)] {
        if follower > 0 {
            done(&layer, follow(follower, target)).await;
        }
        assert_eq!(follows(&layer, follower, target).await, follower > 0);
    }
    done(&layer, block(5, 1)).await;
    layer.get_edges(Kind::Block, &[(Key(5), Key(1))]).await.unwrap();
    layer.close().await.unwrap();
    (store, disk)
}

async fn reopened(store: &Arc<Hooked<Between>>, disk: &CrashDisk) -> cached::Store {
    over_with_disk(Arc::clone(store) as _, by_hand(), Arc::new(disk.clone())).await
}

fn put(disk: &CrashDisk, bytes: &[u8]) {
    disk.create(NAME).unwrap().write_at(bytes, 0).unwrap();
}

#[test]
fn a_restart_knows_what_the_last_process_knew_and_what_happened_since() {
    block_on(async {
        let (store, disk) = snapshot().await;
        done(&*store, follow(1, 4)).await;
        done(&*store, Operation::Unfollow { follower: Key(1), target: Key(2) }).await;
        let scans = store.hooks.scans();
        let layer = reopened(&store, &disk).await;
        let expected = [(2, Answer::No), (3, Answer::Yes), (4, Answer::Yes), (5, Answer::No)];
        assert_eq!(expected.map(|(target, _)| (target, peek(&layer, 1, target))), expected);
        assert_eq!((peek(&layer, 2, 1), peek(&layer, 3, 1)), (Answer::Yes, Answer::Unknown));
        assert_eq!(layer.peek(Kind::Block, Key(5), Key(1)), Answer::Yes);
        assert_eq!(store.hooks.scans(), scans, "nothing was read again");
    });
}

#[test]
fn a_damaged_snapshot_is_none_whichever_bit_it_is() {
    block_on(async {
        let (store, disk) = snapshot().await;
        let whole = disk.contents(NAME).unwrap();
        done(&*store, follow(1, 4)).await;
        let check = async |bytes: &[u8]| {
            put(&disk, bytes);
            let layer = reopened(&store, &disk).await;
            assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
            assert!(follows(&layer, 1, 2).await && follows(&layer, 1, 4).await && !follows(&layer, 1, 5).await);
        };
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            check(&bytes).await;
        }
        for length in 0..whole.len() {
            check(&whole[..length]).await;
        }
        let longer: Vec<u8> = whole.iter().chain(&[0]).copied().collect();
        check(&longer).await;
    });
}

#[test]
fn a_snapshot_of_another_store_or_of_another_past_is_none() {
    block_on(async {
        let (_, disk) = snapshot().await;
        for epoch in [1, 2] {
            let identity = Identity { epoch, secret: Secret::from_bytes([7; 32]) };
            // As many events and more, but others, of another time.
            let store = Arc::new(memory::Store::new(identity, clock()));
            people(&*store, 1..=40).await;
            let layer = over_with_disk(store, by_hand(), Arc::new(disk.clone())).await;
            assert_eq!(peek(&layer, 1, 2), Answer::Unknown, "epoch {epoch}");
            assert!(!follows(&layer, 1, 2).await);
        }
        let shorter = Between::over(memory());
        people(&*shorter, 1..=2).await;
        let layer = reopened(&shorter, &disk).await;
        assert!(!follows(&layer, 1, 2).await);
    });
}

#[test]
fn a_snapshot_from_before_the_events_that_are_kept_is_none() {
    block_on(async {
        let (store, disk) = snapshot().await;
        done(&*store, Operation::Unfollow { follower: Key(1), target: Key(2) }).await;
        let last = store.last_event(0).await.unwrap();
        store.hooks.dropped.store(last.0, std::sync::atomic::Ordering::SeqCst);
        let layer = reopened(&store, &disk).await;
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert!(!follows(&layer, 1, 2).await);
    });
}

#[test]
fn the_time_between_counts_towards_the_life_of_a_row() {
    block_on(async {
        let (store, disk, clock) = (Between::over(memory()), CrashDisk::new(), clock());
        people(&*store, 1..=3).await;
        let open = async || {
            let uptime = Arc::new(ManualClock::new(clock.now())) as _;
            let surroundings =
                Surroundings { clock: Arc::clone(&clock) as _, uptime, disk: Some(Arc::new(disk.clone())) };
            let options = Options { ttl: Duration::from_secs(60), ..by_hand() };
            cached::Store::open(Arc::clone(&store) as _, options, surroundings).await
        };
        let layer = open().await;
        assert!(!follows(&layer, 1, 2).await);
        layer.close().await.unwrap();
        clock.advance(40_000);
        let layer = open().await;
        assert_eq!(peek(&layer, 1, 2), Answer::No);
        layer.close().await.unwrap();
        clock.advance(20_000);
        assert_eq!(peek(&open().await, 1, 2), Answer::Unknown);
        clock.advance(1);
        assert_eq!(peek(&open().await, 1, 2), Answer::Unknown);
    });
}

#[test]
fn a_crash_while_writing_leaves_the_old_one_or_the_new_one() {
    block_on(async {
        let (store, disk) = snapshot().await;
        let before = disk.operations();
        let layer = reopened(&store, &disk).await;
        done(&layer, follow(1, 4)).await;
        layer.catch_up().await.unwrap();
        layer.close().await.unwrap();
        let whole = disk.operations() - before;
        assert!(whole >= 4, "create, write, sync, rename");
        for cut in 0..whole {
            let (store, disk) = snapshot().await;
            let layer = reopened(&store, &disk).await;
            done(&layer, follow(1, 4)).await;
            layer.catch_up().await.unwrap();
            disk.crash_after(disk.operations() + cut);
            layer.close().await.unwrap();
            for seed in 0..6 {
                let layer = reopened(&store, &disk.image(Image::Random(seed))).await;
                for (target, answer) in [(2, Answer::Yes), (4, Answer::Yes), (5, Answer::No)] {
                    let seen = peek(&layer, 1, target);
                    assert!(seen == answer || seen == Answer::Unknown, "cut at {cut}, {seed}: {target} is {seen:?}");
                    assert_eq!(follows(&layer, 1, target).await, answer == Answer::Yes);
                }
            }
        }
    });
}

#[test]
fn a_disk_that_refuses_costs_no_answer() {
    block_on(async {
        let (store, disk) = snapshot().await;
        disk.crash_after(disk.operations());
        let layer = reopened(&store, &disk).await;
        assert!(follows(&layer, 1, 2).await);
        layer.close().await.unwrap();
    });
}
