//! Whom two users both follow, from memory: only when both rows are held, are whole, and count at this moment.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use entourage_model::{Key, Operation};
use entourage_store::{Answer, Store, StoreExt as _, layers::cached::Options};
use entourage_testkit::cached::*;
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

/// Whom both follow, in order; `None` if memory does not know.
fn common(store: &dyn Store, one: i64, other: i64) -> Option<Vec<i64>> {
    let mut found = vec![Key(-7)];
    let knows = store.peek_common(Key(one), Key(other), usize::MAX, &mut found);
    assert!(knows || found == [Key(-7)], "who does not know appends nothing");
    let mut found: Vec<i64> = found.into_iter().skip(1).map(|key| key.0).collect();
    found.sort_unstable();
    knows.then_some(found)
}

const fn erase(user: i64) -> Operation {
    Operation::Erase { key: Key(user), created: None }
}

/// 1 follows 3 to 6, 2 follows 5 to 8.
async fn overlapping(store: &dyn Store) {
    people(store, 1..=10).await;
    for step in 0..4 {
        done(store, follow(1, 3 + step)).await;
        done(store, follow(2, 5 + step)).await;
    }
}

/// Both rows are held.
async fn bring_in(layer: &dyn Store) {
    assert!(follows(layer, 1, 3).await && follows(layer, 2, 8).await);
}

#[test]
fn half_of_what_is_needed_is_nothing_and_what_is_missing_comes_in() {
    block_on(async {
        let store = Between::over(memory());
        overlapping(&*store).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        assert!(follows(&layer, 1, 3).await);
        store.hooks.hold_scans(true);
        assert_eq!(common(&layer, 1, 2), None, "one row is held, the other is not");
        assert_eq!(common(&layer, 2, 1), None);
        store.hooks.scan_has_read().await;
        assert_eq!(common(&layer, 1, 2), None, "it is on its way");
        store.hooks.release_scans();
        let began = std::time::Instant::now();
        while common(&layer, 1, 2).is_none() {
            assert!(began.elapsed() < Duration::from_secs(5), "the other row never comes");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let scans = store.hooks.scans();
        assert_eq!((common(&layer, 1, 2), common(&layer, 2, 1)), (Some(vec![5, 6]), Some(vec![5, 6])));
        assert_eq!(common(&layer, 1, 1), Some(vec![3, 4, 5, 6]));
        let mut some = Vec::new();
        assert!(layer.peek_common(Key(1), Key(1), 3, &mut some) && some.len() == 3);
        assert_eq!(store.hooks.scans(), scans, "nothing is read for what is held");
    });
}

#[test]
fn writes_of_this_server_and_of_others_change_it() {
    block_on(async {
        let store = Between::over(memory());
        overlapping(&*store).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        bring_in(&layer).await;
        done(&layer, follow(1, 7)).await;
        done(&layer, unfollow(2, 5)).await;
        assert_eq!(common(&layer, 1, 2), Some(vec![6, 7]));
        done(&layer, block(6, 1)).await;
        assert_eq!(common(&layer, 1, 2), Some(vec![7]), "a block takes the follow away");
        done(&*store, follow(2, 4)).await;
        layer.catch_up().await.unwrap();
        assert_eq!(common(&layer, 1, 2), Some(vec![4, 7]));
        done(&layer, erase(4)).await;
        assert_eq!(common(&layer, 1, 2), Some(vec![7]), "who is erased is nobody, though the edges are there");
        done(&layer, erase(2)).await;
        assert_eq!(common(&layer, 1, 2), None, "nor does who is erased follow anybody");
    });
}

#[test]
fn who_was_erased_before_the_rows_were_read_is_nobody() {
    block_on(async {
        let store = Between::over(memory());
        overlapping(&*store).await;
        done(&*store, erase(5)).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        bring_in(&layer).await;
        assert_eq!(common(&layer, 1, 2), Some(vec![6]));
    });
}

#[test]
fn a_shut_gate_rows_past_their_time_and_rows_too_large_are_unknown() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        overlapping(&*store).await;
        let options =
            Options { row_edges_max: 5, ttl: Duration::from_secs(60), patience: Duration::from_millis(5), ..by_hand() };
        let layer = on_clock(Arc::clone(&store) as _, options, &clock).await;
        bring_in(&layer).await;
        clock.advance(2_000);
        assert_eq!(common(&layer, 1, 2), Some(vec![5, 6]), "as old as it may be");
        clock.advance(1);
        assert_eq!(common(&layer, 1, 2), None, "two seconds without news");
        layer.catch_up().await.unwrap();
        assert_eq!(common(&layer, 1, 2), Some(vec![5, 6]));

        store.hooks.listed_to.store(store.last_event(0).await.unwrap().0, Ordering::SeqCst);
        let outcome = done(&*store, follow(1, 7)).await;
        assert_eq!(common(&layer, 1, 2), Some(vec![5, 6]), "without a token it may be two seconds old");
        assert!(layer.has_seen(&outcome.watermark).await.unwrap());
        assert_eq!(common(&layer, 1, 2), None, "somebody has a token for more than memory knows");
        store.hooks.listed_to.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!(common(&layer, 1, 2), Some(vec![5, 6, 7]));

        done(&layer, follow(1, 8)).await;
        assert_eq!(common(&layer, 1, 2), None, "a row that grew too large");
        assert_eq!(common(&layer, 2, 2), Some(vec![5, 6, 7, 8]));
        clock.advance(60_000);
        layer.catch_up().await.unwrap();
        assert_eq!(common(&layer, 2, 2), None, "a row past its time");
    });
}

