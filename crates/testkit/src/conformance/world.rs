//! The world of a case: a store, users of its own, and short forms to read and to assert.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use entourage_model::{
    Code, Counts, EdgeValue, Event, EventBody, IdempotencyKey, Key, KeyHasher, Kind, List, Operation, Outcome,
    Overwrite, Result, Sequence, UserId, UserPatch, Write,
};
use rand::RngExt;
use tokio::sync::Barrier;

use super::settled::settled;
use entourage_store::{Answer, CommitOrder, Guarantees, Store, StoreExt as _};

/// How often events are read until they are listed: some seconds.
const LISTED_TRIES: usize = 500;

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(super) type Reopen = Arc<dyn Fn(Arc<dyn Store>) -> Boxed<Arc<dyn Store>> + Send + Sync>;

/// A store to test, and how to reopen it after it was closed.
#[derive(Clone)]
pub struct Fixture {
    pub(super) store: Arc<dyn Store>,
    reopen: Option<Reopen>,
}

impl From<Arc<dyn Store>> for Fixture {
    fn from(store: Arc<dyn Store>) -> Self {
        Self { store, reopen: None }
    }
}

impl Fixture {
    pub fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }

    /// `reopen` gets the closed store and opens another on the same place. Only durable backends need it.
    #[must_use]
    pub fn reopened_by<F, O>(mut self, reopen: F) -> Self
    where
        F: Fn(Arc<dyn Store>) -> O + Send + Sync + 'static,
        O: Future<Output = Arc<dyn Store>> + Send + 'static,
    {
        self.reopen = Some(Arc::new(move |store| Box::pin(reopen(store))));
        self
    }

    /// How to reopen the store; the fixture releases the store itself.
    pub(super) fn into_reopen(self) -> Option<Reopen> {
        self.reopen
    }
}

/// Numbers that no other case and no other run on the same store uses.
fn next_number() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let base = *BASE.get_or_init(|| rand::rng().random_range(1 << 40..1 << 61));
    base + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An id of its own: numbers and names in turn, so that both signs of keys are in every list.
pub(super) fn own_id(hasher: &KeyHasher) -> (Key, UserId) {
    let number = next_number();
    let id = if number.is_multiple_of(2) {
        UserId::from(number as i64)
    } else {
        UserId::try_from(format!("user:{number:x}/é")).expect("the id is valid")
    };
    (hasher.key(&id), id)
}

/// A request that nobody else makes.
pub(super) fn own_request() -> IdempotencyKey {
    let mut scope = [0; 16];
    scope[..8].copy_from_slice(&next_number().to_be_bytes());
    IdempotencyKey { scope, request: next_number() }
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) store: Arc<dyn Store>,
    fixture: Fixture,
    hasher: KeyHasher,
    closed: Arc<AtomicBool>,
}

impl World {
    pub(super) fn new(fixture: Fixture) -> Self {
        let store = settled(Arc::clone(&fixture.store));
        let hasher = KeyHasher::new(&store.identity().secret);
        Self { store, fixture, hasher, closed: Arc::default() }
    }

    pub(super) fn own_id(&self) -> (Key, UserId) {
        own_id(&self.hasher)
    }

    /// The owner of what the server keeps about a user.
    pub(super) fn server(&self, about: Key) -> Key {
        self.store.guarantees().buckets.of(about)
    }

    /// A key that no user has.
    pub(super) fn stranger(&self) -> Key {
        self.own_id().0
    }

