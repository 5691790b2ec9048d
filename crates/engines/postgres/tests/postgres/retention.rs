//! Retention in PostgreSQL: idempotency records and events, with a clock that the test sets.

use std::{sync::Arc, time::Duration};

use crate::postgres_kit::{connect_at, fresh_schema, words::*};
use entourage_model::{Code, IdempotencyKey, Key, Kind, ManualClock, Millis, Sequence, Write};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Store, StoreExt as _};

const HOUR_MILLIS: u64 = 60 * 60 * 1000;

fn turned_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-05-01T00:00:00Z").unwrap()))
}

fn hours(hours: u64) -> Duration {
    Duration::from_millis(hours * HOUR_MILLIS)
}

fn with_key(follower: i64, target: i64, scope: u8) -> Write {
    let idempotency = Some(IdempotencyKey { scope: [scope; 16], request: 1 });
    Write { idempotency, ..Write::from(follow(follower, target)) }
}

async fn rows(schema: &str, table: &str) -> i64 {
    raw().await.query_one(&format!("SELECT count(*) FROM {schema}.{table}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn an_idempotency_key_is_free_again_after_its_time() {
    for (options, time) in [
        (Options::default(), 24 * HOUR_MILLIS),
        (Options { idempotency_ttl: Duration::from_secs(90), ..Options::default() }, 90_000),
    ] {
        let clock = turned_clock();
        let store = connect_at(&fresh_schema(), options, clock.clone()).await;
        people(&store, 1..=2).await;
        let write = with_key(1, 2, 7);
        store.commit(write.clone()).await.unwrap();
        clock.advance(time - 1);
        assert!(store.commit(write.clone()).await.unwrap().replayed);
        clock.advance(1);
        assert!(!store.commit(write.clone()).await.unwrap().replayed);
        assert!(store.commit(write).await.unwrap().replayed);
    }
}

#[tokio::test]
async fn records_past_their_time_go_and_the_others_stay() {
    let (schema, clock) = (fresh_schema(), turned_clock());
    let options = Options { idempotency_ttl: hours(1), ..Options::default() };
    let store = connect_at(&schema, options, clock.clone()).await;
    people(&store, 0..=6).await;
    for scope in 1..=3 {
        store.commit(with_key(i64::from(scope), 0, scope)).await.unwrap();
    }
    clock.advance(HOUR_MILLIS / 2);
    for scope in 4..=6 {
        store.commit(with_key(i64::from(scope), 0, scope)).await.unwrap();
    }
    clock.advance(HOUR_MILLIS / 2 + 2_000);
    assert_eq!(rows(&schema, "idempotency").await, 6);
    // Any commit will do, also a no-op.
    store.commit(follow(1, 0).into()).await.unwrap();
    assert_eq!(rows(&schema, "idempotency").await, 3);
    assert!(store.commit(with_key(4, 0, 4)).await.unwrap().replayed);
    assert!(!store.commit(with_key(1, 0, 1)).await.unwrap().replayed);
}

/// Six users, then a follow every hour for six hours; an event is kept for three.
async fn six_hours(schema: &str, clock: &Arc<ManualClock>) -> postgres::Store {
    let options = Options { log_retention: hours(3), ..Options::default() };
    let store = connect_at(schema, options, clock.clone()).await;
    people(&store, 0..=6).await;
    for follower in 1..=6 {
        clock.advance(HOUR_MILLIS);
        store.commit(follow(follower, 0).into()).await.unwrap();
    }
    clock.advance(2_000);
    store
}

#[tokio::test]
async fn events_past_retention_are_gone_and_say_where_to_resume() {
    let (schema, clock) = (fresh_schema(), turned_clock());
    let store = six_hours(&schema, &clock).await;
    // Kept is what came in the last three hours: follows 4 to 6, which are events 11 to 13.
    for after in [0, 1, 9] {
        let error = store.events_after(Sequence(after), 100).await.unwrap_err();
        assert_eq!((error.code(), error.resume()), (Code::EventsExpired, Some("10")), "{after}");
    }
    assert_eq!(store.events_after(Sequence(0), 0).await.unwrap(), []);
    let sequences =
        |events: Vec<entourage_model::Event>| events.iter().map(|event| event.sequence.0).collect::<Vec<_>>();
    assert_eq!(sequences(store.events_after(Sequence(10), 100).await.unwrap()), [11, 12, 13]);
    assert_eq!(sequences(store.events_after(Sequence(11), 1).await.unwrap()), [12]);
    assert_eq!(store.events_after(Sequence(13), 100).await.unwrap(), []);
    assert_eq!(rows(&schema, "events").await, 3);
    // The graph has forgotten nothing.
    assert_eq!(counts(&store, 0).await, (6, 0));
    assert_eq!(store.get_edges(Kind::Follow, &[(Key(1), Key(0))]).await.unwrap().iter().flatten().count(), 1);
    assert_clean(&store).await;
    // Nor has another process, which does not see the same hours pass.
    store.close().await.unwrap();
    let store = connect_at(&schema, Options::default(), turned_clock()).await;
    assert_eq!(store.events_after(Sequence(0), 100).await.unwrap_err().resume(), Some("10"));
    store.commit(unfollow(1, 0).into()).await.unwrap();
    assert_eq!(sequences(store.events_after(Sequence(10), 100).await.unwrap()), [11, 12, 13, 14]);
    assert_clean(&store).await;
}

#[tokio::test]
async fn all_events_may_go_and_the_next_ones_count_on() {
    let (schema, clock) = (fresh_schema(), turned_clock());
    let store = six_hours(&schema, &clock).await;
    clock.advance(4 * HOUR_MILLIS);
    assert_eq!(store.events_after(Sequence(12), 100).await.unwrap_err().resume(), Some("13"));
    assert_eq!(store.events_after(Sequence(13), 100).await.unwrap(), []);
    assert_eq!(rows(&schema, "events").await, 0);
    assert_clean(&store).await;
    store.commit(unfollow(6, 0).into()).await.unwrap();
    let events = store.events_after(Sequence(13), 100).await.unwrap();
    assert_eq!(events.iter().map(|event| event.sequence.0).collect::<Vec<_>>(), [14]);
    assert_clean(&store).await;
}

/// A server whose clock is behind writes old versions after new ones: those wait for the new ones to expire.
#[tokio::test]
async fn events_go_from_the_front_only() {
    let (schema, early, late) = (fresh_schema(), turned_clock(), turned_clock());
    let options = Options { log_retention: hours(3), ..Options::default() };
    let behind = connect_at(&schema, options, early.clone()).await;
    late.advance(2 * HOUR_MILLIS);
    let ahead = connect_at(&schema, options, late.clone()).await;
    people(&behind, 1..=2).await;
    people(&ahead, 3..=4).await;
    people(&behind, 5..=6).await;
    late.advance(2 * HOUR_MILLIS);
    assert_eq!(ahead.events_after(Sequence(0), 100).await.unwrap_err().resume(), Some("2"));
    assert_eq!(ahead.events_after(Sequence(2), 100).await.unwrap().len(), 4);
    assert_clean(&ahead).await;
}

/// Where nobody reads events they are dropped all the same.
#[tokio::test]
async fn nothing_piles_up_unread() {
    let (schema, clock) = (fresh_schema(), turned_clock());
    let store = six_hours(&schema, &clock).await;
    store.commit(follow(1, 0).into()).await.unwrap();
    assert_eq!((rows(&schema, "events").await, rows(&schema, "outbox").await), (3, 0));
    assert_clean(&store).await;
}

#[tokio::test]
async fn verify_misses_an_event_that_retention_cannot_explain() {
    for sabotage in [
        "DELETE FROM events WHERE sequence = 11; UPDATE relay SET dropped = 11",
        "UPDATE relay SET dropped = 9",
        "UPDATE relay SET dropped = 11",
        "DELETE FROM events; UPDATE relay SET dropped = 12",
        "UPDATE edges SET position = position + 1 WHERE follower = 6",
    ] {
        let (schema, clock) = (fresh_schema(), turned_clock());
        let store = six_hours(&schema, &clock).await;
        assert_eq!(store.events_after(Sequence(0), 1).await.unwrap_err().resume(), Some("10"));
        assert_clean(&store).await;
        raw().await.batch_execute(&format!("SET search_path TO {schema}; {sabotage}")).await.unwrap();
        let report = store.verify().await.unwrap();
        assert!(report.problems.iter().any(|problem| problem.check == "events"), "{sabotage}: {report:#?}");
    }
}
