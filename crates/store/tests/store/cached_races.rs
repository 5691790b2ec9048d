//! What makes a cache wrong: reads that a write overtakes, news that do not come, news that are lost. For news out of their
//! order see `cached_order`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{
    EdgeValue, Event, EventPosition, Key, Kind, List, Operation, Outcome, Overwrite, Page, Place, Result, User, UserId,
    UserPatch, Watermark, Write,
};
use entourage_store::{Answer, Progress, Store, StoreExt as _, layers::cached::Options};
use entourage_testkit::cached::*;
use entourage_testkit::conformance::{
    block_on,
    hooked::{Hooked, Hooks},
};

#[test]
fn what_is_missing_is_unknown_and_what_was_read_is_known() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        done(&*store, follow(1, 2)).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert_eq!(peek(&layer, 1, 3), Answer::Unknown);
        assert!(!follows(&layer, 1, 3).await);
        assert_eq!((peek(&layer, 1, 2), peek(&layer, 1, 3)), (Answer::Yes, Answer::No));
        let asked = store.hooks.edge_reads();
        assert!(!follows(&layer, 1, 3).await && !follows(&layer, 1, 99).await);
        assert_eq!(store.hooks.edge_reads(), asked, "a no costs nothing");
        assert!(follows(&layer, 1, 2).await);
        assert_eq!(store.hooks.edge_reads(), asked + 1, "a yes asks for its value");
    });
}

#[test]
fn a_fill_that_a_write_overtakes_is_not_held() {
    block_on(async {
        for through_layer in [true, false] {
            a_write_between_read_and_fill(memory(), through_layer).await;
        }
    });
}

#[test]
fn many_misses_are_one_read() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=60).await;
        done(&*store, follow(1, 2)).await;
        let layer = Arc::new(over(Arc::clone(&store) as _, by_hand()).await);
        store.hooks.hold_scans(true);
        let readers: Vec<_> = (3..=52)
            .map(|target| {
                let layer = Arc::clone(&layer);
                tokio::spawn(async move { follows(&*layer, 1, target).await })
            })
            .collect();
        store.hooks.scan_has_read().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(store.hooks.scans(), 1, "nobody else reads while one does");
        store.hooks.release_scans();
        for reader in readers {
            assert!(!reader.await.unwrap());
        }
        // One list of follows, one of requests, one of parked ones.
        assert_eq!((store.hooks.scans(), store.hooks.edge_reads()), (3, 0));
    });
}

#[test]
fn a_reader_that_gives_up_leaves_nobody_waiting() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        let layer = Arc::new(over(Arc::clone(&store) as _, by_hand()).await);
        store.hooks.hold_scans(true);
        let reader = tokio::spawn({
            let layer = Arc::clone(&layer);
            async move { follows(&*layer, 1, 2).await }
        });
        store.hooks.scan_has_read().await;
        reader.abort();
        let other = tokio::spawn({
            let layer = Arc::clone(&layer);
            async move { follows(&*layer, 1, 3).await }
        });
        store.hooks.release_scans();
        assert!(!tokio::time::timeout(Duration::from_secs(5), other).await.unwrap().unwrap());
    });
}

#[test]
fn past_two_seconds_without_news_nobody_is_told_from_memory() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        people(&*store, 1..=3).await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        assert!(!follows(&layer, 1, 2).await);
        store.hooks.events_fail.store(true, Ordering::SeqCst);
        // Another server's write, of which nothing is heard.
        done(&*store, follow(1, 2)).await;
        layer.catch_up().await.unwrap_err();
        clock.advance(2_000);
        assert_eq!(peek(&layer, 1, 2), Answer::No, "as old as it may be");
        clock.advance(1);
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        let mut many = [Answer::Yes; 2];
        layer.peek_all(Kind::Follow, &[(Key(1), Key(2)), (Key(1), Key(3))], &mut many);
        assert_eq!(many, [Answer::Unknown; 2]);
        assert!(follows(&layer, 1, 2).await, "the store is asked");
        store.hooks.events_fail.store(false, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::Yes);
    });
}

