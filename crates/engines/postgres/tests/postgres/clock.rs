//! The database's clock: a server whose own is wrong stores nothing, deletes nothing and harms nobody, and goes on when it is
//! right again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Clock, Code, IdempotencyKey, Key, Kind, Millis, Sequence, Version, Write};
use entourage_postgres as postgres;
use entourage_store::{Health, Store, StoreExt as _, SystemClock, Unhealthy};

use crate::postgres_kit::{connect, fresh_schema, words::*};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// A heartbeat is heard of within this time, also on a machine with other work.
const PROMPT: Duration = Duration::from_millis(1_000);
/// How far server clocks are off.
const OFF: [i64; 4] = [10 * MINUTE, 8 * DAY, -60 * MINUTE, -8 * DAY];

/// The clock of a server, which is off by some milliseconds.
#[derive(Default)]
struct OffClock(AtomicI64);

impl OffClock {
    fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

impl Clock for OffClock {
    fn now(&self) -> Millis {
        Millis::from_since_2000(SystemClock.now().since_2000().saturating_add_signed(self.0.load(Ordering::SeqCst)))
    }
}

fn with_key(follower: i64, target: i64, scope: u8) -> Write {
    let idempotency = Some(IdempotencyKey { scope: [scope; 16], request: 1 });
    Write { idempotency, ..Write::from(follow(follower, target)) }
}

async fn is_wrong(store: &postgres::Store) -> bool {
    match store.health().await {
        Health::Ready => false,
        Health::Degraded(Unhealthy::WrongClock(detail)) => {
            assert!(detail.contains("clock is ") && detail.contains("NTP"), "{detail}");
            true
        }
        other => panic!("{other:?}"),
    }
}

/// Reads go on, writes are refused.
async fn takes_no_writes(store: &postgres::Store) {
    for write in [follow(1, 3).into(), unfollow(1, 2).into(), put(9).into(), with_key(1, 3, 8)] {
        let error = store.commit(write).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.detail().contains("clock"), "{error}");
    }
    assert_eq!(counts(store, 2).await, (1, 0));
    assert!(store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap()[0].is_some());
}

