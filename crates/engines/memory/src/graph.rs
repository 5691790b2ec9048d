//! A graph in plain ordered maps. `apply` converges under any order and repetition of outcomes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    iter,
    ops::Bound,
};

use entourage_model::{
    Buckets, Cause, Change, Counts, Edge, EdgeChange, EdgeValue, Ended, IdempotencyRecord, Key, Kind, List, Moments,
    Outcome, Page, Place, Plane, Quota, Record, RecordId, Result, Side, Space, User, UserChange, Version, View,
};

use super::documents::Documents;
use entourage_store::{SweepCursor, Swept};

const IDEMPOTENCY_TTL_MILLIS: u64 = 24 * 60 * 60 * 1000;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    users: BTreeMap<Key, User>,
    /// When each key was last erased: older changes are ignored, whenever they arrive.
    erased: BTreeMap<Key, Version>,
    documents: Documents,
    history: BTreeMap<Key, BTreeMap<(Version, Key), Ended>>,
    /// Removed edges stay as tombstones: that is what makes `apply` commute.
    edges: BTreeMap<(Kind, Key, Key), EdgeValue>,
    lists: BTreeMap<(Key, Plane, Side), Rows>,
    idempotency: HashMap<[u8; 16], IdempotencyRecord>,
    quotas: BTreeMap<Key, (Version, Quota)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Rows {
    places: BTreeSet<Place>,
    /// Those that are not quiet.
    open: BTreeSet<Place>,
}

impl Rows {
    fn quiet(&self) -> u64 {
        (self.places.len() - self.open.len()) as u64
    }
}

impl Graph {
    pub(crate) fn has_user(&self, key: Key) -> bool {
        self.users.contains_key(&key)
    }

    pub fn has_id(&self, key: Key, id: &[u8]) -> bool {
        self.users.get(&key).is_some_and(|user| user.id.as_str().as_bytes() == id)
    }

