//! The state plus what was decided and is not in it yet: what the next decision looks at. Readers see nothing of it
//! until it is durable.

use std::cell::RefCell;

use entourage_model::{Change, EdgeValue, IdempotencyRecord, Key, Kind, Outcome, Plane, User, Version, View};
use hashbrown::HashMap;

use super::{engine::Engine, fault::Fault, read};

/// What the current batch has decided, over what another thread is bringing into the state.
#[derive(Default)]
pub(super) struct Overlay {
    current: Layer,
    /// May or may not be in the state already: edges, users and keys say the same there and here; loads, which are
    /// differences, must not be asked for meanwhile.
    flying: Layer,
}

#[derive(Default)]
struct Layer {
    users: HashMap<Key, User>,
    edges: HashMap<(Kind, Key, Key), Option<EdgeValue>>,
    loads: HashMap<Key, i64>,
    idempotency: HashMap<[u8; 16], IdempotencyRecord>,
    /// Whether `edges` has any of a kind: blocks are asked for with every follow and hardly ever there.
    kinds: [bool; Kind::ALL.len()],
}

impl Overlay {
    /// The current batch is in the state.
    pub(super) fn clear(&mut self) {
        self.current.clear();
    }

    /// The current batch is on its way into the state. Only when none is.
    pub(super) fn take_off(&mut self) {
        std::mem::swap(&mut self.current, &mut self.flying);
        self.current.clear();
    }

    /// What was on its way is in the state.
    pub(super) fn land(&mut self) {
        self.flying.clear();
    }

    /// Whether the number of this user's follows is being changed by what is on its way.
    pub(super) fn is_flying(&self, follower: Key) -> bool {
        !self.flying.loads.is_empty() && self.flying.loads.contains_key(&follower)
    }

    pub(super) fn record(&mut self, outcome: &Outcome) {
        self.current.record(outcome);
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<&Option<EdgeValue>> {
        self.current.edge(kind, follower, target).or_else(|| self.flying.edge(kind, follower, target))
    }

    fn user(&self, key: Key) -> Option<&User> {
        self.current.users.get(&key).or_else(|| self.flying.users.get(&key))
    }

    fn idempotency(&self, scope: &[u8; 16]) -> Option<&IdempotencyRecord> {
        self.current.idempotency.get(scope).or_else(|| self.flying.idempotency.get(scope))
    }
}

impl Layer {
    fn clear(&mut self) {
        self.users.clear();
        self.edges.clear();
        self.loads.clear();
        self.idempotency.clear();
        self.kinds = Default::default();
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<&Option<EdgeValue>> {
        if self.kinds[kind as usize] { self.edges.get(&(kind, follower, target)) } else { None }
    }

    fn record(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            match change {
                Change::User(user) => {
                    if let Some(after) = &user.after {
                        self.users.insert(user.key, (**after).clone());
                    }
                }
                Change::Edge(edge) => {
                    let after = Some(edge.after).filter(EdgeValue::is_live);
                    self.kinds[edge.kind as usize] = true;
                    self.edges.insert((edge.kind, edge.follower, edge.target), after);
                    if edge.kind == Kind::Follow {
                        let delta = i64::from(after.is_some()) - i64::from(edge.before.is_some());
                        *self.loads.entry(edge.follower).or_default() += delta;
                    }
                }
            }
        }
        if let Some(record) = outcome.idempotency.as_deref() {
            self.idempotency.insert(record.key.scope, *record);
        }
    }
}

/// One look for one decision. A failed read of the disk is kept, and the decision it made worthless thrown away.
pub(super) struct Look<'a> {
    engine: &'a Engine,
    overlay: &'a Overlay,
    /// The users that the write names: looked up once, asked for many times.
    parties: [(Key, Option<u32>); 2],
    fault: RefCell<Option<Fault>>,
}

impl<'a> Look<'a> {
    pub(super) const fn new(engine: &'a Engine, overlay: &'a Overlay, parties: [(Key, Option<u32>); 2]) -> Self {
        Self { engine, overlay, parties, fault: RefCell::new(None) }
    }

    pub(super) fn into_fault(self) -> Option<Fault> {
        self.fault.into_inner()
    }

    fn ordinal(&self, key: Key) -> Option<u32> {
        // Who had none when they were looked up may have one by now.
        let known = self.parties.iter().find(|(known, _)| *known == key).and_then(|(_, ordinal)| *ordinal);
        known.or_else(|| self.engine.state.ordinal(key))
    }

    fn keep<T>(&self, read: Result<Option<T>, Fault>) -> Option<T> {
        read.unwrap_or_else(|fault| {
            *self.fault.borrow_mut() = Some(fault);
            None
        })
    }

    fn ordinals(&self, follower: Key, target: Key) -> Option<(u32, u32)> {
        Some((self.ordinal(follower)?, self.ordinal(target)?))
    }
}

impl View for Look<'_> {
    fn user_exists(&self, key: Key) -> bool {
        self.ordinal(key).is_some() || self.overlay.user(key).is_some()
    }

    fn is_private(&self, key: Key) -> bool {
        match self.overlay.user(key) {
            Some(user) => user.private,
            None => self.ordinal(key).is_some_and(|ordinal| self.engine.state.is_private(ordinal)),
        }
    }

    fn user(&self, key: Key) -> Option<User> {
        self.overlay.user(key).cloned().or_else(|| self.engine.state.user(key))
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        if let Some(edge) = self.overlay.edge(kind, follower, target) {
            return edge.is_some();
        }
        let planes = Plane::of_kind(kind);
        self.ordinals(follower, target)
            .is_some_and(|(follower, target)| self.engine.state.plane_of(planes, follower, target).is_some())
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        if let Some(edge) = self.overlay.edge(kind, follower, target) {
            return *edge;
        }
        let (follower, target) = self.ordinals(follower, target)?;
        self.keep(read::get(&self.engine.state, &self.engine.files, kind, follower, target))
    }

    fn following_load(&self, follower: Key) -> u64 {
        let delta = self.overlay.current.loads.get(&follower).copied().unwrap_or_default();
        let stored = self.ordinal(follower).map_or(0, |ordinal| self.engine.state.following_load(ordinal));
        stored.saturating_add_signed(delta)
    }

    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        let ttl = self.engine.options.idempotency_millis();
        match self.overlay.idempotency(scope) {
            Some(record) => Some(*record),
            None => self.keep(self.engine.idempotency.get(scope, now, ttl)),
        }
    }
}
