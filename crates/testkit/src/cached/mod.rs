//! A cached layer over a store that the test can intercept.

pub mod slow;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::conformance::hooked::{Hooked, Hooks};
use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{
    Clock, Code, Error, Event, EventBody, EventPosition, Key, Kind, List, ManualClock, Millis, Operation, Outcome,
    Overwrite, Page, Place, Result, Secret, Sequence, State, User, UserId, UserPatch, Write,
};
use entourage_store::{
    Answer, Identity, Progress, Store, StoreExt as _, SystemClock,
    disk::Disk,
    layers::cached::{self, Options, Surroundings},
};
use tokio::sync::Semaphore;

pub fn memory() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

/// Nothing is polled or read unless requested.
pub fn by_hand() -> Options {
    let (interval, patience) = (Duration::from_secs(3_600), Duration::from_secs(5));
    Options { interval, patience, refill_max: 0, ..Options::default() }
}

/// Room for one small row or two, so that nearly every check is a miss.
pub fn tiny() -> Options {
    Options { budget_bytes: 1_200, ..Options::default() }
}

pub async fn over(store: Arc<dyn Store>, options: Options) -> cached::Store {
    cached::Store::open(store, options, Surroundings::default()).await
}

pub async fn over_with_disk(store: Arc<dyn Store>, options: Options, disk: Arc<dyn Disk>) -> cached::Store {
    let surroundings = Surroundings { disk: Some(disk), ..Surroundings::default() };
    cached::Store::open(store, options, surroundings).await
}

/// A layer whose clock stands still.
pub async fn on_clock(store: Arc<dyn Store>, options: Options, clock: &Arc<ManualClock>) -> cached::Store {
    let surroundings =
        Surroundings { clock: Arc::clone(clock) as Arc<dyn Clock>, uptime: Arc::clone(clock) as _, disk: None };
    cached::Store::open(store, options, surroundings).await
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::from_since_2000(1_000_000)))
}

/// A store that pauses, counts and fails as it is told.
#[derive(Default)]
pub struct Between {
    pub scans: AtomicU64,
    pub edge_reads: AtomicU64,
    /// While set, a scan has read and waits for a permit before it returns.
    pub hold_scans: AtomicBool,
    pub go_on: Semaphores,
    pub user_reads: AtomicU64,
    /// While set, users have been read and wait for a permit before they return.
    pub hold_users: AtomicBool,
    pub users: Semaphores,
    /// While set, a write is committed and waits for a permit before it is acked.
    pub hold_acks: AtomicBool,
    pub acks: Semaphores,
    pub events_fail: AtomicBool,
    /// Events up to here are gone.
    pub dropped: AtomicU64,
    /// Events are listed up to here only.
    pub listed_to: AtomicU64,
    /// Replaces the edge in the events of edges by another.
    pub events_lie: AtomicBool,
}

/// How many have done their work, and how many may return.
pub struct Semaphores {
    pub arrived: Semaphore,
    pub released: Semaphore,
}

impl Default for Semaphores {
    fn default() -> Self {
        Self { arrived: Semaphore::new(0), released: Semaphore::new(0) }
    }
}

impl Between {
    pub fn over(store: Arc<dyn Store>) -> Arc<Hooked<Self>> {
        let between = Self { listed_to: AtomicU64::new(u64::MAX), ..Self::default() };
        Arc::new(Hooked::new(store, between))
    }

    pub fn scans(&self) -> u64 {
        self.scans.load(Ordering::SeqCst)
    }

    pub fn edge_reads(&self) -> u64 {
        self.edge_reads.load(Ordering::SeqCst)
    }

    pub fn hold_scans(&self, hold: bool) {
        self.hold_scans.store(hold, Ordering::SeqCst);
    }

    pub async fn scan_has_read(&self) {
        self.go_on.arrived.acquire().await.unwrap().forget();
    }

    pub fn release_scans(&self) {
        self.hold_scans(false);
        self.go_on.released.add_permits(1_000);
    }
}