    pub fn apply(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            match change {
                Change::Edge(edge) => self.apply_edge(edge),
                Change::User(user) => self.apply_user(user, outcome.version),
                Change::Record(record) => {
                    let outlives = record.space == Space::Post;
                    if outlives || self.is_after_erasing(record.owner, outcome.version) {
                        self.documents.apply(record, outcome.version);
                    }
                }
            }
        }
        if let Some(&record) = outcome.idempotency.as_deref() {
            let known = self.idempotency.entry(record.key.scope).or_insert(record);
            if known.version < record.version {
                *known = record;
            }
        }
        if let Some(change) = &outcome.quota
            && self.is_after_erasing(change.actor, outcome.version)
            && self.quotas.get(&change.actor).is_none_or(|(known, _)| *known < outcome.version)
        {
            self.quotas.insert(change.actor, (outcome.version, change.after.clone()));
        }
    }

    fn is_after_erasing(&self, key: Key, version: Version) -> bool {
        self.erased.get(&key).is_none_or(|erased| *erased < version)
    }

    fn apply_user(&mut self, change: &UserChange, version: Version) {
        let key = change.key;
        if !self.is_after_erasing(key, version) {
            return;
        }
        match &change.after {
            Some(after) => {
                if self.users.get(&key).is_none_or(|known| known.version < after.version) {
                    self.users.insert(key, (**after).clone());
                }
            }
            None => {
                self.erased.insert(key, version);
                if self.users.get(&key).is_some_and(|known| known.version < version) {
                    self.users.remove(&key);
                }
                self.documents.forget(key, version);
                self.quotas.retain(|actor, (known, _)| *actor != key || *known > version);
                if let Some(history) = self.history.get_mut(&key) {
                    history.retain(|(ended, _), _| *ended > version);
                    if history.is_empty() {
                        self.history.remove(&key);
                    }
                }
            }
        }
    }

    fn apply_edge(&mut self, change: &EdgeChange) {
        let id = (change.kind, change.follower, change.target);
        if let Some(ended) = Ended::of(change)
            && self.is_after_erasing(change.follower, ended.ended)
        {
            self.history.entry(change.follower).or_default().insert((ended.ended, ended.target), ended);
        }
        let known = self.edges.get(&id).copied();
        let merged = known.map_or(change.after, |known| known.merge(change.after));
        if known != Some(merged) {
            self.set_edge(id, merged);
        }
    }

    /// Sets an edge unconditionally.
    pub(crate) fn set_edge(&mut self, id: (Kind, Key, Key), value: EdgeValue) {
        if let Some(known) = self.edges.insert(id, value) {
            self.list(id, known, false);
        }
        self.list(id, value, true);
    }

    /// What is known of an edge, tombstones included.
    pub fn known_edge(&self, id: (Kind, Key, Key)) -> Option<EdgeValue> {
        self.edges.get(&id).copied()
    }

    /// All known edges, tombstones included.
    pub fn known_edges(&self) -> impl Iterator<Item = ((Kind, Key, Key), EdgeValue)> {
        self.edges.iter().map(|(&id, &value)| (id, value))
    }

    fn list(&mut self, (kind, follower, target): (Kind, Key, Key), value: EdgeValue, add: bool) {
        let Some(plane) = Plane::of(kind, value.state) else { return };
        let ends = [(follower, Side::Following, target), (target, Side::Followers, follower)];
        for (user, side, other) in ends {
            let rows = self.lists.entry((user, plane, side)).or_default();
            let place = Place { position: value.position, key: other };
            if add {
                rows.places.insert(place);
                if !value.quiet {
                    rows.open.insert(place);
                }
            } else {
                rows.places.remove(&place);
                rows.open.remove(&place);
            }
            if rows.places.is_empty() {
                self.lists.remove(&(user, plane, side));
            }
        }
    }

    pub fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Page {
        let below = (Bound::Unbounded, after.map_or(Bound::Unbounded, Bound::Excluded));
        self.page(list, limit, |places| Box::new(places.range(below).rev()))
    }

    pub fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Page {
        let above = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.page(list, limit, |places| Box::new(places.range(above)))
    }

    fn page<'a>(
        &'a self,
        list: List,
        limit: usize,
        behind: impl FnOnce(&'a BTreeSet<Place>) -> Box<dyn Iterator<Item = &'a Place> + 'a>,
    ) -> Page {
        let Some(rows) = self.lists.get(&(list.user, list.plane, list.side)) else { return Page::default() };
        let (places, quiet) = if list.open { (&rows.open, 0) } else { (&rows.places, rows.quiet()) };
        let edges = behind(places).take(limit + 1).filter_map(|place| self.edge_at(list, place.key));
        let mut edges: Vec<Edge> = edges.collect();
        let more = edges.len() > limit;
        edges.truncate(limit);
        Page { edges, more, total: places.len() as u64, quiet }
    }

    fn edge_at(&self, list: List, other: Key) -> Option<Edge> {
        let (follower, target) = match list.side {
            Side::Following => (list.user, other),
            Side::Followers => (other, list.user),
        };
        let kind = list.plane.kind();
        let value = *self.edges.get(&(kind, follower, target))?;
        Some(Edge { kind, follower, target, value })
    }

    pub fn counts(&self, user: Key) -> Option<Counts> {
        self.users.get(&user)?;
        let count = |plane, side| {
            self.lists.get(&(user, plane, side)).map_or((0, 0), |rows| (rows.places.len() as u64, rows.quiet()))
        };
        let (followers, followers_quiet) = count(Plane::Follow, Side::Followers);
        let (following, following_quiet) = count(Plane::Follow, Side::Following);
        let (requests, _) = count(Plane::Request, Side::Followers);
        let (requested, _) = count(Plane::Request, Side::Following);
        Some(Counts { followers, followers_quiet, following, following_quiet, requests, requested })
    }

    pub fn users_above(&self, after: Option<Key>) -> impl Iterator<Item = &User> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.users.range((from, Bound::Unbounded)).map(|(_, user)| user)
    }

    /// Users by key, after the last one of the previous page.
    pub fn sweep(&self, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        let after = after.map(SweepCursor::key).transpose()?;
        Ok(Swept::by_key(self.users_above(after).take(limit).cloned().collect(), limit))
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// A user's ended follows since `oldest`, newest first.
    pub fn history(&self, follower: Key, before: Option<Version>, oldest: Version) -> impl Iterator<Item = Ended> {
        let created = self.users.get(&follower).map(|user| user.created);
        let entries = created.and_then(|_| self.history.get(&follower)).map(|entries| entries.values().rev());
        let from = created.unwrap_or_default().max(oldest);
        entries
            .into_iter()
            .flatten()
            .copied()
            .filter(move |entry| entry.ended >= from && before.is_none_or(|before| entry.ended < before))
    }

    /// Every live edge.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.edges.iter().filter(|(_, value)| value.is_live()).map(|(&(kind, follower, target), &value)| Edge {
            kind,
            follower,
            target,
            value,
        })
    }

    /// Every row of every list: user, list, entry.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (List, Place)> {
        self.lists.iter().flat_map(|(&(user, plane, side), rows)| {
            rows.places.iter().map(move |&place| (List::new(user, plane, side), place))
        })
    }
}