#[test]
fn events_that_wait_behind_an_open_transaction_are_no_news() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        people(&*store, 1..=3).await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        assert!(!follows(&layer, 1, 2).await);
        store.hooks.listed_to.store(store.last_event(0).await.unwrap().0, Ordering::SeqCst);
        done(&*store, follow(1, 2)).await;
        for _ in 0..5 {
            clock.advance(500);
            layer.catch_up().await.unwrap();
        }
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown, "asking often does not make old news new");
        assert!(follows(&layer, 1, 2).await);
        store.hooks.listed_to.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::Yes);
    });
}

#[test]
fn a_token_that_memory_does_not_cover_sends_reads_to_the_store() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        let options = Options { patience: Duration::from_millis(20), ..by_hand() };
        let layer = over(Arc::clone(&store) as _, options).await;
        assert!(!follows(&layer, 1, 2).await);
        let stuck = store.last_event(0).await.unwrap().0;
        store.hooks.listed_to.store(stuck, Ordering::SeqCst);
        let outcome = done(&*store, follow(1, 2)).await;
        assert_eq!(peek(&layer, 1, 2), Answer::No, "without a token it may be two seconds old");
        assert!(layer.has_seen(&outcome.watermark).await.unwrap());
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert!(follows(&layer, 1, 2).await);
        store.hooks.listed_to.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::Yes);
        assert!(layer.has_seen(&outcome.watermark).await.unwrap());
        assert!(
            !layer.has_seen(&Watermark::at(outcome.watermark.sequence().plus(5))).await.unwrap(),
            "nobody has written that"
        );
    });
}

#[test]
fn two_servers_see_each_others_writes_within_an_interval_and_at_once_with_the_token() {
    block_on(async {
        let store = memory();
        let options = Options { interval: Duration::from_millis(20), ..Options::default() };
        let (one, other) = (over(Arc::clone(&store), options).await, over(Arc::clone(&store), options).await);
        people(&one, 1..=3).await;
        assert!(!follows(&one, 1, 2).await && !follows(&other, 1, 2).await);
        for round in 0..50 {
            let (operation, now, wrong) = match round % 2 {
                0 => (follow(1, 2), Answer::Yes, Answer::No),
                _ => (unfollow(1, 2), Answer::No, Answer::Yes),
            };
            let outcome = done(&one, operation).await;
            assert_ne!(peek(&one, 1, 2), wrong, "the writing server sees it at once");
            if round % 3 == 0 {
                assert!(other.has_seen(&outcome.watermark).await.unwrap());
                assert_ne!(peek(&other, 1, 2), wrong, "with the token so does every other");
                assert_eq!(follows(&other, 1, 2).await, now == Answer::Yes);
            } else {
                let began = std::time::Instant::now();
                while peek(&other, 1, 2) != now {
                    assert!(began.elapsed() < Duration::from_secs(2), "never heard of");
                    follows(&other, 1, 2).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
}

#[test]
fn lost_events_clear_everything() {
    block_on(async {
        for lost in [true, false] {
            let store = Between::over(memory());
            people(&*store, 1..=3).await;
            let options = Options { replay_max: 5, ..by_hand() };
            let layer = over(Arc::clone(&store) as _, options).await;
            assert!(!follows(&layer, 1, 2).await);
            done(&*store, follow(1, 2)).await;
            if lost {
                store.hooks.dropped.store(store.last_event(0).await.unwrap().0, Ordering::SeqCst);
            } else {
                // More than is worth reading.
                for _ in 0..3 {
                    done(&*store, unfollow(1, 2)).await;
                    done(&*store, follow(1, 2)).await;
                }
            }
            layer.catch_up().await.unwrap();
            assert_eq!(peek(&layer, 1, 2), Answer::Unknown, "nothing is held any more");
            assert!(follows(&layer, 1, 2).await);
            assert_eq!(peek(&layer, 1, 2), Answer::Yes);
        }
    });
}

/// No gap, no error, only an event that says something else.
#[test]
fn a_change_that_nobody_heard_of_is_seen_when_the_row_is_past_its_time() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        people(&*store, 1..=3).await;
        let options = Options { ttl: Duration::from_secs(60), ..by_hand() };
        let layer = on_clock(Arc::clone(&store) as _, options, &clock).await;
        assert!(!follows(&layer, 1, 2).await);
        store.hooks.events_lie.store(true, Ordering::SeqCst);
        done(&*store, follow(1, 2)).await;
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::No, "nobody can know");
        clock.advance(60_000);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert!(follows(&layer, 1, 2).await);
        assert_eq!(peek(&layer, 1, 2), Answer::Yes);
    });
}

/// Events stand still while this server writes more than it wants to remember.
#[test]
fn changes_past_those_that_are_remembered_shut_the_gate_until_the_events_have_brought_them() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        let layer = over(Arc::clone(&store) as _, Options { changes_max: 10, ..by_hand() }).await;
        assert!(!follows(&layer, 1, 2).await);
        store.hooks.listed_to.store(store.last_event(0).await.unwrap().0, Ordering::SeqCst);
        for other in 11..=20 {
            people(&*store, other..=other).await;
            done(&layer, follow(1, other)).await;
        }
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 20), peek(&layer, 1, 2)), (Answer::Yes, Answer::No), "ten are remembered");
        done(&layer, follow(1, 2)).await;
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 20), peek(&layer, 1, 2)), (Answer::Unknown, Answer::Unknown), "eleven are not");
        assert!(follows(&layer, 1, 2).await, "the store answers");
        store.hooks.listed_to.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 20), peek(&layer, 1, 2)), (Answer::Yes, Answer::Yes));
    });
}

