//! Faults, restarts, migrations, folding and `verify`: what only PostgreSQL can get wrong.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::postgres_kit::{connect, connect_at, fresh_schema, fresh_store, url, words::*};
use entourage_model::{Code, Key, Kind, ManualClock, Millis, Operation, Sequence, Watermark};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Health, Maintenance, Recounted, Store, StoreExt as _, SystemClock};
use tokio::task::JoinSet;

/// The sessions of one store.
const SESSIONS: &str = "(SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1 || ' %')";

#[tokio::test]
async fn a_restart_with_the_clock_seconds_back_goes_on_above() {
    let schema = fresh_schema();
    let now = Millis::parse_rfc3339("2026-05-01T12:00:00Z").unwrap();
    let store = connect_at(&schema, Options::default(), Arc::new(ManualClock::new(now))).await;
    people(&store, 1..=4).await;
    let mut last = store.commit(follow(1, 2).into()).await.unwrap().version;
    // Once closed, once just dropped.
    for relayed in [false, true] {
        if relayed {
            store.events_after(Sequence::ZERO, 1).await.unwrap();
            store.close().await.unwrap();
            assert!(store.commit(follow(2, 1).into()).await.is_err());
        }
        let back = Millis::parse_rfc3339("2026-05-01T11:59:56Z").unwrap();
        let store = connect_at(&schema, Options::default(), Arc::new(ManualClock::new(back))).await;
        let next = store.commit(follow(3, if relayed { 4 } else { 1 }).into()).await.unwrap().version;
        assert!(next > last, "{next} {last}");
        last = next;
    }
}

/// Every row goes on above itself; what has no past begins with the time.
#[tokio::test]
async fn a_restart_with_the_clock_an_hour_back_goes_on_above_in_every_row() {
    let schema = fresh_schema();
    let now = Millis::parse_rfc3339("2026-05-01T12:00:00Z").unwrap();
    let store = connect_at(&schema, Options::default(), Arc::new(ManualClock::new(now))).await;
    people(&store, 1..=2).await;
    let first = store.commit(follow(1, 2).into()).await.unwrap().version;
    store.close().await.unwrap();
    let back = Millis::parse_rfc3339("2026-05-01T11:00:00Z").unwrap();
    let store = connect_at(&schema, Options::default(), Arc::new(ManualClock::new(back))).await;
    let second = store.commit(unfollow(1, 2).into()).await.unwrap().version;
    let third = store.commit(follow(1, 2).into()).await.unwrap().version;
    assert!(first < second && second < third);
    assert_eq!(store.commit(put(3).into()).await.unwrap().version.millis(), back);
    assert_clean(&store).await;
}

#[tokio::test]
async fn a_watermark_is_covered_once_its_commit_is_seen() {
    let store = fresh_store().await;
    let outcome = store.commit(put(1).into()).await.unwrap();
    assert!(store.has_seen(&outcome.watermark).await.unwrap());
    assert!(!store.has_seen(&Watermark::at(Sequence(u64::MAX))).await.unwrap());
    let next = Watermark::new(outcome.watermark.lineage(), [outcome.watermark.sequence().next()]);
    assert!(!store.has_seen(&next).await.unwrap());
    // What changes nothing has seen everything so far, and waits for nothing.
    assert_eq!(store.commit(put(1).into()).await.unwrap().watermark, outcome.watermark);
    assert_eq!(store.commit(put(2).into()).await.unwrap().watermark, next);
    assert!(store.has_seen(&next).await.unwrap());
}

#[tokio::test]
async fn counts_stay_exact_over_many_folds() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 0..=30).await;
    let left = format!("SELECT count(*) FROM {schema}.count_deltas");
    let left = async || raw().await.query_one(&left, &[]).await.unwrap().get::<_, i64>(0);
    let mut folded = 0;
    for round in 0..40 {
        let operation = |a| if round % 2 == 0 { follow(a, 0) } else { unfollow(a, 0) };
        for outcome in store.commit_all((1..=30).map(|a| operation(a).into()).collect()).await {
            outcome.unwrap();
        }
        assert_eq!(counts(&store, 0).await, (if round % 2 == 0 { 30 } else { 0 }, 0));
        if round % 10 == 7 {
            folded += left().await;
            // A store that opens folds.
            connect(&schema, Arc::new(SystemClock)).await.close().await.unwrap();
            assert_eq!(left().await, 0);
            assert_eq!(counts(&store, 0).await, (if round % 2 == 0 { 30 } else { 0 }, 0));
        }
    }
    assert!(folded > 20, "{folded} deltas of a hot count");
    assert_clean(&store).await;
}

