//! Large batches: committed by one thread while the next are decided by another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::embedded_kit::open_on;
use entourage_embedded::Options;
use entourage_model::{Code, Key, List, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_store::Store as _;
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

fn small() -> Options {
    Options { segment_bytes: 256 << 10, frame_bytes: 64 << 10, ..Options::default() }
}

/// Jobs of a few writes each are batches of their own here, committed by one thread while the next are decided by
/// another: whatever one batch did, the next one must have seen.
#[test]
fn batches_on_their_way_are_seen_by_the_next_ones() {
    let disk = CrashDisk::new();
    let options = Options { large_batch: 4, checkpoint_entries: 300, ..small() };
    let store = Arc::new(open_on(&disk, options).expect("the store opens"));
    let run = async {
        let users = (0..20).map(put_user).collect();
        assert!(store.commit_all(users).await.iter().all(Result::is_ok));
        let follow = |follower, target| {
            let (follower, target) = (Key(follower), Key(target));
            Operation::Follow { follower, target, quiet: Some(false), cap: Some(7), park: false }.into()
        };
        // Many callers want the same edges; each user may have seven.
        let callers = (0..32).map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut made = 0;
                for follower in 0..20 {
                    let writes = (1..10).map(|step| follow(follower, (follower + step) % 20)).collect();
                    let results = store.commit_all(writes).await;
                    made += results.iter().flatten().filter(|outcome| outcome.reply.changed()).count();
                }
                made
            })
        });
        let mut made = 0;
        for caller in callers.collect::<Vec<_>>() {
            made += caller.await.expect("the caller ends");
        }
        assert_eq!(made, 20 * 7, "every edge is made once, and seven for each");
        let report = store.verify().await.expect("verify runs");
        assert!(report.is_clean(), "{report:?}");
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(run);
    drop(store);
    let again = open_on(&disk, options).expect("the store opens again");
    assert_eq!(again.edges(), 20 * 7);
}

/// The disk refuses a segment while batches are on their way: those decided on top of a failed one fail with it, and
/// afterwards numbers and edges are as if they had never been asked for.
#[test]
fn batches_on_top_of_a_failed_one_fail_with_it() {
    let disk = CrashDisk::new();
    let options = Options {
        large_batch: 2,
        segment_bytes: 4 << 10,
        frame_bytes: 1 << 10,
        prepare_ahead: false,
        ..Options::tiny()
    };
    let store = Arc::new(open_on(&disk, options).expect("the store opens"));
    let run = async {
        assert!(store.commit_all((0..100).map(put_user).collect()).await.iter().all(Result::is_ok));
        let mut refused = 0;
        for round in 0..20 {
            disk.set_capacity((round % 2 == 0).then_some(0));
            let callers = (0..8).map(|caller| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let writes = (0..40)
                        .map(|step| {
                            let number = round * 320 + caller * 40 + step;
                            let (follower, target) = (number % 100, (number + 1 + number / 100) % 100);
                            let (follower, target) = (Key(follower), Key(target));
                            Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false }.into()
                        })
                        .collect();
                    store.commit_all(writes).await
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                for result in caller.await.expect("the caller ends") {
                    match result.map_err(|error| error.code()) {
                        Ok(_) | Err(Code::SelfFollow) => {}
                        Err(Code::StorageFull) => refused += 1,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        }
        assert!(refused > 0, "the disk was never full");
        disk.set_capacity(None);
        let report = store.verify().await.expect("verify runs");
        assert!(report.is_clean(), "{report:?}");
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(run);
    let edges = store.edges();
    drop(store);
    assert_eq!(open_on(&disk, options).expect("the store opens again").edges(), edges);
}

fn put_user(number: i64) -> Write {
    Operation::PutUser {
        key: Key(number),
        id: UserId::from(number),
        patch: UserPatch::default(),
        overwrite: Overwrite::Keep,
    }
    .into()
}

/// A checkpoint exchanges the blocks of a few lists at a time, and drops the tails of a shard of lists when all are done.
#[test]
fn lists_that_are_read_while_they_are_folded_have_nobody_twice() {
    const SHARD: i64 = 256;
    const LISTS: i64 = 400;
    let options = Options { checkpoint_entries: 300, ..Options::default() };
    let store = Arc::new(open_on(&CrashDisk::new(), options).expect("the store opens"));
    block_on(async {
        for result in store.commit_all((0..SHARD * LISTS).map(put_user).collect()).await {
            result.unwrap();
        }
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
            thread::spawn(move || {
                for number in (0..LISTS).cycle() {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let page = block_on(store.scan(List::followers(Key(number * SHARD)), None, 100)).unwrap();
                    let mut followers: Vec<Key> = page.edges.iter().map(|edge| edge.follower).collect();
                    followers.sort_unstable();
                    followers.dedup();
                    let found = (followers.len(), page.total);
                    assert_eq!(found, (page.edges.len(), page.edges.len() as u64), "{:?}", page.edges);
                }
            })
        })
        .collect();
    let ended = Instant::now() + Duration::from_secs(2);
    for round in (1..80).cycle().take_while(|_| Instant::now() < ended) {
        let write = |number: i64| {
            let (follower, target) = (Key((number + round) % LISTS * SHARD), Key(number * SHARD));
            // Lists stay short.
            Write::from(match round % 2 {
                0 => Operation::Unfollow { follower: Key((number + round - 1) % LISTS * SHARD), target },
                _ => Operation::Follow { follower, target, quiet: None, cap: None, park: false },
            })
        };
        block_on(store.commit_all((0..LISTS).map(write).collect()));
    }
    is_over.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.join().expect("nobody is there twice");
    }
}
