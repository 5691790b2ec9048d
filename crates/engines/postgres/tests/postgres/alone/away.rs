//! PostgreSQL goes away under load, in every way it can: refusals come at once, it is found again soon, and nothing
//! that was acked is lost. Prints what was expected and what was seen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::postgres_kit::{
    cluster::{Server, url_of},
    network::Network,
    words::*,
};
use entourage_model::{Code, Key, Kind};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Health, Store, StoreExt as _, SystemClock};
use parking_lot::Mutex;

const SCHEMA: &str = "entourage";
const WRITERS: i64 = 8;
const TARGETS: i64 = 400;
/// What a refusal may take while PostgreSQL is known to be away, and how soon it is found again. Machines that run tests
/// are busy.
const REFUSED_WITHIN: Duration = Duration::from_millis(100);
const HEALED_WITHIN: Duration = Duration::from_secs(5);
/// The answer of a request that was under way when PostgreSQL went.
const DEADLINE: Duration = Duration::from_secs(10);

async fn connect(url: &str, options: Options) -> Arc<postgres::Store> {
    Arc::new(postgres::Store::connect(url, SCHEMA, options, Arc::new(SystemClock)).await.unwrap())
}

/// What callers saw.
#[derive(Default)]
struct Seen {
    acked: Mutex<Vec<(Key, Key)>>,
    /// How long each refusal took that began while PostgreSQL was known to be away.
    refusals: Mutex<Vec<Duration>>,
    longest: Mutex<Duration>,
    last_ack: Mutex<Option<Instant>>,
    stop: AtomicBool,
}

impl Seen {
    fn note(&self, began: Instant, was_away: bool, refused: bool) {
        let took = began.elapsed();
        let mut longest = self.longest.lock();
        *longest = longest.max(took);
        if refused && was_away {
            self.refusals.lock().push(took);
        }
    }
}