/// PostgreSQL plans the fold by what it knows of the table: that it was empty.
#[tokio::test]
async fn many_deltas_in_a_table_that_was_empty_are_folded() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 0..=1).await;
    store.commit(follow(1, 0).into()).await.unwrap();
    let client = raw().await;
    client.batch_execute(&format!("VACUUM ANALYZE {schema}.count_deltas")).await.unwrap();
    let deltas = format!(
        "INSERT INTO {schema}.count_deltas (user_key, plane, side, total, quiet) \
         SELECT 0, plane, side, sign, 0 FROM {schema}.counts, generate_series(1, 10000), unnest('{{1,-1}}'::bigint[]) sign \
         WHERE user_key = 0 LIMIT 20000"
    );
    assert_eq!(client.execute(&deltas, &[]).await.unwrap(), 20_000);
    let began = Instant::now();
    connect(&schema, Arc::new(SystemClock)).await.close().await.unwrap();
    println!("20,000 deltas folded in {:.2} s", began.elapsed().as_secs_f64());
    let left = client.query_one(&format!("SELECT count(*) FROM {schema}.count_deltas"), &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
    assert_eq!(counts(&store, 0).await, (1, 0));
    assert_clean(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_lose_no_acked_write_and_the_store_goes_on() {
    let schema = fresh_schema();
    let store: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=200).await;
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut acked = Vec::new();
            for follower in 1..=200 {
                if store.commit(follow(follower, 0).into()).await.is_ok() {
                    acked.push((Key(follower), Key(0)));
                }
            }
            acked
        })
    };
    let killer = raw().await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE $1 || ' %'";
    let mut killed = 0;
    while !writer.is_finished() {
        tokio::time::sleep(Duration::from_millis(30)).await;
        killed += killer.query_one(kill, &[&format!("entourage {schema}")]).await.unwrap().get::<_, i64>(0);
    }
    assert!(killed > 0);
    let acked = writer.await.unwrap();
    assert!(acked.len() > 100, "{} of 200 writes got through", acked.len());
    let edges = store.get_edges(Kind::Follow, &acked).await.unwrap();
    assert!(edges.iter().all(Option::is_some));
    assert_clean(&*store).await;
}

/// PostgreSQL resolves a deadlock by failing one of its transactions: here, the store's.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_lost_a_deadlock_is_tried_again() {
    let schema = fresh_schema();
    // The store's sessions check for a deadlock after three seconds, the other one much later.
    let impatient = format!("{}?options=-cdeadlock_timeout%3D3s", url());
    let store = postgres::Store::connect(&impatient, &schema, Options::default(), Arc::new(SystemClock)).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    people(&*store, 1..=2).await;
    let mut other = raw().await;
    let waiting = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN {SESSIONS}");
    let held = other.transaction().await.unwrap();
    held.batch_execute(&format!("SET deadlock_timeout = '1min'; LOCK TABLE {schema}.users IN ACCESS EXCLUSIVE MODE"))
        .await
        .unwrap();
    let commit = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.commit(follow(1, 2).into()).await })
    };
    let session = format!("entourage {schema}");
    while held.query_one(&waiting, &[&session]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The commit has its advisory locks and waits for the table; requesting one of them closes the cycle.
    let advisory = format!(
        "SELECT pg_advisory_xact_lock((classid::bigint << 32) | objid::bigint) FROM pg_locks \
         WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND pid IN {SESSIONS} LIMIT 1"
    );
    let taken = held.query(&advisory, &[&session]).await.expect("the store's transaction gives way");
    assert_eq!(taken.len(), 1);
    assert!(!commit.is_finished());
    held.rollback().await.unwrap();
    assert_eq!(created(&[commit.await.unwrap()]), 1);
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_behind_a_held_table_are_told_in_time_and_readers_do_not_wait() {
    let schema = fresh_schema();
    let store: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=40).await;
    let mut other = raw().await;
    let held = other.transaction().await.unwrap();
    held.batch_execute(&format!("LOCK TABLE {schema}.counts IN EXCLUSIVE MODE")).await.unwrap();
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for follower in 1..=40 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.commit(follow(follower, 0).into()).await });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let read = Instant::now();
    for _ in 0..20 {
        store.get_edges(Kind::Follow, &[(Key(1), Key(0))]).await.unwrap();
    }
    assert!(read.elapsed() < Duration::from_secs(2), "{:?}", read.elapsed());
    let told = tasks.join_all().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(refused(&told, Code::Unavailable), 40, "{told:?}");
    held.rollback().await.unwrap();
    for outcome in store.commit_all((1..=40).map(|follower| follow(follower, 0).into()).collect()).await {
        outcome.unwrap();
    }
    assert_eq!(counts(&*store, 0).await, (40, 0));
    assert_clean(&*store).await;
}