    fn new_user(&self, private: bool) -> Operation {
        let (key, id) = self.own_id();
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace }
    }

    pub(super) async fn user(&self) -> Key {
        self.user_at_mark().await.0
    }

    /// A user, and the end of the log at that moment.
    pub(super) async fn user_at_mark(&self) -> (Key, Sequence) {
        let operation = self.new_user(false);
        let key = operation.parties().0;
        let outcome = self.done(operation).await;
        (key, self.end_of(&outcome).await)
    }

    pub(super) async fn private_user(&self) -> Key {
        let operation = self.new_user(true);
        let key = operation.parties().0;
        self.done(operation).await;
        key
    }

    pub(super) async fn users<const N: usize>(&self) -> [Key; N] {
        let users = self.many_users(N).await;
        std::array::from_fn(|index| users[index])
    }

    pub(super) async fn many_users(&self, count: usize) -> Vec<Key> {
        let operations: Vec<Operation> = (0..count).map(|_| self.new_user(false)).collect();
        let keys = operations.iter().map(|operation| operation.parties().0).collect();
        self.all_done(operations).await;
        keys
    }

    pub(super) async fn commit(&self, write: impl Into<Write>) -> Result<Outcome> {
        self.store.commit(write.into()).await
    }

    /// Commits what must succeed.
    pub(super) async fn done(&self, write: impl Into<Write>) -> Outcome {
        let write = write.into();
        match self.store.commit(write.clone()).await {
            Ok(outcome) => outcome,
            Err(error) => panic!("{write:?} was refused: {error}"),
        }
    }

    pub(super) async fn all_done(&self, operations: Vec<Operation>) {
        for chunk in operations.chunks(1_000) {
            let writes = chunk.iter().cloned().map(Write::from).collect();
            for (result, operation) in self.store.commit_all(writes).await.into_iter().zip(chunk) {
                if let Err(error) = result {
                    panic!("{operation:?} was refused: {error}");
                }
            }
        }
    }

    /// Commits what must be refused with `code`.
    pub(super) async fn refused(&self, write: impl Into<Write>, code: Code) {
        let write = write.into();
        match self.store.commit(write.clone()).await {
            Ok(outcome) => panic!("{write:?} should be refused with {code:?} and came to {outcome:?}"),
            Err(error) => assert_eq!(error.code(), code, "{write:?}"),
        }
    }

    pub(super) async fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        let value = self.store.get_edges(kind, &[(follower, target)]).await.expect("edges can be read")[0];
        self.check_peek(kind, follower, target, value).await;
        value
    }

    /// C8, for every edge that a case reads.
    async fn check_peek(&self, kind: Kind, follower: Key, target: Key, value: Option<EdgeValue>) {
        let active = value.is_some_and(|value| value.state == entourage_model::State::Active);
        match self.store.peek(kind, follower, target) {
            Answer::Unknown if self.store.guarantees().peeks => {
                // An edge that an erased user left behind has no answer.
                let users = self.store.get_users(&[follower, target]).await.expect("users can be read");
                let is_left = active && users.iter().any(Option::is_none);
                assert!(is_left, "peek knows nothing of {follower} → {target}");
            }
            Answer::Unknown => {}
            answer => assert_eq!(answer == Answer::Yes, active, "peek of {kind:?} {follower} → {target}"),
        }
    }

    /// C8 for many pairs. More than any store takes in one batch, each with a neighbour that answers otherwise.
    pub(super) async fn check_peek_all(&self, kind: Kind, pairs: &[(Key, Key)]) {
        let edges = self.store.get_edges(kind, pairs).await.expect("edges can be read");
        // The previous contents of the slice are overwritten.
        let mut answers = vec![Answer::Yes; pairs.len()];
        self.store.peek_all(kind, pairs, &mut answers);
        for ((&(follower, target), edge), answer) in pairs.iter().zip(edges).zip(&answers) {
            let active = edge.is_some_and(|edge| edge.state == entourage_model::State::Active);
            let users = self.store.get_users(&[follower, target]).await.expect("users can be read");
            let both = users.iter().all(Option::is_some);
            match answer {
                Answer::Yes => assert!(active && both, "peek_all of {kind:?} {follower} → {target}"),
                Answer::No => assert!(!active, "peek_all of {kind:?} {follower} → {target}"),
                Answer::Unknown => assert!(
                    !self.store.guarantees().peeks || (active && !both),
                    "peek_all knows nothing of {kind:?} {follower} → {target}"
                ),
            }
        }
    }

    pub(super) async fn follows(&self, follower: Key, target: Key) -> bool {
        self.edge(Kind::Follow, follower, target)
            .await
            .is_some_and(|value| value.state == entourage_model::State::Active)
    }

    pub(super) async fn counts(&self, user: Key) -> Counts {
        self.store.get_counts(user).await.expect("counts can be read").expect("the user exists")
    }

    /// (followers, following)
    pub(super) async fn totals(&self, user: Key) -> (u64, u64) {
        let counts = self.counts(user).await;
        (counts.followers, counts.following)
    }

    /// The whole list, paged, with every promise about pages checked on the way.
    pub(super) async fn paged(&self, list: List, size: usize) -> Vec<entourage_model::Edge> {
        super::pages::read_list(&*self.store, list, size).await.unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// The whole list from its oldest edge up.
    pub(super) async fn paged_up(&self, list: List, size: usize) -> Vec<entourage_model::Edge> {
        super::pages::read_list_up(&*self.store, list, size).await.unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// Whom the list shows, newest first.
    pub(super) async fn shown(&self, list: List) -> Vec<Key> {
        self.paged(list, 100).await.iter().map(|edge| list.other(edge)).collect()
    }

    /// Events after `mark` that concern one of `users`. Every event after `mark` is read, and must follow the one
    /// before without a gap.
    pub(super) async fn events(&self, mark: Sequence, users: &[Key]) -> Vec<Event> {
        let mut events = super::pages::read_events(&*self.store, mark).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        events.retain(|event| match &event.body {
            EventBody::Edge { follower, target, .. } => users.contains(follower) && users.contains(target),
            EventBody::User { key, .. } => users.contains(key),
            EventBody::Record { owner, .. } => users.contains(owner),
        });
        events
    }

    /// The sequence of the outcome's last change, or of the log's last one when it has none.
    pub(super) async fn end_of(&self, outcome: &Outcome) -> Sequence {
        if self.store.guarantees().order == CommitOrder::Known {
            return outcome.watermark.sequence();
        }
        // An event is listed once no transaction is open that might come before it: others may have one.
        for _ in 0..LISTED_TRIES {
            let events = super::pages::read_events(&*self.store, Sequence::ZERO).await.expect("events can be read");
            let own = events.iter().rev().find(|event| event.version == outcome.version);
            if let Some(event) = own.or(events.last().filter(|_| outcome.changes.is_empty())) {
                return event.sequence;
            }
            if outcome.changes.is_empty() {
                return Sequence::ZERO;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the events of {:?} are never listed", outcome.version);
    }

    pub(super) async fn event_names(&self, mark: Sequence, users: &[Key]) -> Vec<&'static str> {
        self.events(mark, users).await.iter().map(Event::name).collect()
    }

    pub(super) async fn close(&self) {
        self.store.close().await.expect("the store closes");
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Closes the store, unless it is closed, and continues with another one opened on the same place.
    pub(super) async fn reopened(self) -> Self {
        if !self.closed.load(Ordering::SeqCst) {
            self.close().await;
        }
        let Self { store, fixture, .. } = self;
        let reopen = fixture.reopen.clone().expect("a durable backend says how to reopen it");
        drop(fixture);
        let world = Self::new(Fixture { store: reopen(store).await, reopen: Some(reopen) });
        world.assert_sound().await;
        world
    }

    /// `count` tasks that all start at once, on as many threads as there are; their results in order.
    pub(super) async fn race<T, F>(&self, count: usize, task: impl Fn(usize, Arc<dyn Store>) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let barrier = Arc::new(Barrier::new(count));
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let (barrier, work) = (Arc::clone(&barrier), task(index, Arc::clone(&self.store)));
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                work.await
            }));
        }
        let mut results = Vec::with_capacity(count);
        for task in tasks {
            results.push(task.await.expect("the task ends"));
        }
        results
    }

    /// C15, as long as the store is open.
    pub(super) async fn assert_sound(&self) {
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        let report = self.store.verify().await.expect("verify runs");
        assert!(report.is_clean(), "C15: verify found {:#?}", report.problems);
    }
}
