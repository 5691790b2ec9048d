//! What only PostgreSQL can get wrong: races between connections, processes on one schema, the outbox.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod postgres_kit;

use std::{sync::Arc, time::Duration};

use entourage_model::{
    Code, Event, EventBody, IdempotencyKey, Key, Kind, List, ManualClock, Millis, Operation, Outcome, Overwrite, Place,
    Reply, Result, Sequence, State, UserId, UserPatch, Version, Write,
};
use entourage_store::{Health, Store, SystemClock, backends::postgres};
use postgres_kit::{connect, fresh_schema, fresh_store, url};
use tokio::{sync::Barrier, task::JoinSet};
use tokio_postgres::NoTls;

const TASKS: usize = 64;
/// The sessions of one store.
const SESSIONS: &str = "(SELECT pid FROM pg_stat_activity WHERE application_name = $1)";

fn put(key: i64) -> Operation {
    let patch = UserPatch::default();
    Operation::PutUser { key: Key(key), id: UserId::from(key), patch, overwrite: Overwrite::Replace }
}

fn set_private(key: i64, private: bool) -> Operation {
    let patch = UserPatch { private: Some(private), ..UserPatch::default() };
    Operation::PutUser { key: Key(key), id: UserId::from(key), patch, overwrite: Overwrite::Merge }
}

fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: false, cap: None }
}

fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

fn block(actor: i64, target: i64) -> Operation {
    Operation::Block { actor: Key(actor), target: Key(target) }
}

async fn people(store: &dyn Store, keys: std::ops::RangeInclusive<i64>) {
    for outcome in store.commit_all(keys.map(|key| put(key).into()).collect()).await {
        outcome.unwrap();
    }
}

/// Every write from a task of its own, all let go at once.
async fn race(stores: &[Arc<dyn Store>], writes: Vec<Write>) -> Vec<Result<Outcome>> {
    let barrier = Arc::new(Barrier::new(writes.len()));
    let mut tasks = JoinSet::new();
    for (index, write) in writes.into_iter().enumerate() {
        let (store, barrier) = (Arc::clone(&stores[index % stores.len()]), Arc::clone(&barrier));
        tasks.spawn(async move {
            // Every connection is open before anybody starts.
            assert_eq!(store.health().await, Health::Ready);
            barrier.wait().await;
            store.commit(write).await
        });
    }
    tasks.join_all().await
}

fn created(outcomes: &[Result<Outcome>]) -> usize {
    let is_new =
        |outcome: &&Result<Outcome>| matches!(outcome, Ok(Outcome { reply: Reply::Edge { created: true, .. }, .. }));
    outcomes.iter().filter(is_new).count()
}

fn refused(outcomes: &[Result<Outcome>], code: Code) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Err(error) if error.code() == code)).count()
}

/// Waits until `wanted` events are listed; another test may hold the horizon back for a while.
async fn events(store: &dyn Store, wanted: usize) -> Vec<Event> {
    for _ in 0..20 {
        let listed = store.events(Sequence::ZERO, usize::MAX).await.unwrap();
        assert!(listed.len() <= wanted, "{} events of {wanted}", listed.len());
        for (index, event) in listed.iter().enumerate() {
            assert_eq!(event.sequence, Sequence(index as u64 + 1));
        }
        if listed.len() == wanted {
            return listed;
        }
    }
    panic!("{wanted} events never came");
}

