//! One lock that somebody holds: who needs it waits, not longer than a request may, and nobody else does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::postgres_kit::{connect, fresh_schema, words::*};
use entourage_model::{Code, Key, Kind, List, Plane, Side};
use entourage_store::{Store, StoreExt as _, SystemClock};

/// Of a request; a wait is shorter.
const DEADLINE: Duration = Duration::from_secs(10);
const WAITING: usize = 64;

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// The lists are locked; users, records and the log are read all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_takes_not_every_connection() {
    let schema = fresh_schema();
    let store = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=9).await;
    store.commit(follow(1, 2).into()).await.unwrap();
    let stranger = raw().await;
    stranger.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.edges IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..WAITING {
        let store = Arc::clone(&store);
        waiting.spawn(async move {
            let began = Instant::now();
            let failed = if number % 2 == 0 {
                store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.err()
            } else {
                store.scan(List::new(Key(1), Plane::Follow, Side::Following), None, 10).await.err()
            };
            (failed.map(|error| error.code()), began.elapsed())
        });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut others = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        assert!(store.get_users(&[Key(1)]).await.unwrap()[0].is_some());
        store.progress(0).await.unwrap();
        others.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(waiting.try_join_next().is_none(), "they wait meanwhile");
    let ended = waiting.join_all().await;
    let longest = ended.iter().map(|(_, took)| *took).max().unwrap();
    assert!(ended.iter().all(|(code, _)| *code == Some(Code::Unavailable)), "{ended:?}");
    assert!(longest < DEADLINE, "{longest:?}");
    assert!(!store.is_away(), "a lock is no outage");
    stranger.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap()[0].is_some());
    let others = p99(others);
    println!("| a locked table | {WAITING} readers of it, longest {longest:.1?} | other reads p99 {others:.1?} |");
    assert!(others < Duration::from_secs(1), "{others:?}");
}

/// A stranger has the advisory locks of a hot user; everybody else writes, and everybody reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_a_hot_user_holds_up_only_writes_that_need_it() {
    let schema = fresh_schema();
    let store = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=100).await;
    // The locks of a follow of the hot user, seen while one waits for the table.
    let (stranger, looking) = (raw().await, raw().await);
    stranger.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.edges IN EXCLUSIVE MODE")).await.unwrap();
    let of_store = Arc::clone(&store);
    let first = tokio::spawn(async move { of_store.commit(follow(1, 0).into()).await });
    let mut held = Vec::new();
    let locks = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks JOIN pg_stat_activity USING (pid) \
        WHERE locktype = 'advisory' AND granted AND application_name LIKE $1 || ' %'";
    while held.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let rows = looking.query(locks, &[&format!("entourage {schema}")]).await.unwrap();
        held = rows.iter().map(|row| row.get::<_, i64>(0)).collect();
    }
    stranger.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap();
    store.commit(unfollow(1, 0).into()).await.unwrap();
    stranger.batch_execute("BEGIN").await.unwrap();
    for number in &held {
        stranger.execute("SELECT pg_advisory_xact_lock($1)", &[number]).await.unwrap();
    }
    let began = Instant::now();
    let mut hot = tokio::task::JoinSet::new();
    for follower in 1..=20 {
        let store = Arc::clone(&store);
        hot.spawn(async move {
            let began = Instant::now();
            (store.commit(follow(follower, 0).into()).await.err().map(|error| error.code()), began.elapsed())
        });
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut target = 50;
    while began.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        store.get_edges(Kind::Follow, &[(Key(1), Key(0))]).await.unwrap();
        store.get_users(&[Key(0)]).await.unwrap();
        reads.push(asked.elapsed());
        let asked = Instant::now();
        target = if target == 100 { 51 } else { target + 1 };
        store.commit(follow(50, target).into()).await.unwrap();
        writes.push(asked.elapsed());
    }
    let ended = hot.join_all().await;
    let longest = ended.iter().map(|(_, took)| *took).max().unwrap();
    assert!(ended.iter().all(|(code, _)| *code == Some(Code::Unavailable)), "{ended:?}");
    assert!(longest < DEADLINE, "{longest:?}");
    assert!(!store.is_away());
    stranger.batch_execute("ROLLBACK").await.unwrap();
    store.commit(follow(1, 0).into()).await.unwrap();
    assert_clean(&*store).await;
    let (reads, writes) = (p99(reads), p99(writes));
    println!(
        "| a lock on a hot user | 20 follows of it, longest {longest:.1?} | reads p99 {reads:.1?}, other follows p99 {writes:.1?} |"
    );
    assert!(reads < Duration::from_secs(1) && writes < Duration::from_secs(1), "{reads:?} {writes:?}");
}
