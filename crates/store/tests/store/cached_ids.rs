//! Ids of named users, which the layer learns as they are read: known without a round trip, and never of somebody else.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch};
use entourage_store::{Store, layers::cached::Options};
use entourage_testkit::cached::*;
use entourage_testkit::conformance::block_on;

const NAMED: Key = Key(-7);

/// News count for as long as the test takes.
fn patient() -> Options {
    Options { lag_max: Duration::from_secs(600), ..by_hand() }
}

async fn put(store: &dyn Store, key: Key, id: &str) {
    let id = UserId::try_from(id).unwrap();
    done(store, Operation::PutUser { key, id, patch: UserPatch::default(), overwrite: Overwrite::Replace }).await;
}

async fn erase(store: &dyn Store, key: Key) {
    done(store, Operation::Erase { key, created: None }).await;
}

/// Reads the user, as a service does that is not sure.
async fn read(layer: &dyn Store, key: Key) {
    layer.get_users(&[key]).await.unwrap();
}

#[test]
fn an_id_that_was_read_is_known() {
    block_on(async {
        let store = Between::over(memory());
        put(&*store, NAMED, "ada").await;
        put(&*store, Key(5), "5").await;
        let layer = over(Arc::clone(&store) as _, patient()).await;
        assert!(!layer.peek_id(NAMED, b"ada"), "nothing is known yet");
        layer.get_users(&[NAMED, Key(5), Key(-8)]).await.unwrap();
        let reads = store.hooks.user_reads.load(Ordering::SeqCst);
        assert!(layer.peek_id(NAMED, b"ada"));
        for (key, id) in [(NAMED, &b"eve"[..]), (NAMED, b"ad"), (NAMED, b""), (Key(-8), b"ada"), (Key(5), b"ada")] {
            assert!(!layer.peek_id(key, id), "{key} {id:?}");
        }
        assert_eq!(store.hooks.user_reads.load(Ordering::SeqCst), reads, "nobody was asked");
    });
}

#[test]
fn whoever_is_erased_here_or_elsewhere_is_not_known_any_more() {
    block_on(async {
        for elsewhere in [false, true] {
            let store = Between::over(memory());
            put(&*store, NAMED, "ada").await;
            let layer = over(Arc::clone(&store) as _, patient()).await;
            read(&layer, NAMED).await;
            assert!(layer.peek_id(NAMED, b"ada"));
            if elsewhere {
                erase(&*store, NAMED).await;
                layer.catch_up().await.unwrap();
            } else {
                erase(&layer, NAMED).await;
            }
            assert!(!layer.peek_id(NAMED, b"ada"));
            // As two ids may that have one hash.
            put(&*store, NAMED, "eve").await;
            layer.catch_up().await.unwrap();
            assert!(!layer.peek_id(NAMED, b"ada") && !layer.peek_id(NAMED, b"eve"));
            read(&layer, NAMED).await;
            assert!(!layer.peek_id(NAMED, b"ada") && layer.peek_id(NAMED, b"eve"));
        }
    });
}

#[test]
fn an_id_that_was_read_before_it_went_is_not_held() {
    block_on(async {
        for elsewhere in [false, true] {
            let store = Between::over(memory());
            put(&*store, NAMED, "ada").await;
            let layer = Arc::new(over(Arc::clone(&store) as _, patient()).await);
            store.hooks.hold_users.store(true, Ordering::SeqCst);
            let reading = tokio::spawn({
                let layer = Arc::clone(&layer);
                async move { read(&*layer, NAMED).await }
            });
            store.hooks.users.arrived.acquire().await.unwrap().forget();
            if elsewhere {
                erase(&*store, NAMED).await;
                layer.catch_up().await.unwrap();
            } else {
                erase(&*layer, NAMED).await;
            }
            store.hooks.hold_users.store(false, Ordering::SeqCst);
            store.hooks.users.released.add_permits(1);
            reading.await.unwrap();
            assert!(!layer.peek_id(NAMED, b"ada"), "it was read before the user went");
        }
    });
}

/// The layer has heard nothing of the store yet, and what comes first does not tell who went before.
#[test]
fn an_id_that_was_read_before_the_first_news_is_not_held() {
    block_on(async {
        let store = Between::over(memory());
        put(&*store, NAMED, "ada").await;
        store.hooks.events_fail.store(true, Ordering::SeqCst);
        let layer = over(Arc::clone(&store) as _, patient()).await;
        read(&layer, NAMED).await;
        erase(&*store, NAMED).await;
        store.hooks.events_fail.store(false, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert!(!layer.peek_id(NAMED, b"ada"));
    });
}

#[test]
fn an_id_that_was_being_read_when_everything_began_anew_is_not_held() {
    block_on(async {
        let store = Between::over(memory());
        put(&*store, NAMED, "ada").await;
        let layer = Arc::new(over(Arc::clone(&store) as _, patient()).await);
        read(&*layer, NAMED).await;
        store.hooks.hold_users.store(true, Ordering::SeqCst);
        let reading = tokio::spawn({
            let layer = Arc::clone(&layer);
            async move { read(&*layer, NAMED).await }
        });
        store.hooks.users.arrived.acquire().await.unwrap().forget();
        erase(&*store, NAMED).await;
        store.hooks.dropped.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert!(!layer.peek_id(NAMED, b"ada"), "nothing that was known counts");
        store.hooks.users.released.add_permits(1);
        reading.await.unwrap();
        assert!(!layer.peek_id(NAMED, b"ada"), "it was read before");
    });
}

#[test]
fn nothing_is_known_of_ids_while_the_news_are_old() {
    block_on(async {
        let (store, clock) = (Between::over(memory()), clock());
        put(&*store, NAMED, "ada").await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        read(&layer, NAMED).await;
        assert!(layer.peek_id(NAMED, b"ada"));
        clock.advance(3_000);
        assert!(!layer.peek_id(NAMED, b"ada"));
        layer.catch_up().await.unwrap();
        assert!(layer.peek_id(NAMED, b"ada"));
    });
}

#[test]
fn ids_keep_to_their_part_of_the_budget() {
    block_on(async {
        let store = Between::over(memory());
        let options = Options { budget_bytes: 80_000, ..patient() };
        let layer = over(Arc::clone(&store) as _, options).await;
        for number in 1..=2_000 {
            put(&*store, Key(-number), &format!("somebody-{number}")).await;
            read(&layer, Key(-number)).await;
        }
        let known =
            (1..=2_000i64).filter(|number| layer.peek_id(Key(-number), format!("somebody-{number}").as_bytes()));
        let known = known.count();
        assert!((20..200).contains(&known), "{known} of 2000 are known");
        assert!((2_000..=10_000).contains(&layer.figures().bytes), "{:?}", layer.figures());
    });
}