async fn assert_clean(store: &dyn Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

async fn counts(store: &dyn Store, user: i64) -> (u64, u64) {
    let counts = store.get_counts(Key(user)).await.unwrap().unwrap();
    (counts.followers, counts.following)
}

async fn raw() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_follows_create_once_and_equal_unfollows_remove_once() {
    let store = fresh_store().await;
    people(&*store, 1..=2).await;
    let outcomes = race(&[Arc::clone(&store)], vec![follow(1, 2).into(); TASKS]).await;
    assert_eq!(created(&outcomes), 1);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(counts(&*store, 2).await, (1, 0));
    let outcomes = race(&[Arc::clone(&store)], vec![unfollow(1, 2).into(); TASKS]).await;
    let gone = |outcome: &&Result<Outcome>| matches!(outcome, Ok(Outcome { reply: Reply::Gone { changed: true }, .. }));
    assert_eq!(outcomes.iter().filter(gone).count(), 1);
    assert_eq!((counts(&*store, 1).await, counts(&*store, 2).await), ((0, 0), (0, 0)));
    events(&*store, 4).await;
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_is_exact_on_two_stores_of_one_schema() {
    let schema = fresh_schema();
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
    ];
    let tasks = TASKS as i64;
    people(&*stores[0], 1..=100 + tasks).await;
    for target in 2..=100 {
        stores[0].commit(follow(1, target).into()).await.unwrap();
    }
    let capped = |target| Operation::Follow { follower: Key(1), target: Key(target), quiet: false, cap: Some(100) };
    let outcomes = race(&stores, (101..=100 + tasks).map(|target| capped(target).into()).collect()).await;
    assert_eq!((created(&outcomes), refused(&outcomes, Code::FollowingLimit)), (1, TASKS - 1));
    assert_eq!(counts(&*stores[1], 1).await, (0, 100));
    // One less makes room for one more.
    stores[1].commit(unfollow(1, 2).into()).await.unwrap();
    assert_eq!(created(&race(&stores, (101..=100 + tasks).map(|target| capped(target).into()).collect()).await), 1);
    assert_clean(&*stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_against_follows_ends_without_an_edge() {
    let store = fresh_store().await;
    people(&*store, 1..=40).await;
    for pair in 0..20 {
        let (a, b) = (2 * pair + 1, 2 * pair + 2);
        let mut writes: Vec<Write> = (0..8).map(|_| follow(a, b).into()).collect();
        writes.extend((0..8).map(|_| Write::from(follow(b, a))));
        writes.insert(usize::try_from(pair).unwrap() % 16, block(b, a).into());
        let outcomes = race(&[Arc::clone(&store)], writes).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), refused(&outcomes, Code::Blocked));
        let left = store.get_edges(Kind::Follow, &[(Key(a), Key(b)), (Key(b), Key(a))]).await.unwrap();
        assert_eq!(left, [None, None]);
        assert_eq!((counts(&*store, a).await, counts(&*store, b).await), ((0, 0), (0, 0)));
    }
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_went_private_is_followed_only_by_request() {
    let store = fresh_store().await;
    let tasks = TASKS as i64;
    people(&*store, 0..=tasks).await;
    let mut writes: Vec<Write> = (1..=tasks).map(|follower| follow(follower, 0).into()).collect();
    writes.insert(TASKS / 2, set_private(0, true).into());
    for outcome in race(&[Arc::clone(&store)], writes).await {
        outcome.unwrap();
    }
    // In the order of the events nobody became a follower after the account went private.
    let mut private = false;
    for event in events(&*store, 2 * TASKS + 2).await {
        match event.body {
            EventBody::User { key: Key(0), existed: true, .. } => private = true,
            EventBody::Edge { after, .. } => {
                assert_eq!(after, Some(if private { State::Pending } else { State::Active }), "{event:?}");
            }
            EventBody::User { .. } => {}
        }
    }
    assert!(private);
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_have_one_effect_and_one_reply() {
    let store = fresh_store().await;
    people(&*store, 1..=3).await;
    let key = |request| Some(IdempotencyKey { scope: *b"scope of request", request });
    let write = Write { operation: follow(1, 2), idempotency: key(u64::MAX), floor: Version::ZERO };
    let outcomes = race(&[Arc::clone(&store)], vec![write.clone(); TASKS]).await;
    // The reply of the first is everyone's reply: all say `created`, one did it.
    assert_eq!(created(&outcomes), TASKS);
    let outcomes: Vec<Outcome> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.replayed).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.version == outcomes[0].version));
    store.commit(unfollow(1, 2).into()).await.unwrap();
    assert!(store.commit(write.clone()).await.unwrap().replayed);
    assert_eq!(store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap(), [None]);
    let other = Write { operation: follow(1, 3), idempotency: key(7), floor: Version::ZERO };
    assert_eq!(store.commit(other).await.unwrap_err().code(), Code::IdempotencyMismatch);
    events(&*store, 5).await;
}