#[test]
fn a_row_that_a_write_overtakes_is_in_no_intersection() {
    block_on(async {
        let store = Between::over(memory());
        overlapping(&*store).await;
        let layer = Arc::new(over(Arc::clone(&store) as _, by_hand()).await);
        assert!(follows(&*layer, 2, 8).await);
        store.hooks.hold_scans(true);
        assert_eq!(common(&*layer, 1, 2), None);
        store.hooks.scan_has_read().await;
        // Between the read and the fill.
        done(&*layer, unfollow(1, 5)).await;
        done(&*layer, follow(1, 7)).await;
        store.hooks.release_scans();
        let began = std::time::Instant::now();
        let found = loop {
            match common(&*layer, 1, 2) {
                Some(found) => break found,
                None => assert!(began.elapsed() < Duration::from_secs(5), "the row never comes"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(found, [6, 7]);
    });
}

#[test]
fn a_restart_knows_it_from_the_snapshot() {
    block_on(async {
        let (store, disk) = (Between::over(memory()), CrashDisk::new());
        let open = async || over_with_disk(Arc::clone(&store) as _, by_hand(), Arc::new(disk.clone())).await;
        overlapping(&*store).await;
        let layer = open().await;
        bring_in(&layer).await;
        layer.close().await.unwrap();
        done(&*store, follow(2, 3)).await;
        let scans = store.hooks.scans();
        let layer = open().await;
        assert_eq!(common(&layer, 1, 2), Some(vec![3, 5, 6]), "with what happened since");
        assert_eq!(store.hooks.scans(), scans);
    });
}

/// Ordinals begin anew all the time, and are given to others each time: no name may be somebody else's.
#[test]
fn clearing_everything_meanwhile_mixes_nobody_up() {
    block_on(async {
        let store = Between::over(memory());
        overlapping(&*store).await;
        // Any event of another server is more than is worth reading.
        let layer = Arc::new(over(Arc::clone(&store) as _, Options { replay_max: 0, ..by_hand() }).await);
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (layer, is_over) = (Arc::clone(&layer), Arc::clone(&is_over));
                std::thread::spawn(move || {
                    let mut known = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        for target in 3..=8 {
                            let wrong = if target <= 6 { Answer::No } else { Answer::Yes };
                            assert_ne!(peek(&*layer, 1, target), wrong, "1 → {target}");
                        }
                        if let Some(found) = common(&*layer, 1, 2) {
                            assert_eq!(found, [5, 6]);
                            known += 1;
                        }
                    }
                    known
                })
            })
            .collect();
        for round in 0..600 {
            done(&*store, if round % 2 == 0 { follow(9, 10) } else { unfollow(9, 10) }).await;
            layer.catch_up().await.unwrap();
            // In another order each time.
            for step in 0..3 {
                follows(&*layer, 1 + (round + step) % 3, 4).await;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let known: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(known > 100, "{known} were known");
        assert_eq!(layer.figures().clears, 600);
    });
}