/// Events fail, so that none ever passes a change.
#[test]
fn changes_are_not_remembered_without_bound_while_events_fail() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=30).await;
        let layer = over(Arc::clone(&store) as _, Options { changes_max: 10, ..by_hand() }).await;
        assert!(!follows(&layer, 1, 2).await);
        store.hooks.events_fail.store(true, Ordering::SeqCst);
        for other in 3..=12 {
            done(&layer, follow(1, other)).await;
        }
        assert_eq!((peek(&layer, 1, 12), peek(&layer, 1, 2)), (Answer::Yes, Answer::No), "ten are remembered");
        done(&layer, follow(1, 13)).await;
        layer.catch_up().await.unwrap_err();
        assert_eq!((peek(&layer, 1, 12), peek(&layer, 1, 2)), (Answer::Unknown, Answer::Unknown), "eleven are not");
        assert!(follows(&layer, 1, 13).await, "the store answers");
        store.hooks.events_fail.store(false, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 13), peek(&layer, 1, 2)), (Answer::Yes, Answer::No));
    });
}

/// The other server's accept comes between the lists of a row.
#[test]
fn a_request_that_is_accepted_while_the_row_is_read_is_never_neither() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        let private = UserPatch { private: Some(true), ..UserPatch::default() };
        let (key, id, overwrite) = (Key(2), UserId::from(2), Overwrite::Replace);
        done(&*store, Operation::PutUser { key, id, patch: private, overwrite }).await;
        done(&*store, follow(1, 2)).await;
        let layer = Arc::new(over(Arc::clone(&store) as _, by_hand()).await);
        store.hooks.hold_scans(true);
        let reader = tokio::spawn({
            let layer = Arc::clone(&layer);
            async move { follows(&*layer, 1, 3).await }
        });
        // After the first list, and before each of the others.
        for round in 0..3 {
            store.hooks.scan_has_read().await;
            if round == 1 {
                done(&*store, Operation::Accept { target: Key(2), follower: Key(1) }).await;
            }
            store.hooks.go_on.released.add_permits(1);
        }
        store.hooks.release_scans();
        assert!(!reader.await.unwrap());
        let (kind, pair) = (Kind::Follow, (Key(1), Key(2)));
        assert!(layer.get_edges(kind, &[pair]).await.unwrap()[0].is_some(), "it was never gone");
        assert_eq!(peek(&*layer, 1, 2), Answer::Yes);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&*layer, 1, 2), Answer::Yes);
    });
}

/// A store in whose place an older one stands from some moment on.
struct Restored {
    older: Arc<dyn Store>,
    is_restored: AtomicBool,
}

impl Restored {
    fn choose<'a>(&'a self, inner: &'a dyn Store) -> &'a dyn Store {
        if self.is_restored.load(Ordering::SeqCst) { &*self.older } else { inner }
    }
}