#[tokio::test]
async fn verify_finds_each_planted_disagreement() {
    let cases = [
        ("count", "INSERT INTO count_deltas (user_key, plane, side, total, quiet) VALUES (2, 0, 1, 1, 0)"),
        ("count", "DELETE FROM counts WHERE user_key = 1"),
        ("count", "UPDATE edges SET state = 3 WHERE follower = 1"),
        ("events", "UPDATE edges SET position = position + 1"),
        ("events", "UPDATE users SET version = version + 1 WHERE key = 1"),
        ("events", "DELETE FROM events WHERE sequence = 2"),
        ("events", "DELETE FROM events WHERE sequence = 4"),
        ("events", "UPDATE events SET version = 1 WHERE sequence = 4"),
        ("edge", "DELETE FROM users WHERE key = 2"),
        ("block", "UPDATE edges SET kind = 0, state = 0 WHERE follower = 2"),
    ];
    for (check, sabotage) in cases {
        let schema = fresh_schema();
        let store = connect(&schema, Arc::new(SystemClock)).await;
        people(&store, 1..=2).await;
        for operation in [follow(1, 2), unfollow(1, 2), follow(1, 2)] {
            store.commit(operation.into()).await.unwrap();
        }
        store.commit(Operation::Mute { actor: Key(2), target: Key(1), expires_at: None }.into()).await.unwrap();
        if check == "block" {
            store.commit(block(1, 2).into()).await.unwrap();
        }
        assert_clean(&store).await;
        let client = raw().await;
        client.batch_execute(&format!("SET search_path TO {schema}; {sabotage}")).await.unwrap();
        let report = store.verify().await.unwrap();
        assert!(report.problems.iter().any(|problem| problem.check == check), "{sabotage}: {report:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_sets_counts_right_while_others_write_and_recount() {
    let schema = fresh_schema();
    let store = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 1..=40).await;
    store.commit(follow(1, 2).into()).await.unwrap();
    let sabotage = format!(
        "SET search_path TO {schema}; \
         INSERT INTO count_deltas (user_key, plane, side, total, quiet) VALUES (2, 0, 1, 7, 3), (9, 0, 0, 1, 0); \
         DELETE FROM counts WHERE user_key = 1"
    );
    raw().await.batch_execute(&sabotage).await.unwrap();
    assert_eq!(store.recount(Some(Key(9))).await.unwrap(), Recounted { users: 1, corrected: 1 });
    let mut recounts = JoinSet::new();
    let mut writers = JoinSet::new();
    for worker in 0..4 {
        let recounting = Arc::clone(&store);
        recounts.spawn(async move { recounting.recount(None).await.unwrap().corrected });
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for other in (3..=40).filter(|other| other % 4 == worker) {
                store.commit(follow(other, 2).into()).await.unwrap();
            }
        });
    }
    assert_eq!(recounts.join_all().await.into_iter().sum::<u64>(), 2);
    writers.join_all().await;
    assert_clean(&*store).await;
    assert_eq!(counts(&*store, 2).await, (39, 0));
    assert_eq!(store.recount(None).await.unwrap(), Recounted { users: 40, corrected: 0 });
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_address_are_refused() {
    let clock = Arc::new(SystemClock);
    let error = postgres::Store::connect(&url(), "x; drop schema public", Options::default(), clock.clone())
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::InvalidRequest);
    let error =
        postgres::Store::connect("postgres://127.0.0.1:1/x", "x", Options::default(), clock).await.err().unwrap();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connect_to_a_new_schema_at_once() {
    let schema = fresh_schema();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let schema = schema.clone();
        tasks.spawn(async move { connect(&schema, Arc::new(SystemClock)).await });
    }
    let stores = tasks.join_all().await;
    for store in &stores {
        assert_eq!(store.identity().secret, stores[0].identity().secret);
        assert_eq!(store.health().await, Health::Ready);
    }
}
