//! The state plus what is decided and not applied yet: the basis of the next decision. Readers see it only once it is
//! durable.

use std::{cell::RefCell, collections::BTreeMap};

use entourage_model::{
    Buckets, Change, Edge, EdgeValue, IdempotencyRecord, Key, Kind, List, Millis, Moments, Outcome, Plane, Quota,
    Record, RecordChange, RecordId, Side, Space, User, Version, View,
};
use hashbrown::HashMap;

use crate::{
    documents::document_block::{Collection, CollectionKey},
    engine::Engine,
    fault::Fault,
    reads::edges,
    state::{delta::Direction, plane::StoredPlane, quotas},
};

/// What the current batch has decided, over what another thread is applying.
#[derive(Default)]
pub(crate) struct Overlay {
    current: Layer,
    /// May be in the state already. Edges, users and keys are the same in both; loads are differences and must not be
    /// read meanwhile.
    flying: Layer,
}

#[derive(Default)]
struct Layer {
    users: HashMap<Key, User>,
    edges: HashMap<(Kind, Key, Key), Option<EdgeValue>>,
    loads: HashMap<Key, i64>,
    idempotency: HashMap<[u8; 16], IdempotencyRecord>,
    records: HashMap<(Space, Key), BTreeMap<RecordId, Option<Record>>>,
    record_counts: HashMap<(Space, Key), i64>,
    quotas: HashMap<Key, Quota>,
    /// Not to be read in flight, as with `loads`, which change with them.
    ends: HashMap<(Key, Key), Vec<Millis>>,
    /// Whether `edges` has any of a kind: every follow looks for blocks, which are hardly ever there.
    kinds: [bool; Kind::ALL.len()],
}

impl Overlay {
    /// Call when the current batch is in the state.
    pub(crate) fn clear(&mut self) {
        self.current.clear();
    }

    /// Moves the current batch to `flying`. Only if no other is in flight.
    pub(crate) fn take_off(&mut self) {
        std::mem::swap(&mut self.current, &mut self.flying);
        self.current.clear();
    }

    /// Call when the batch in flight is in the state.
    pub(crate) fn land(&mut self) {
        self.flying.clear();
    }

    /// Whether the batch in flight changes the number of this user's follows, or any records.
    pub(crate) fn is_flying(&self, follower: Key) -> bool {
        (!self.flying.loads.is_empty() && self.flying.loads.contains_key(&follower))
            || !self.flying.record_counts.is_empty()
    }

    pub(crate) fn record(&mut self, outcome: &Outcome) {
        self.current.record(outcome);
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<&Option<EdgeValue>> {
        self.current.edge(kind, follower, target).or_else(|| self.flying.edge(kind, follower, target))
    }

    fn user(&self, key: Key) -> Option<&User> {
        self.current.users.get(&key).or_else(|| self.flying.users.get(&key))
    }

    fn quota(&self, actor: Key) -> Option<&Quota> {
        self.current.quotas.get(&actor).or_else(|| self.flying.quotas.get(&actor))
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
        self.records.clear();
        self.record_counts.clear();
        self.quotas.clear();
        self.ends.clear();
        self.kinds = Default::default();
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<&Option<EdgeValue>> {
        if self.kinds[kind as usize] { self.edges.get(&(kind, follower, target)) } else { None }
    }

    fn record_change(&mut self, change: &RecordChange, version: Version) {
        let list = (change.space, change.owner);
        let (id, value) = (change.id.clone(), change.after.clone());
        let record = value.map(|value| Record { id: id.clone(), version, value });
        *self.record_counts.entry(list).or_default() +=
            i64::from(record.is_some()) - i64::from(change.before.is_some());
        self.records.entry(list).or_default().insert(id, record);
    }

    /// An erasure is a batch of its own: its users and records are never here.
    fn record(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            match change {
                Change::User(user) => {
                    if let Some(after) = &user.after {
                        self.users.insert(user.key, (**after).clone());
                    }
                }
                Change::Record(record) => self.record_change(record, outcome.version),
                Change::Edge(edge) => {
                    let after = Some(edge.after).filter(EdgeValue::is_live);
                    self.kinds[edge.kind as usize] = true;
                    self.edges.insert((edge.kind, edge.follower, edge.target), after);
                    if edge.kind == Kind::Follow {
                        let delta = i64::from(after.is_some()) - i64::from(edge.before.is_some());
                        *self.loads.entry(edge.follower).or_default() += delta;
                        if let Some(flip) = quotas::flip(edge) {
                            self.ends.entry((edge.follower, edge.target)).or_default().push(flip.ended.millis());
                        }
                    }
                }
            }
        }
        if let Some(record) = outcome.idempotency.as_deref() {
            self.idempotency.insert(record.key.scope, *record);
        }
        if let Some(change) = &outcome.quota {
            self.quotas.insert(change.actor, change.after.clone());
        }
    }
}

/// The view of one decision. A failed disk read is kept, and the decision based on it dropped.
pub(crate) struct Look<'a> {
    engine: &'a Engine,
    overlay: &'a Overlay,
    /// The users that the write names: looked up once, used many times.
    parties: [(Key, Option<u32>); 2],
    fault: RefCell<Option<Fault>>,
}

