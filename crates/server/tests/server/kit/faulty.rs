//! A store that does what it is told to go wrong: it stops, refuses, panics, lags behind or is poisoned.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{
    Code, Counts, EdgeValue, Ended, Error, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome,
    Page, Place, Quota, Record, RecordId, Result, Sequence, Space, User, Version, Watermark, Write,
};
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Progress, Report, Store, StoreExt as _, SweepCursor, Swept,
    Unhealthy, Whose,
};
use tokio::sync::Semaphore;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Commits wait until [`Faulty::let_go`].
    Hang,
    Refuse(Code),
    Panic,
    Behind,
    Expired(u64),
    Degraded(Unhealthy),
}

pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    fault: Mutex<Fault>,
    gate: Semaphore,
    waiting: AtomicUsize,
    pub(crate) closed: Mutex<bool>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fault: Mutex::new(Fault::None),
            gate: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            closed: Mutex::new(false),
        })
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    pub(crate) fn let_go(&self) {
        self.set(Fault::None);
        self.gate.add_permits(1_000);
    }

    /// Returns when a commit hangs.
    pub(crate) fn wait_for_a_commit(&self) {
        self.wait_for_commits(1);
    }

    pub(crate) fn wait_for_commits(&self, count: usize) {
        while self.waiting.load(Ordering::SeqCst) < count {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn fault(&self) -> Fault {
        self.fault.lock().unwrap().clone()
    }
}

impl Faulty {
    async fn commit_one(&self, write: Write) -> Result<Outcome> {
        match self.fault() {
            Fault::Hang => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                drop(self.gate.acquire().await);
            }
            Fault::Refuse(code) => return Err(Error::new(code, "told to")),
            Fault::Panic => panic!("told to panic"),
            _ => {}
        }
        self.inner.commit(write).await
    }
}

#[async_trait]
impl Store for Faulty {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            outcomes.push(self.commit_one(write).await);
        }
        outcomes
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.inner.replay_all(keys).await
    }

    /// Memory that knows nothing: every check must end at the store.
    fn peek_all(&self, _: Kind, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_open(&self, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_common(&self, _: Key, _: Key, _: usize, _: &mut Vec<Key>) -> bool {
        false
    }

    fn peek_id(&self, _: Key, _: &[u8]) -> bool {
        false
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.inner.get_edges(kind, pairs).await
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.inner.get_users(keys).await
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.inner.get_all_counts(users).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.inner.scan_up(list, after, limit).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        self.inner.sweep(range, after, limit).await
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.inner.count_each(space, owners).await
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        self.inner.get_records(space, ids).await
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        self.inner.scan_each(space, owners, after, limit).await
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.inner.scan_history(follower, before, limit).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.inner.get_quotas(actors).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        match self.fault() {
            Fault::Expired(first) if after.offset.0 < first => {
                Err(Error::new(Code::EventsExpired, "told to").resume_from(first.to_string()))
            }
            _ => self.inner.events(after, limit).await,
        }
    }

    fn lineage(&self) -> Lineage {
        self.inner.lineage()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        self.inner.last_event(partition).await
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        self.inner.progress(partition).await
    }

    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        match self.fault() {
            Fault::Behind => Ok(Covered::NotYet),
            _ => self.inner.covers(watermark, whose).await,
        }
    }

    async fn verify(&self) -> Result<Report> {
        self.inner.verify().await
    }

    async fn health(&self) -> Health {
        match self.fault() {
            Fault::Degraded(reason) => Health::Degraded(reason),
            _ => self.inner.health().await,
        }
    }

    async fn close(&self) -> Result<()> {
        *self.closed.lock().unwrap() = true;
        self.inner.close().await
    }
}
