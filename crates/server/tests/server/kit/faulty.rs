//! A store that does what it is told to go wrong: it stops, refuses, panics, lags behind or is poisoned.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Code, Error, Event, EventPosition, Key, Kind, Outcome, Result, Watermark, Write};
use entourage_store::{Answer, Covered, Guarantees, Health, Store, StoreExt as _, Unhealthy, Whose};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};
use tokio::sync::Semaphore;

use super::server::{Server, memory_store};

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
    fault: Mutex<Fault>,
    gate: Semaphore,
    waiting: AtomicUsize,
    pub(crate) closed: Mutex<bool>,
}

impl Faulty {
    pub(crate) fn over(inner: Arc<dyn Store>) -> Arc<Hooked<Self>> {
        let hooks = Self {
            fault: Mutex::new(Fault::None),
            gate: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            closed: Mutex::new(false),
        };
        Arc::new(Hooked::new(inner, hooks))
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

/// A server over such a store, with the users `a` and `b`.
pub(crate) fn faulty() -> (Arc<Hooked<Faulty>>, Server) {
    let store = Faulty::over(memory_store(1));
    let server = Server::with(Arc::clone(&store) as _, Default::default());
    for id in ["a", "b"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    (store, server)
}

#[async_trait]
impl Hooks for Faulty {
    fn guarantees(&self, inner: &dyn Store) -> Guarantees {
        inner.guarantees()
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        match self.fault() {
            Fault::Hang => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                drop(self.gate.acquire().await);
            }
            Fault::Refuse(code) => return Err(Error::new(code, "told to")),
            Fault::Panic => panic!("told to panic"),
            _ => {}
        }
        inner.commit(write).await
    }

    /// Memory that knows nothing: every check must end at the store.
    fn peek_all(&self, _: &dyn Store, _: Kind, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_open(&self, _: &dyn Store, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_common(&self, _: &dyn Store, _: Key, _: Key, _: usize, _: &mut Vec<Key>) -> bool {
        false
    }

    fn peek_id(&self, _: &dyn Store, _: Key, _: &[u8]) -> bool {
        false
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        match self.fault() {
            Fault::Expired(first) if after.offset.0 < first => {
                Err(Error::new(Code::EventsExpired, "told to").resume_from(first.to_string()))
            }
            _ => inner.events(after, limit).await,
        }
    }

    async fn covers(&self, inner: &dyn Store, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        match self.fault() {
            Fault::Behind => Ok(Covered::NotYet),
            _ => inner.covers(watermark, whose).await,
        }
    }

    async fn health(&self, inner: &dyn Store) -> Health {
        match self.fault() {
            Fault::Degraded(reason) => Health::Degraded(reason),
            _ => inner.health().await,
        }
    }

    async fn close(&self, inner: &dyn Store) -> Result<()> {
        *self.closed.lock().unwrap() = true;
        inner.close().await
    }
}
