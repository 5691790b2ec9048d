//! After a restart the reader behind feeds begins where it was, also when nobody wrote posts for long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{Event, EventPosition, Key, Operation, Overwrite, Result, Secret, UserId, UserPatch, Write};
use entourage_service::{AbuseRules, Actor, Call, Limits, Rules, Service};
use entourage_store::{Identity, Store, StoreExt as _, SystemClock};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

const PEOPLE: i64 = 30_000;

/// Counts the events that are read.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Hooks for Counting {
    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let events = inner.events(after, limit).await?;
        self.0.fetch_add(events.len(), Ordering::SeqCst);
        Ok(events)
    }
}

/// How a service ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

/// Runs a service until `work` is done; how many events it read.
async fn run(store: &Arc<dyn Store>, end: End, work: impl AsyncFn(&Service)) -> usize {
    let store = Arc::new(Hooked::new(Arc::clone(store), Counting::default()));
    // Detectors read the log on their own account.
    let abuse = AbuseRules { detect: false, ..AbuseRules::default() };
    let rules = Rules { limits: Limits::NONE, audit_interval: None, abuse, ..Rules::default() };
    let service = Arc::new(Service::new(Arc::clone(&store) as _, rules));
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    work(&service).await;
    if end == End::Kill {
        background.abort();
        assert!(background.await.is_err_and(|error| error.is_cancelled()));
    } else {
        service.end_streams();
        background.await.unwrap();
    }
    store.hooks.0.load(Ordering::SeqCst)
}

fn empty() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

fn put(number: i64) -> Write {
    let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
    Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
}

fn author() -> Call {
    Call { actor: Actor::User(UserId::from(1)), ..Call::default() }
}

/// How many events a service reads that starts on this store.
async fn read_again(store: &Arc<dyn Store>) -> usize {
    run(store, End::Stop, async |service| {
        let post = service.feeds.create_post(&author(), "{}").await.unwrap().post.id;
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(service.feeds.post(&author(), post).await.is_ok());
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_reads_no_more_than_what_was_written_since() {
    let store = empty();
    run(&store, End::Stop, async |service| {
        store.commit(put(1)).await.unwrap();
        service.feeds.create_post(&author(), "{}").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        for result in store.commit_all((2..PEOPLE).map(put).collect()).await {
            result.unwrap();
        }
        // Two looks, half a second apart.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let read = read_again(&store).await;
    assert!(read < 1_000, "{read} events were read again");
}

/// Somebody listens, so that nothing is passed over; nobody posts; then the process is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_a_kill_reads_little_of_what_a_listener_made_the_last_one_read() {
    let store = empty();
    run(&store, End::Kill, async |service| {
        store.commit(put(1)).await.unwrap();
        let _stream = service.feeds.feed_stream(&author(), &UserId::from(1), None).await.unwrap();
        service.feeds.create_post(&author(), "{}").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        for result in store.commit_all((2..PEOPLE).map(put).collect()).await {
            result.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    })
    .await;
    let read = read_again(&store).await;
    assert!(read < 12_000, "{read} events were read again");
}
