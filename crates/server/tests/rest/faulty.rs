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
    Code, Counts, EdgeValue, Ended, Error, Event, Key, Kind, List, Outcome, Page, Place, Record, RecordId, Result,
    Sequence, Space, User, Version, Write,
};
use entourage_store::{Answer, Health, Identity, Profile, Progress, Report, Store, Unhealthy};
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

#[async_trait]
impl Store for Faulty {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    async fn commit(&self, write: Write) -> Result<Outcome> {
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

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            outcomes.push(self.commit(write).await);
        }
        outcomes
    }

    /// Memory that knows nothing: every check must end at the store.
    fn peek(&self, _: Kind, _: Key, _: Key) -> Answer {
        Answer::Unknown
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.inner.get_edges(kind, pairs).await
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.inner.get_users(keys).await
    }

    async fn get_counts(&self, user: Key) -> Result<Option<Counts>> {
        self.inner.get_counts(user).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.inner.scan_up(list, after, limit).await
    }

    async fn sweep_users(&self, after: Option<Key>, limit: usize) -> Result<Vec<User>> {
        self.inner.sweep_users(after, limit).await
    }

    async fn get_record(&self, space: Space, owner: Key, id: &RecordId) -> Result<Option<Record>> {
        self.inner.get_record(space, owner, id).await
    }

    async fn scan_records(&self, space: Space, owner: Key, after: Option<&[u8]>, limit: usize) -> Result<Vec<Record>> {
        self.inner.scan_records(space, owner, after, limit).await
    }

    async fn count_records(&self, space: Space, owner: Key) -> Result<u64> {
        self.inner.count_records(space, owner).await
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

    async fn events(&self, after: Sequence, limit: usize) -> Result<Vec<Event>> {
        match self.fault() {
            Fault::Expired(first) if after.0 < first => {
                Err(Error::new(Code::EventsExpired, "told to").resume_from(first.to_string()))
            }
            _ => self.inner.events(after, limit).await,
        }
    }

    async fn last_event(&self) -> Result<Sequence> {
        self.inner.last_event().await
    }

    async fn progress(&self) -> Result<Progress> {
        self.inner.progress().await
    }

    async fn covers(&self, watermark: Sequence) -> Result<bool> {
        Ok(self.fault() != Fault::Behind && self.inner.covers(watermark).await?)
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
