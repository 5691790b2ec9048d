//! The state plus what the current batch has decided: what the next decision of the batch looks at. Readers see
//! nothing of it until the batch is durable.

use std::cell::RefCell;

use entourage_model::{Change, EdgeValue, IdempotencyRecord, Key, Kind, Outcome, Plane, User, Version, View};
use hashbrown::HashMap;

use super::{engine::Engine, fault::Fault, read};

#[derive(Default)]
pub(super) struct Overlay {
    users: HashMap<Key, User>,
    edges: HashMap<(Kind, Key, Key), Option<EdgeValue>>,
    loads: HashMap<Key, i64>,
    idempotency: HashMap<[u8; 16], IdempotencyRecord>,
}

impl Overlay {
    pub(super) fn clear(&mut self) {
        self.users.clear();
        self.edges.clear();
        self.loads.clear();
        self.idempotency.clear();
    }

    pub(super) fn record(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            match change {
                Change::User(user) => {
                    if let Some(after) = &user.after {
                        self.users.insert(user.key, (**after).clone());
                    }
                }
                Change::Edge(edge) => {
                    let after = Some(edge.after).filter(EdgeValue::is_live);
                    self.edges.insert((edge.kind, edge.follower, edge.target), after);
                    if edge.kind == Kind::Follow {
                        let delta = i64::from(after.is_some()) - i64::from(edge.before.is_some());
                        *self.loads.entry(edge.follower).or_default() += delta;
                    }
                }
            }
        }
        if let Some(record) = outcome.idempotency {
            self.idempotency.insert(record.key.scope, record);
        }
    }
}

/// One look for one decision. A failed read of the disk is kept, and the decision it made worthless thrown away.
pub(super) struct Look<'a> {
    pub(super) engine: &'a Engine,
    pub(super) overlay: &'a Overlay,
    pub(super) fault: RefCell<Option<Fault>>,
}

impl Look<'_> {
    fn keep<T>(&self, read: Result<Option<T>, Fault>) -> Option<T> {
        read.unwrap_or_else(|fault| {
            *self.fault.borrow_mut() = Some(fault);
            None
        })
    }

    fn stored_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        Plane::of_kind(kind).iter().any(|&plane| self.engine.state.has_active(plane, follower, target))
    }
}

impl View for Look<'_> {
    fn user_exists(&self, key: Key) -> bool {
        self.engine.state.ordinal(key).is_some() || self.overlay.users.contains_key(&key)
    }

    fn is_private(&self, key: Key) -> bool {
        match self.overlay.users.get(&key) {
            Some(user) => user.private,
            None => self.engine.state.is_private(key),
        }
    }

    fn user(&self, key: Key) -> Option<User> {
        self.overlay.users.get(&key).cloned().or_else(|| self.engine.state.user(key))
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        match self.overlay.edges.get(&(kind, follower, target)) {
            Some(edge) => edge.is_some(),
            None => self.stored_edge(kind, follower, target),
        }
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        match self.overlay.edges.get(&(kind, follower, target)) {
            Some(edge) => *edge,
            None => self.keep(read::get(&self.engine.state, &self.engine.files, kind, follower, target)),
        }
    }

    fn following_load(&self, follower: Key) -> u64 {
        let delta = self.overlay.loads.get(&follower).copied().unwrap_or_default();
        self.engine.state.following_load(follower).saturating_add_signed(delta)
    }

    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        let ttl = self.engine.options.idempotency_millis();
        match self.overlay.idempotency.get(scope) {
            Some(record) => Some(*record),
            None => self.keep(self.engine.idempotency.get(scope, now, ttl)),
        }
    }
}