async fn write(store: Arc<postgres::Store>, seen: Arc<Seen>, follower: i64) {
    let mut target = WRITERS;
    while !seen.stop.load(Ordering::SeqCst) {
        let (began, was_away) = (Instant::now(), store.is_away());
        // Again and again: the edge is there whatever became of the one before.
        target = WRITERS + (target + 1 - WRITERS) % TARGETS;
        let done = store.commit(follow(follower, target).into()).await;
        seen.note(began, was_away, done.is_err());
        match done {
            Ok(_) => {
                seen.acked.lock().push((Key(follower), Key(target)));
                *seen.last_ack.lock() = Some(Instant::now());
            }
            Err(error) => {
                assert_eq!(error.code(), Code::Unavailable, "{error}");
                assert!(error.retry_delay().is_some());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

async fn read(store: Arc<postgres::Store>, seen: Arc<Seen>) {
    while !seen.stop.load(Ordering::SeqCst) {
        let (began, was_away) = (Instant::now(), store.is_away());
        let done = store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await;
        seen.note(began, was_away, done.is_err());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Breaks PostgreSQL under load and mends it; both return when that is done.
async fn under_load(
    store: &Arc<postgres::Store>,
    what: &str,
    break_it: impl AsyncFnOnce(),
    for_long: Duration,
    mend_it: impl AsyncFnOnce(),
) {
    people(&**store, 0..=WRITERS + TARGETS).await;
    let seen = Arc::new(Seen::default());
    let mut tasks = tokio::task::JoinSet::new();
    for follower in 0..WRITERS {
        tasks.spawn(write(Arc::clone(store), Arc::clone(&seen), follower));
        tasks.spawn(read(Arc::clone(store), Arc::clone(&seen)));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!store.is_away() && !seen.acked.lock().is_empty());
    let broken = Instant::now();
    break_it().await;
    while !store.is_away() {
        assert!(broken.elapsed() < DEADLINE, "{what}: nobody notices");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let noticed = broken.elapsed();
    let Health::Degraded(reason) = store.health().await else { panic!("{what}: it is well") };
    tokio::time::sleep(for_long.saturating_sub(broken.elapsed())).await;
    mend_it().await;
    let mended = Instant::now();
    let healed = loop {
        if let Some(acked) = seen.last_ack.lock().filter(|acked| *acked > mended) {
            break acked.duration_since(mended);
        }
        assert!(mended.elapsed() < HEALED_WITHIN, "{what}: it is not found again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    seen.stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let mut refusals = std::mem::take(&mut *seen.refusals.lock());
    refusals.sort_unstable();
    assert!(refusals.len() > 100, "{what}: {} refusals", refusals.len());
    let p99 = refusals[refusals.len() * 99 / 100];
    let acked = std::mem::take(&mut *seen.acked.lock());
    let mut lost = 0;
    for pairs in acked.chunks(1_000) {
        let edges = store.get_edges(Kind::Follow, pairs).await.unwrap();
        lost += edges.iter().filter(|edge| edge.is_none()).count();
    }
    assert_clean(&**store).await;
    println!(
        "| {what} | noticed after {:.2} s | {} refusals, p99 {:.2} ms | longest wait {:.2} s | back after {:.2} s | \
         {} acked, {lost} lost, verify clean | {reason} |",
        noticed.as_secs_f64(),
        refusals.len(),
        p99.as_secs_f64() * 1_000.0,
        seen.longest.lock().as_secs_f64(),
        healed.as_secs_f64(),
        acked.len(),
    );
    assert!(p99 < REFUSED_WITHIN, "{what}: p99 of refusals {p99:?}");
    assert!(*seen.longest.lock() < DEADLINE, "{what}: {:?}", seen.longest.lock());
    assert_eq!(lost, 0, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again() {
    let server = Server::primary();
    let store = connect(&url_of(&[&server]), Options::default()).await;
    let kill = async || server.kill_nine();
    under_load(&store, "killed -9", kill, Duration::from_secs(3), async || server.start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_for_twenty_seconds() {
    let server = Server::primary();
    let store = connect(&url_of(&[&server]), Options::default()).await;
    let (stop, go_on) = (async || server.signal("-STOP"), async || server.signal("-CONT"));
    under_load(&store, "stopped 20 s", stop, Duration::from_secs(20), go_on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_under_load() {
    let server = Server::primary();
    let store = connect(&url_of(&[&server]), Options::default()).await;
    let stop = async || server.stop_fast();
    under_load(&store, "restarted", stop, Duration::from_secs(1), async || server.start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_network_that_swallows_everything() {
    let server = Server::primary();
    let network = Network::before(server.port).await;
    let url = format!("postgres://entourage@127.0.0.1:{}/postgres", network.port);
    let store = connect(&url, Options::default()).await;
    let (drop_all, deliver) = (async || network.swallow(true), async || network.swallow(false));
    under_load(&store, "packets dropped", drop_all, Duration::from_secs(8), deliver).await;
}

/// Sessions that are terminated all the time are no reason to give up: a new one is always answered.
#[tokio::test(flavor = "multi_thread")]
async fn terminated_sessions_do_not_open_the_breaker() {
    let server = Server::primary();
    let store = connect(&url_of(&[&server]), Options::default()).await;
    people(&*store, 0..=WRITERS + TARGETS).await;
    let seen = Arc::new(Seen::default());
    let mut tasks = tokio::task::JoinSet::new();
    for follower in 0..WRITERS {
        tasks.spawn(write(Arc::clone(&store), Arc::clone(&seen), follower));
        tasks.spawn(read(Arc::clone(&store), Arc::clone(&seen)));
    }
    let killer = server.raw().await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
        AND backend_type = 'client backend'";
    let (began, mut killed, mut away) = (Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(60)).await;
        killed += killer.query_one(kill, &[]).await.unwrap().get::<_, i64>(0);
        away += u32::from(store.is_away());
    }
    seen.stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let acked = std::mem::take(&mut *seen.acked.lock());
    for pairs in acked.chunks(1_000) {
        assert!(store.get_edges(Kind::Follow, pairs).await.unwrap().iter().all(Option::is_some));
    }
    assert_clean(&*store).await;
    println!(
        "| pg_terminate_backend in a loop | {killed} sessions ended | {} acked, 0 lost, verify clean |",
        acked.len()
    );
    assert!(killed > 20 && acked.len() > 20, "{killed} killed, {} acked", acked.len());
    assert_eq!(away, 0, "it was never away");
}

/// One connection for everything but commits, and one writer.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_one_serves_everybody_in_turn() {
    let server = Server::primary();
    let options = Options { connections: 1, writers: 1, ..Options::default() };
    let store = connect(&url_of(&[&server]), options).await;
    people(&*store, 0..=300).await;
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 1..=64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for target in 100..=110 {
                let outcome = store.commit(follow(number, target).into()).await.unwrap();
                assert!(store.has_seen(&outcome.watermark).await.unwrap());
                let edges = store.get_edges(Kind::Follow, &[(Key(number), Key(target))]).await.unwrap();
                assert!(edges[0].is_some());
                assert_eq!(store.get_users(&[Key(number)]).await.unwrap().len(), 1);
            }
        });
    }
    tasks.join_all().await;
    assert_clean(&*store).await;
    println!("| a pool of 1 | 64 callers, 704 follows, each read back | {:.1} s |", began.elapsed().as_secs_f64());
}