impl<'a> Look<'a> {
    pub(crate) const fn new(engine: &'a Engine, overlay: &'a Overlay, parties: [(Key, Option<u32>); 2]) -> Self {
        Self { engine, overlay, parties, fault: RefCell::new(None) }
    }

    pub(crate) fn into_fault(self) -> Option<Fault> {
        self.fault.into_inner()
    }

    fn ordinal(&self, key: Key) -> Option<u32> {
        // A user looked up without an ordinal may have one by now.
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
        Some((self.ordinal_of_edges(follower)?, self.ordinal_of_edges(target)?))
    }

    fn ordinal_of_edges(&self, key: Key) -> Option<u32> {
        self.ordinal(key).or_else(|| self.engine.state.erased().ordinal(key))
    }
}

impl View for Look<'_> {
    fn buckets(&self) -> Buckets {
        Buckets::ONE
    }

    fn user_exists(&self, key: Key) -> bool {
        self.ordinal(key).is_some() || self.overlay.user(key).is_some()
    }

    fn is_private(&self, key: Key) -> bool {
        match self.overlay.user(key) {
            Some(user) => user.private,
            None => self.ordinal(key).is_some_and(|ordinal| self.engine.state.is_private(ordinal)),
        }
    }

    fn is_suspended(&self, key: Key) -> bool {
        match self.overlay.user(key) {
            Some(user) => user.follow_suspended,
            None => self.ordinal(key).is_some_and(|ordinal| self.engine.state.is_suspended(ordinal)),
        }
    }

    fn user(&self, key: Key) -> Option<User> {
        self.overlay.user(key).cloned().or_else(|| self.engine.state.user(key))
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        if let Some(edge) = self.overlay.edge(kind, follower, target) {
            return edge.is_some();
        }
        let planes = StoredPlane::of_kind(kind);
        self.ordinals(follower, target)
            .is_some_and(|(follower, target)| self.engine.state.plane_of(planes, follower, target).is_some())
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        if let Some(edge) = self.overlay.edge(kind, follower, target) {
            return *edge;
        }
        let (follower, target) = self.ordinals(follower, target)?;
        self.keep(edges::get(&self.engine.state, &self.engine.files, kind, follower, target))
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

    fn quota(&self, actor: Key) -> Quota {
        self.overlay.quota(actor).cloned().unwrap_or_else(|| self.engine.state.quotas.quota(actor))
    }

    fn ends(&self, follower: Key, target: Key) -> Moments {
        let mut ends = self.engine.state.quotas.ends(follower, target);
        let decided = self.overlay.current.ends.get(&(follower, target));
        decided.into_iter().flatten().for_each(|end| ends.push_end(*end));
        ends
    }

    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        if let Some(record) = self.overlay.current.records.get(&(space, owner)).and_then(|list| list.get(id)) {
            return record.clone();
        }
        let key = CollectionKey { owner, collection: Collection::Records(space) };
        let found = self.keep(self.engine.state.documents.get(&self.engine.files, key, id.as_bytes()))?;
        Some(Record { id: id.clone(), version: found.version, value: found.value })
    }

    fn record_count(&self, space: Space, owner: Key) -> u64 {
        let stored = self.engine.state.documents.count(CollectionKey { owner, collection: Collection::Records(space) });
        stored
            .saturating_add_signed(self.overlay.current.record_counts.get(&(space, owner)).copied().unwrap_or_default())
    }

    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        let key = CollectionKey { owner, collection: Collection::Records(space) };
        let decided = self.overlay.current.records.get(&(space, owner));
        // Removals of this batch may hide as many stored records.
        let reach = limit + decided.map_or(0, BTreeMap::len);
        let stored = self.engine.state.documents.scan(&self.engine.files, key, prefix, reach);
        let stored = self.keep(stored.map(Some)).unwrap_or_default();
        let mut found: BTreeMap<RecordId, Option<Version>> = BTreeMap::new();
        for (id, document) in stored.into_iter().take_while(|(id, _)| id.starts_with(prefix)) {
            found.extend(RecordId::new(&id).ok().map(|id| (id, Some(document.version))));
        }
        for (id, record) in decided.into_iter().flatten().filter(|(id, _)| id.as_bytes().starts_with(prefix)) {
            found.insert(id.clone(), record.as_ref().map(|record| record.version));
        }
        found.into_iter().filter_map(|(id, version)| Some((id, version?))).take(limit).collect()
    }

    /// Edges that an erased user left. Operations that read them begin a batch: the overlay has none.
    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        if self.engine.state.erased().ordinal(key).is_none() {
            return edges;
        }
        for list in Plane::ALL.into_iter().flat_map(|plane| Side::BOTH.map(|side| List::new(key, plane, side))) {
            let wanted = limit - edges.len();
            let page = edges::scan(&self.engine.state, &self.engine.files, list, None, Direction::Down, wanted);
            edges.extend(self.keep(page.map(Some)).map(|page| page.edges).unwrap_or_default());
            if edges.len() >= limit {
                break;
            }
        }
        edges
    }
}