impl View for Graph {
    fn buckets(&self) -> Buckets {
        Buckets::ONE
    }

    fn user_exists(&self, key: Key) -> bool {
        self.users.contains_key(&key)
    }

    fn is_private(&self, key: Key) -> bool {
        self.users.get(&key).is_some_and(|user| user.private)
    }

    fn is_suspended(&self, key: Key) -> bool {
        self.users.get(&key).is_some_and(|user| user.follow_suspended)
    }

    fn user(&self, key: Key) -> Option<User> {
        self.users.get(&key).cloned()
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        self.edge(kind, follower, target).is_some()
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        self.edges.get(&(kind, follower, target)).copied().filter(EdgeValue::is_live)
    }

    fn following_load(&self, follower: Key) -> u64 {
        Plane::of_kind(Kind::Follow)
            .iter()
            .filter_map(|&plane| self.lists.get(&(follower, plane, Side::Following)))
            .map(|rows| rows.places.len() as u64)
            .sum()
    }

    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        let record = self.idempotency.get(scope).copied()?;
        (record.version.millis().plus(IDEMPOTENCY_TTL_MILLIS) > now.millis()).then_some(record)
    }

    fn quota(&self, actor: Key) -> Quota {
        self.quotas.get(&actor).map(|(_, quota)| quota.clone()).unwrap_or_default()
    }

    fn ends(&self, follower: Key, target: Key) -> Moments {
        let ends = self.history(follower, None, Version::ZERO);
        let ends = ends.filter(|ended| ended.target == target && ended.cause != Cause::Erase);
        let mut times: Vec<_> = ends.map(|ended| ended.ended.millis()).collect();
        times.reverse();
        Moments::of_ends(times)
    }

    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        self.documents.get(space, owner, id)
    }

    fn record_count(&self, space: Space, owner: Key) -> u64 {
        self.documents.count(space, owner)
    }

    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        let all = self.documents.scan(space, owner, Some(prefix));
        let own = all.take_while(|record| record.id.as_bytes().starts_with(prefix));
        own.take(limit).map(|record| (record.id, record.version)).collect()
    }

    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge> {
        let lists = Plane::ALL.into_iter().flat_map(|plane| Side::BOTH.map(|side| List::new(key, plane, side)));
        let rows = lists.flat_map(|list| {
            let rows = self.lists.get(&(list.user, list.plane, list.side));
            rows.map_or(iter::empty().collect(), |rows| {
                rows.places.iter().filter_map(|place| self.edge_at(list, place.key)).take(limit).collect::<Vec<_>>()
            })
        });
        rows.take(limit).collect()
    }
}