#[async_trait]
impl Hooks for Restored {
    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        self.choose(inner).commit(write).await
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.choose(inner).get_edges(kind, pairs).await
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.choose(inner).get_users(keys).await
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.choose(inner).scan(list, after, limit).await
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.choose(inner).events(after, limit).await
    }

    async fn progress(&self, inner: &dyn Store, partition: u16) -> Result<Progress> {
        self.choose(inner).progress(partition).await
    }
}

#[test]
fn a_store_that_went_back_is_believed_again() {
    block_on(async {
        let (newer, older) = (memory(), memory());
        for store in [&newer, &older] {
            people(&**store, 1..=3).await;
        }
        let restored = Restored { older, is_restored: AtomicBool::new(false) };
        let store = Arc::new(Hooked::new(newer, restored));
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        for _ in 0..20 {
            done(&layer, follow(1, 2)).await;
            done(&layer, unfollow(1, 2)).await;
        }
        let outcome = done(&layer, follow(1, 3)).await;
        layer.catch_up().await.unwrap();
        assert!(follows(&layer, 1, 3).await && layer.has_seen(&outcome.watermark).await.unwrap());
        store.hooks.is_restored.store(true, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert!(!follows(&layer, 1, 3).await && !follows(&layer, 1, 2).await, "the store is asked");
        assert_eq!((peek(&layer, 1, 3), peek(&layer, 1, 2)), (Answer::No, Answer::No), "and believed");
        // Its watermarks are below what was covered before.
        assert!(done(&layer, follow(1, 2)).await.watermark.sequence() < outcome.watermark.sequence());
        assert_eq!(peek(&layer, 1, 2), Answer::Yes, "a write is seen at once");
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 3), peek(&layer, 1, 2)), (Answer::No, Answer::Yes));
    });
}

#[test]
fn rows_past_their_time_and_rows_too_large_are_unknown() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        people(&*store, 1..=10).await;
        let options = Options { row_edges_max: 3, ttl: Duration::from_secs(60), ..by_hand() };
        let layer = on_clock(Arc::clone(&store) as _, options, &clock).await;
        assert!(!follows(&layer, 1, 2).await);
        clock.advance(59_999);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::No);
        clock.advance(1);
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert!(!follows(&layer, 1, 2).await);
        for target in 2..=4 {
            done(&layer, follow(1, target)).await;
        }
        assert_eq!((peek(&layer, 1, 4), peek(&layer, 1, 5)), (Answer::Yes, Answer::No));
        done(&layer, follow(1, 5)).await;
        assert_eq!((peek(&layer, 1, 4), peek(&layer, 1, 9)), (Answer::Unknown, Answer::Unknown));
        let scans = store.hooks.scans();
        for target in 2..=10 {
            assert_eq!(follows(&layer, 1, target).await, target <= 5);
        }
        assert_eq!(store.hooks.scans(), scans, "it is not read again and again");
    });
}

#[test]
fn blocks_are_known_in_both_directions_from_two_rows() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=200).await;
        done(&*store, block(7, 1)).await;
        done(&*store, block(1, 8)).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        let pairs: Vec<_> = (2..=200).flat_map(|other| [(Key(1), Key(other)), (Key(other), Key(1))]).collect();
        let found = layer.get_edges(Kind::Block, &pairs).await.unwrap();
        assert_eq!(store.hooks.scans(), 2, "whom the viewer blocks, and who blocks the viewer");
        for (&(a, b), edge) in pairs.iter().zip(found) {
            let blocks = (a, b) == (Key(7), Key(1)) || (a, b) == (Key(1), Key(8));
            assert_eq!(edge.is_some(), blocks);
            assert_eq!(layer.peek(Kind::Block, a, b), if blocks { Answer::Yes } else { Answer::No });
        }
        done(&layer, Operation::Unblock { actor: Key(7), target: Key(1) }).await;
        done(&layer, block(9, 1)).await;
        assert_eq!(layer.peek(Kind::Block, Key(7), Key(1)), Answer::No);
        assert_eq!(layer.peek(Kind::Block, Key(9), Key(1)), Answer::Yes);
    });
}
