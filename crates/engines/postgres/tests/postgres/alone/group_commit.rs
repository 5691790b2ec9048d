//! Batches: one bad write harms no other, a lock of another server holds up nobody else, and older schemas are taken over.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::postgres_kit::{connect, connect_with, fresh_schema, words::*};
use entourage_model::{Code, EventBody, IdempotencyKey, Key, Kind, Sequence, Write};
use entourage_postgres::Options;
use entourage_store::{Store, StoreExt as _, SystemClock};
use tokio::task::JoinSet;

/// Whoever follows 13 fails inside PostgreSQL.
async fn with_a_trap(schema: &str) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(connect(schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=100).await;
    let trap = format!(
        "SET search_path TO {schema}; \
         CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trap'; END $$; \
         CREATE TRIGGER trap BEFORE INSERT ON edges FOR EACH ROW WHEN (NEW.target = 13) EXECUTE FUNCTION trap()"
    );
    raw().await.batch_execute(&trap).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_write_harms_no_other() {
    let schema = fresh_schema();
    let store = with_a_trap(&schema).await;
    let target = |follower| if follower == 40 { 13 } else { 0 };
    let outcomes =
        race(&[Arc::clone(&store)], (20..=83).map(|follower| follow(follower, target(follower)).into()).collect())
            .await;
    assert_eq!((created(&outcomes), refused(&outcomes, Code::Internal)), (63, 1), "{outcomes:?}");
    assert_eq!(counts(&*store, 0).await, (63, 0));
    // In one call: the others are written in their order.
    let writes: Vec<Write> = [follow(1, 2), follow(1, 13), unfollow(1, 2), follow(1, 3)].map(Write::from).into();
    let outcomes = store.commit_all(writes).await;
    assert_eq!(refused(&outcomes, Code::Internal), 1);
    assert_eq!(outcomes[1].as_ref().unwrap_err().code(), Code::Internal);
    assert!(outcomes[2].as_ref().unwrap().reply.changed());
    let left = store.get_edges(Kind::Follow, &[(Key(1), Key(2)), (Key(1), Key(3))]).await.unwrap();
    assert_eq!(left.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    assert_clean(&*store).await;
}

/// A batch of another server that stands still in the middle has the locks of its users, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_server_holds_up_only_who_needs_it() {
    let schema = fresh_schema();
    let one: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    let other: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*one, 0..=60).await;
    one.commit(follow(1, 2).into()).await.unwrap();
    let mut blocker = raw().await;
    let held = blocker.transaction().await.unwrap();
    held.batch_execute(&format!("SELECT 1 FROM {schema}.counts WHERE user_key = 1 FOR UPDATE")).await.unwrap();
    let commit = |store: &Arc<dyn Store>, write: Write| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.commit(write).await })
    };
    let stuck = commit(&other, follow(1, 3).into());
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The same user from here: a lock of the other server is in the way.
    let waiting: Vec<_> = (4..=9).map(|target| commit(&one, follow(1, target).into())).collect();
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for follower in 10..=60 {
        let store = Arc::clone(if follower % 2 == 0 { &one } else { &other });
        tasks.spawn(async move { store.commit(follow(follower, 0).into()).await });
    }
    assert_eq!(created(&tasks.join_all().await), 51);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!stuck.is_finished() && waiting.iter().all(|commit| !commit.is_finished()));
    held.rollback().await.unwrap();
    for commit in waiting.into_iter().chain([stuck]) {
        assert_eq!(created(&[commit.await.unwrap()]), 1);
    }
    assert_eq!(counts(&*one, 1).await, (0, 8));
    assert_clean(&*one).await;
}

/// Every order of writers and batch sizes has the same outcome.
#[tokio::test(flavor = "multi_thread")]
async fn one_users_writes_from_many_callers_are_exact_with_any_writers() {
    for (writers, batch) in [(1, 1), (1, 64), (4, 3), (4, 64)] {
        let options = Options { writers, batch, ..Options::default() };
        let store: Arc<dyn Store> = Arc::new(connect_with(&fresh_schema(), options, Arc::new(SystemClock)).await);
        people(&*store, 0..=64).await;
        let key = |request| Some(IdempotencyKey { scope: [7; 16], request });
        let mut writes: Vec<Write> = (1..=40).map(|target| follow(0, target).into()).collect();
        writes.extend((1..=40).map(|follower| Write::from(follow(follower, 0))));
        writes.extend((0..10).map(|_| Write { idempotency: key(1), ..Write::from(follow(50, 51)) }));
        writes.extend((0..5).map(|round| Write::from(set_private(60 + round % 2, round % 2 == 0))));
        let outcomes = race(&[Arc::clone(&store)], writes).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(counts(&*store, 0).await, (40, 40));
        let replayed = outcomes.iter().flatten().filter(|outcome| outcome.replayed).count();
        assert_eq!(replayed, 9);
        let changes: usize = outcomes.iter().flatten().map(|outcome| outcome.changes.len()).sum();
        events(&*store, 65 + changes).await;
        assert_clean(&*store).await;
    }
}

#[tokio::test]
async fn events_of_an_older_schema_are_numbered_once_no_older_server_is_left() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=3).await;
    store.close().await.unwrap();
    // As an older version would have left it: two changes without a number, and a server that is still alive.
    let older = format!(
        "SET search_path TO {schema}; UPDATE relay SET is_direct = false, sequence = 1; \
         ALTER TABLE outbox DROP CONSTRAINT outbox_is_closed; \
         INSERT INTO outbox (version, change) SELECT version, change FROM events WHERE sequence > 1 ORDER BY sequence; \
         DELETE FROM events WHERE sequence > 1; \
         INSERT INTO servers (number, holder, leased_until) VALUES (9, 9, clock_timestamp() + interval '1 minute')"
    );
    let raw = raw().await;
    raw.batch_execute(&older).await.unwrap();
    let clock = Arc::new(SystemClock);
    let url = crate::postgres_kit::url();
    let error = entourage_postgres::Store::connect(&url, &schema, Options::default(), clock).await.err().unwrap();
    assert!(error.detail().contains("1 older Entourage server"), "{error}");
    raw.batch_execute("DELETE FROM servers WHERE number = 9").await.unwrap();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    let listed = events(&store, 3).await;
    let keys: Vec<i64> = listed
        .iter()
        .map(|event| match event.body {
            EventBody::User { key, .. } => key.0,
            _ => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(keys, [1, 2, 3]);
    store.commit(follow(1, 2).into()).await.unwrap();
    assert_eq!(store.events_after(Sequence(3), 9).await.unwrap().len(), 1);
    assert_clean(&store).await;
    // An older server that comes back cannot write past the order.
    let late = raw.execute("INSERT INTO outbox (version, change) VALUES (1, '{}')", &[]).await;
    assert!(late.is_err());
}