/// Nothing but the key is shared, so nothing but its own lock can keep these apart.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_on_many_users_has_one_effect() {
    let store = fresh_store().await;
    people(&*store, 0..=TASKS as i64).await;
    let idempotency = Some(IdempotencyKey { scope: [9; 16], request: 1 });
    let write = |follower| Write { operation: follow(follower, 0), idempotency, floor: Version::ZERO };
    let outcomes = race(&[Arc::clone(&store)], (1..=TASKS as i64).map(write).collect()).await;
    let effects = |outcome: &&Result<Outcome>| outcome.as_ref().is_ok_and(|outcome| !outcome.replayed);
    assert_eq!((created(&outcomes), outcomes.iter().filter(effects).count()), (TASKS, 1));
    assert_eq!(counts(&*store, 0).await, (1, 0));
}

#[tokio::test]
async fn an_idempotency_key_is_free_again_after_a_day() {
    let start = Millis::parse_rfc3339("2026-05-01T00:00:00Z").unwrap();
    let clock = Arc::new(ManualClock::new(start));
    let store = connect(&fresh_schema(), clock.clone()).await;
    people(&store, 1..=2).await;
    let idempotency = Some(IdempotencyKey { scope: [7; 16], request: 1 });
    let write = Write { operation: follow(1, 2), idempotency, floor: Version::ZERO };
    store.commit(write.clone()).await.unwrap();
    clock.advance(24 * 60 * 60 * 1000 - 1);
    assert!(store.commit(write.clone()).await.unwrap().replayed);
    clock.advance(1);
    assert!(!store.commit(write.clone()).await.unwrap().replayed);
    assert!(store.commit(write).await.unwrap().replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_gapless_and_in_order_while_an_older_transaction_stays_open() {
    let schema = fresh_schema();
    let store: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=TASKS as i64).await;
    let users = TASKS + 1;
    events(&*store, users).await;
    // A writer that has its number and its outbox row, and does not commit yet.
    let mut slow = raw().await;
    let held = slow.transaction().await.unwrap();
    let insert = format!(
        "INSERT INTO {schema}.outbox (version, change) SELECT version, change FROM {schema}.events WHERE sequence = 1"
    );
    held.execute(&insert, &[]).await.unwrap();
    for outcome in race(&[Arc::clone(&store)], (1..=TASKS as i64).map(|a| follow(a, 0).into()).collect()).await {
        outcome.unwrap();
    }
    let listed = store.events(Sequence::ZERO, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), users, "what is younger than an open transaction waits");
    held.commit().await.unwrap();
    // The slow writer's row began first, so it is numbered first.
    let listed = events(&*store, users + 1 + TASKS).await;
    assert!(matches!(listed[users].body, EventBody::User { .. }), "{:?}", listed[users]);
    assert!(listed[users + 1..].iter().all(|event| matches!(event.body, EventBody::Edge { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_events_during_writes_never_see_a_gap_or_a_change_of_mind() {
    let schema = fresh_schema();
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
    ];
    people(&*stores[0], 1..=8).await;
    let mut tasks = JoinSet::new();
    for writer in 1..=8_i64 {
        let store = Arc::clone(&stores[usize::try_from(writer % 2).unwrap()]);
        tasks.spawn(async move {
            for round in 0..40 {
                let target = (writer + round % 7) % 8 + 1;
                let operation = if round % 3 == 2 { unfollow(writer, target) } else { follow(writer, target) };
                match store.commit(operation.into()).await {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.code(), Code::SelfFollow),
                }
            }
        });
    }
    let mut seen: Vec<Event> = Vec::new();
    let mut turn = 0;
    while !tasks.is_empty() {
        let after = seen.last().map_or(Sequence::ZERO, |event| event.sequence);
        let fresh = stores[turn % 2].events(after, 5).await.unwrap();
        for (index, event) in fresh.iter().enumerate() {
            assert_eq!(event.sequence, after.plus(index as u64 + 1));
        }
        seen.extend(fresh);
        turn += 1;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
    }
    let all = stores[0].events(Sequence::ZERO, usize::MAX).await.unwrap();
    assert_eq!(all[..seen.len()], seen[..]);
    assert_clean(&*stores[1]).await;
}

#[tokio::test]
async fn a_restart_with_the_clock_an_hour_back_goes_on_above() {
    let schema = fresh_schema();
    let now = Millis::parse_rfc3339("2026-05-01T12:00:00Z").unwrap();
    let store = connect(&schema, Arc::new(ManualClock::new(now))).await;
    people(&store, 1..=4).await;
    let mut last = store.commit(follow(1, 2).into()).await.unwrap().version;
    // Once with the last version in the outbox, once with it among the events; once closed, once just left.
    for relayed in [false, true] {
        if relayed {
            store.events(Sequence::ZERO, 1).await.unwrap();
            store.close().await.unwrap();
            assert!(store.commit(follow(2, 1).into()).await.is_err());
        }
        let back = Millis::parse_rfc3339("2026-05-01T11:00:00Z").unwrap();
        let store = connect(&schema, Arc::new(ManualClock::new(back))).await;
        let next = store.commit(follow(3, if relayed { 4 } else { 1 }).into()).await.unwrap().version;
        assert!(next > last, "{next} {last}");
        last = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_with_clocks_ten_minutes_apart_never_write_an_older_version() {
    let schema = fresh_schema();
    let behind = Millis::parse_rfc3339("2026-05-01T12:00:00Z").unwrap();
    let stores = [
        connect(&schema, Arc::new(ManualClock::new(behind.plus(600_000)))).await,
        connect(&schema, Arc::new(ManualClock::new(behind))).await,
    ];
    assert_eq!(stores[0].identity().epoch, stores[1].identity().epoch);
    assert_eq!(stores[0].identity().secret, stores[1].identity().secret);
    people(&stores[0], 1..=2).await;
    let mut last = Version::ZERO;
    let mut servers = std::collections::HashSet::new();
    for round in 0..20 {
        let operation = if round % 2 == 0 { follow(1, 2) } else { unfollow(1, 2) };
        let outcome = stores[(round / 2) % 2].commit(operation.into()).await.unwrap();
        assert!(outcome.reply.changed() && outcome.version > last);
        last = outcome.version;
        servers.insert(last.server());
        for store in &stores {
            assert!(store.covers(outcome.watermark).await.unwrap());
            let value = store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap()[0];
            assert_eq!(value.is_some(), round % 2 == 0);
        }
    }
    assert_eq!(servers.len(), 2, "each store has a server number of its own");
    assert_clean(&stores[1]).await;
}

#[tokio::test]
async fn a_watermark_is_covered_when_its_transaction_is_seen() {
    let store = fresh_store().await;
    let outcome = store.commit(put(1).into()).await.unwrap();
    assert!(store.covers(outcome.watermark).await.unwrap());
    assert!(!store.covers(Sequence(u64::MAX)).await.unwrap());
    let mut other = raw().await;
    let open = other.transaction().await.unwrap();
    let number: String = open.query_one("SELECT pg_current_xact_id()::text", &[]).await.unwrap().get(0);
    let number = Sequence(number.parse().unwrap());
    assert!(!store.covers(number).await.unwrap());
    open.commit().await.unwrap();
    assert!(store.covers(number).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_totals_agree_while_followers_come_and_go() {
    let store = fresh_store().await;
    people(&*store, 0..=40).await;
    for follower in 1..=20 {
        store.commit(follow(follower, 0).into()).await.unwrap();
    }
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..6 {
                for follower in 21..=40 {
                    let operation = if round % 2 == 0 { follow(follower, 0) } else { unfollow(follower, 0) };
                    store.commit(operation.into()).await.unwrap();
                }
            }
        })
    };
    let list = List::followers(Key(0));
    while !writer.is_finished() {
        let whole = store.scan(list, None, usize::MAX).await.unwrap();
        assert_eq!((whole.edges.len() as u64, whole.more), (whole.total, false));
        let mut seen = Vec::new();
        let mut after: Option<Place> = None;
        loop {
            let page = store.scan(list, after, 3).await.unwrap();
            seen.extend(page.edges.iter().map(|edge| edge.follower.0));
            after = page.edges.last().map(|edge| list.place(edge));
            if !page.more {
                break;
            }
        }
        let stable: Vec<i64> = seen.iter().copied().filter(|&follower| follower <= 20).collect();
        assert_eq!(stable, (1..=20).rev().collect::<Vec<_>>());
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }
    writer.await.unwrap();
    assert_clean(&*store).await;
}

#[tokio::test]
async fn counts_stay_exact_over_many_folds() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 0..=30).await;
    for round in 0..40 {
        let operation = |a| if round % 2 == 0 { follow(a, 0) } else { unfollow(a, 0) };
        for outcome in store.commit_all((1..=30).map(|a| operation(a).into()).collect()).await {
            outcome.unwrap();
        }
        assert_eq!(counts(&store, 0).await, (if round % 2 == 0 { 30 } else { 0 }, 0));
    }
    let left = format!("SELECT count(*) FROM {schema}.count_deltas");
    let left: i64 = raw().await.query_one(&left, &[]).await.unwrap().get(0);
    assert!(left < 1_100, "{left} of 2,400 deltas were never folded");
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
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
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

/// PostgreSQL ends a circle of waiting by failing one of its transactions: here, the store's.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_lost_a_deadlock_is_tried_again() {
    let schema = fresh_schema();
    // The store's sessions look for a circle after three seconds, the other one much later.
    let impatient = format!("{}?options=-cdeadlock_timeout%3D3s", url());
    let store = postgres::Store::connect(&impatient, &schema, Arc::new(SystemClock)).await.unwrap();
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
    // The commit has its advisory locks and waits for the table; asking for one of them closes the circle.
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
async fn more_callers_than_connections_wait_and_then_are_told() {
    let schema = fresh_schema();
    let store: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=24).await;
    let mut other = raw().await;
    let held = other.transaction().await.unwrap();
    held.batch_execute(&format!("LOCK TABLE {schema}.users IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let mut tasks = JoinSet::new();
    for follower in 1..=24 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.commit(follow(follower, 0).into()).await });
    }
    let mut told = Vec::new();
    while told.len() < 8 {
        told.extend(tasks.join_next().await.map(|joined| joined.unwrap()));
    }
    held.rollback().await.unwrap();
    assert_eq!(refused(&told, Code::Unavailable), 8, "{told:?}");
    assert_eq!(created(&tasks.join_all().await), 16);
    assert_eq!(counts(&*store, 0).await, (16, 0));
}

#[tokio::test]
async fn verify_finds_each_planted_disagreement() {
    let cases = [
        ("count", "INSERT INTO count_deltas (user_key, plane, side, total, quiet) VALUES (2, 0, 1, 1, 0)"),
        ("count", "DELETE FROM count_deltas WHERE user_key = 1"),
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
        store.commit(Operation::Mute { actor: Key(2), target: Key(1) }.into()).await.unwrap();
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

#[tokio::test]
async fn a_newer_schema_and_a_wrong_name_are_refused() {
    let schema = fresh_schema();
    connect(&schema, Arc::new(SystemClock)).await.close().await.unwrap();
    // A second time finds everything as it is.
    connect(&schema, Arc::new(SystemClock)).await.close().await.unwrap();
    let newer = format!(
        "INSERT INTO {schema}.entourage_migrations SELECT 999, 'future', applied_on, checksum \
         FROM {schema}.entourage_migrations WHERE version = 1"
    );
    raw().await.execute(&newer, &[]).await.unwrap();
    let clock = Arc::new(SystemClock);
    let error = postgres::Store::connect(&url(), &schema, clock.clone()).await.err().unwrap();
    assert!(error.detail().contains("version 999") && error.detail().contains("newer"), "{error}");
    let error = postgres::Store::connect(&url(), "x; drop schema public", clock.clone()).await.err().unwrap();
    assert_eq!(error.code(), Code::InvalidRequest);
    let error = postgres::Store::connect("postgres://127.0.0.1:1/x", "x", clock).await.err().unwrap();
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