#[async_trait]
impl Hooks for Between {
    fn peek_all(&self, _: &dyn Store, _: Kind, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_id(&self, _: &dyn Store, _: Key, _: &[u8]) -> bool {
        false
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.user_reads.fetch_add(1, Ordering::SeqCst);
        let users = inner.get_users(keys).await;
        if self.hold_users.load(Ordering::SeqCst) {
            self.users.arrived.add_permits(1);
            self.users.released.acquire().await.unwrap().forget();
        }
        users
    }

    async fn get_edges(
        &self,
        inner: &dyn Store,
        kind: Kind,
        pairs: &[(Key, Key)],
    ) -> Result<Vec<Option<entourage_model::EdgeValue>>> {
        self.edge_reads.fetch_add(1, Ordering::SeqCst);
        inner.get_edges(kind, pairs).await
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        let outcome = inner.commit(write).await;
        if self.hold_acks.load(Ordering::SeqCst) {
            self.acks.arrived.add_permits(1);
            self.acks.released.acquire().await.unwrap().forget();
        }
        outcome
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        let page = inner.scan(list, after, limit).await;
        if self.hold_scans.load(Ordering::SeqCst) {
            self.go_on.arrived.add_permits(1);
            self.go_on.released.acquire().await.unwrap().forget();
        }
        page
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        if self.events_fail.load(Ordering::SeqCst) {
            return Err(Error::unavailable("no events today"));
        }
        let dropped = self.dropped.load(Ordering::SeqCst);
        if after.offset.0 < dropped {
            return Err(Error::new(Code::EventsExpired, "gone").resume_from(dropped.to_string()));
        }
        let mut events = inner.events(after, limit).await?;
        if self.events_lie.load(Ordering::SeqCst) {
            for event in &mut events {
                if let EventBody::Edge { follower, .. } = &mut event.body {
                    *follower = Key(i64::MIN);
                }
            }
        }
        Ok(events)
    }

    async fn progress(&self, inner: &dyn Store, partition: u16) -> Result<Progress> {
        if self.events_fail.load(Ordering::SeqCst) {
            return Err(Error::unavailable("no events today"));
        }
        let Progress { listed, covered, newest } = inner.progress(partition).await?;
        let most = Sequence(self.listed_to.load(Ordering::SeqCst));
        Ok(Progress { listed: listed.min(most), covered: covered.min(most), newest })
    }
}

pub async fn people(store: &dyn Store, keys: std::ops::RangeInclusive<i64>) {
    for key in keys {
        let (id, patch, overwrite) = (UserId::from(key), UserPatch::default(), Overwrite::Replace);
        done(store, Operation::PutUser { key: Key(key), id, patch, overwrite }).await;
    }
}

pub async fn done(store: &dyn Store, operation: Operation) -> Outcome {
    store.commit(operation.into()).await.unwrap()
}

pub fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
}

pub fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

pub fn block(actor: i64, target: i64) -> Operation {
    Operation::Block { actor: Key(actor), target: Key(target) }
}

pub fn peek(store: &dyn Store, follower: i64, target: i64) -> Answer {
    store.peek(Kind::Follow, Key(follower), Key(target))
}

pub async fn follows(store: &dyn Store, follower: i64, target: i64) -> bool {
    let edge = store.get_edges(Kind::Follow, &[(Key(follower), Key(target))]).await.unwrap()[0];
    edge.is_some_and(|edge| edge.state == State::Active)
}

/// Collects the figures of the layer in it.
#[derive(Default)]
pub struct Witness {
    pub checks: AtomicU64,
    pub intersections: AtomicU64,
}

impl Witness {
    pub fn of(layer: Arc<dyn Store>) -> Arc<Hooked<Self>> {
        Arc::new(Hooked::new(layer, Self::default()))
    }

    /// Checks and intersections that memory answered.
    pub fn known(&self) -> (u64, u64) {
        (self.checks.load(Ordering::SeqCst), self.intersections.load(Ordering::SeqCst))
    }
}

impl Hooks for Witness {
    fn peek_all(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        inner.peek_all(kind, pairs, answers);
        let known = answers.iter().filter(|answer| **answer != Answer::Unknown).count();
        self.checks.fetch_add(known as u64, Ordering::SeqCst);
    }

    fn peek_common(&self, inner: &dyn Store, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        let knows = inner.peek_common(one, other, limit, found);
        self.intersections.fetch_add(u64::from(knows), Ordering::SeqCst);
        knows
    }
}

/// Asks until memory knows: others in the same database may keep the gate closed for a while.
pub async fn known(layer: &dyn Store, follower: i64, target: i64) -> Answer {
    let began = Instant::now();
    loop {
        follows(layer, follower, target).await;
        match peek(layer, follower, target) {
            Answer::Unknown => assert!(began.elapsed() < Duration::from_secs(30), "memory never knows"),
            answer => return answer,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A row is read, then a write changes it, through the layer or on another server, then the fill completes.
pub async fn a_write_between_read_and_fill(store: Arc<dyn Store>, through_layer: bool) {
    let store = Between::over(store);
    people(&*store, 1..=3).await;
    done(&*store, follow(1, 3)).await;
    let options = Options { patience: Duration::from_secs(5), lag_max: Duration::from_secs(60), ..Options::default() };
    let layer = Arc::new(over(Arc::clone(&store) as _, options).await);
    assert_eq!(known(&*layer, 3, 1).await, Answer::No);
    store.hooks.hold_scans(true);
    let reader = tokio::spawn({
        let layer = Arc::clone(&layer);
        async move { follows(&*layer, 1, 2).await }
    });
    store.hooks.scan_has_read().await;
    if through_layer {
        done(&*layer, follow(1, 2)).await;
        done(&*layer, unfollow(1, 3)).await;
    } else {
        done(&*store, follow(1, 2)).await;
        let outcome = done(&*store, unfollow(1, 3)).await;
        // The event reader sees it before the row arrives.
        assert!(layer.has_seen(&outcome.watermark).await.unwrap());
    }
    store.hooks.release_scans();
    assert!(reader.await.unwrap(), "the read ends after the write, and asks the store");
    assert_eq!((peek(&*layer, 1, 2), peek(&*layer, 1, 3)), (Answer::Unknown, Answer::Unknown));
    assert_eq!((known(&*layer, 1, 2).await, known(&*layer, 1, 3).await), (Answer::Yes, Answer::No));
}