/// Everything that was there is there: three users, a follow with its key, and the events of all of them.
async fn has_lost_nothing(store: &postgres::Store) {
    assert_eq!(store.events_after(Sequence::ZERO, 100).await.unwrap().len(), 4);
    let key = with_key(1, 2, 7).idempotency.unwrap();
    let replies = store.replay_all(&[key]).await;
    assert!(matches!(&replies[..], [Ok(Some(_))]), "{replies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_wrong_from_the_start_harms_nobody() {
    for off in OFF {
        let schema = fresh_schema();
        let right = connect(&schema, Arc::new(SystemClock)).await;
        people(&right, 1..=3).await;
        right.commit(with_key(1, 2, 7)).await.unwrap();
        let clock = Arc::new(OffClock::default());
        clock.set(off);
        let wrong = connect(&schema, Arc::clone(&clock) as _).await;
        assert!(is_wrong(&wrong).await, "{off}");
        // Each of these deletes what is past retention.
        for _ in 0..3 {
            takes_no_writes(&wrong).await;
            has_lost_nothing(&wrong).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        let difference = wrong.clock().now().since_2000().abs_diff(SystemClock.now().since_2000());
        assert!(difference < 2_000, "{off}: what is over is judged by the database's time, {difference} ms off");
        has_lost_nothing(&right).await;
        assert!(!is_wrong(&right).await);
        right.commit(follow(2, 1).into()).await.unwrap();
        right.commit(unfollow(2, 1).into()).await.unwrap();
        // It heals by itself.
        clock.set(0);
        assert!(!is_wrong(&wrong).await);
        let version = wrong.commit(follow(1, 3).into()).await.unwrap().version;
        assert!(version.millis().since_2000().abs_diff(SystemClock.now().since_2000()) < 5_000, "{off}");
        assert!(wrong.commit(with_key(1, 2, 7)).await.unwrap().replayed);
        assert_clean(&right).await;
    }
}

/// It has measured a right clock a moment ago: the commit itself finds out.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_is_noticed_by_the_commit() {
    for off in OFF {
        let (schema, clock) = (fresh_schema(), Arc::new(OffClock::default()));
        let store = connect(&schema, Arc::clone(&clock) as _).await;
        people(&store, 1..=3).await;
        store.commit(with_key(1, 2, 7)).await.unwrap();
        clock.set(off);
        let error = store.commit(follow(1, 3).into()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{off}: {error}");
        takes_no_writes(&store).await;
        has_lost_nothing(&store).await;
        // Without heartbeats and probes a write asks again, once a second.
        clock.set(0);
        let began = Instant::now();
        while let Err(error) = store.commit(follow(1, 3).into()).await {
            assert!(error.code() == Code::Unavailable && began.elapsed() < Duration::from_secs(10), "{off}: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_clean(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_wrong_is_silent_so_that_others_take_over() {
    let (schema, clock) = (fresh_schema(), Arc::new(OffClock::default()));
    let right = connect(&schema, Arc::new(SystemClock)).await;
    let wrong = connect(&schema, Arc::clone(&clock) as _).await;
    let silence = async || {
        let servers = right.heartbeat(1, "right").await.unwrap();
        servers.iter().find(|server| server.id == 2).unwrap().silent_for
    };
    wrong.heartbeat(2, "wrong").await.unwrap();
    assert!(silence().await < PROMPT);
    clock.set(10 * MINUTE);
    // The first one finds out.
    wrong.heartbeat(2, "wrong").await.unwrap();
    tokio::time::sleep(PROMPT * 2).await;
    assert_eq!(wrong.heartbeat(2, "wrong").await.unwrap().len(), 2, "it hears of others all the same");
    assert!(silence().await >= PROMPT * 2);
    clock.set(0);
    wrong.heartbeat(2, "wrong").await.unwrap();
    wrong.heartbeat(2, "wrong").await.unwrap();
    assert!(silence().await < PROMPT);
    assert!(wrong.commit(put(1).into()).await.is_ok());
}

fn ahead_by(version: Version) -> i64 {
    version.millis().since_2000() as i64 - SystemClock.now().since_2000() as i64
}

/// As a wrong clock left them before clocks were looked at.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_ahead_take_writes_and_infect_nothing() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=6).await;
    store.commit(follow(1, 2).into()).await.unwrap();
    store.commit(follow(3, 4).into()).await.unwrap();
    let shift = (8 * DAY) << 22;
    raw()
        .await
        .batch_execute(&format!(
            "SET search_path TO {schema}; UPDATE edges SET version = version + {shift} WHERE follower = 1; \
             UPDATE relay SET high_water = high_water + {shift}"
        ))
        .await
        .unwrap();
    let mut ahead = Version::ZERO;
    for round in 0..4 {
        let operation = if round % 2 == 0 { unfollow(1, 2) } else { follow(1, 2) };
        let version = store.commit(operation.into()).await.unwrap().version;
        assert!(version > ahead && ahead_by(version) > 7 * DAY, "above its row");
        ahead = version;
    }
    let next = store.commit(unfollow(3, 4).into()).await.unwrap().version;
    assert!(ahead_by(next).abs() < 5_000, "this process issues its other versions by the time");
    // With the token of the write that is ahead.
    let floor = |operation| Write { floor: ahead, ..Write::from(operation) };
    let next = store.commit(floor(follow(3, 4))).await.unwrap().version;
    assert!(ahead_by(next).abs() < 5_000, "a token carries nothing on");
    // Nor does it come back with the next server.
    store.close().await.unwrap();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    let next = store.commit(follow(5, 6).into()).await.unwrap().version;
    assert!(ahead_by(next).abs() < 5_000, "nor does the greatest version stored");
    assert_eq!(store.health().await, Health::Ready);
    let write = floor(follow(5, 4));
    let keyed = Write { idempotency: Some(IdempotencyKey { scope: [5; 16], request: 1 }), ..write };
    assert!(!store.commit(keyed.clone()).await.unwrap().replayed);
    assert!(store.commit(keyed).await.unwrap().replayed);
}

/// The time is read when the locks are held: a version that was made after waiting is not ahead of it.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_lock_makes_no_clock_wrong() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    let other = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=2).await;
    let client = raw().await;
    client
        .batch_execute(&format!("SET search_path TO {schema}; BEGIN; LOCK TABLE relay IN EXCLUSIVE MODE"))
        .await
        .unwrap();
    // The first has the locks of both and waits for the relay; the second waits for its locks.
    let first = tokio::spawn(async move { store.commit(follow(1, 2).into()).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = tokio::spawn(async move {
        let done = other.commit(unfollow(1, 2).into()).await;
        (other, done)
    });
    tokio::time::sleep(Duration::from_millis(5_300)).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap();
    let (other, done) = second.await.unwrap();
    done.unwrap();
    assert_eq!(other.health().await, Health::Ready);
    assert_clean(&other).await;
}
