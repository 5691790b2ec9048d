//! What the decisions of a batch read: loaded under the commit's locks, and changed by each decision for the next ones.

use entourage_model::{
    Buckets, Cause, Change, Edge, EdgeChange, EdgeValue, Ended, IdempotencyRecord, Key, Kind, Millis, Moments, Outcome,
    Quota, Record, RecordChange, RecordId, Space, User, Version, View,
};
use hashbrown::{HashMap, HashSet};

use super::wants::{ListName, RecordName, Wants};

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) users: HashMap<Key, User>,
    pub(super) quotas: HashMap<Key, Quota>,
    /// Tombstones too: the next version must exceed theirs.
    pub(super) edges: HashMap<(Kind, Key, Key), EdgeValue>,
    /// Which edges PostgreSQL has a row of.
    pub(super) stored: HashSet<(Kind, Key, Key)>,
    /// Edges of a key without a user.
    pub(super) edges_of: HashMap<Key, Vec<Edge>>,
    pub(super) loads: HashMap<Key, i64>,
    pub(super) ends: HashMap<(Key, Key), Moments>,
    pub(super) records: HashMap<RecordName, Record>,
    pub(super) counts: HashMap<(Space, Key), i64>,
    /// Members of a group, or posts.
    pub(super) lists: HashMap<ListName, Vec<(RecordId, Version)>>,
    pub(super) erased: HashMap<Key, Version>,
    pub(super) idempotency: HashMap<[u8; 16], IdempotencyRecord>,
    pub(super) idempotency_millis: u64,
    /// By the database's clock.
    pub(super) now: Millis,
}

impl Loaded {
    /// What the version of a write must exceed.
    pub(super) fn floor(&self, wants: &Wants) -> Version {
        let users = wants.users.iter().filter_map(|key| self.users.get(key)).map(|user| user.version);
        let pairs = wants.pair.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let names = pairs.flat_map(|(a, b)| Kind::ALL.map(|kind| (kind, a, b)));
        let edges = names.filter_map(|name| self.edges.get(&name)).map(|value| value.version);
        let edges_of = wants.edges_of.and_then(|(key, _)| self.edges_of.get(&key));
        let edges_of = edges_of.into_iter().flatten().map(|edge| edge.value.version);
        let records = wants.records.iter().filter_map(|name| self.records.get(name)).map(|record| record.version);
        let list = wants.list.as_ref().and_then(|(name, _)| self.lists.get(name));
        let list = list.into_iter().flatten().map(|(_, version)| *version);
        let erased = wants.erased.and_then(|key| self.erased.get(&key)).copied();
        let all = users.chain(edges).chain(edges_of).chain(records).chain(list).chain(erased);
        all.max().unwrap_or(Version::ZERO)
    }

    /// What was decided is the basis of the next decision of the batch.
    pub(super) fn apply(&mut self, outcome: &Outcome) {
        if outcome.replayed {
            return;
        }
        for change in &outcome.changes {
            match change {
                Change::Edge(edge) => self.apply_edge(edge),
                Change::Record(record) => self.apply_record(record, outcome.version),
                Change::User(user) => match &user.after {
                    Some(after) => drop(self.users.insert(user.key, (**after).clone())),
                    None => drop(self.users.remove(&user.key)),
                },
            }
        }
        if let Some(record) = outcome.idempotency.as_deref() {
            self.idempotency.insert(record.key.scope, *record);
        }
        if let Some(change) = &outcome.quota {
            self.quotas.insert(change.actor, change.after.clone());
        }
    }

    fn apply_edge(&mut self, edge: &EdgeChange) {
        self.edges.insert((edge.kind, edge.follower, edge.target), edge.after);
        if edge.kind != Kind::Follow {
            return;
        }
        if let Some(load) = self.loads.get_mut(&edge.follower) {
            *load += i64::from(edge.after.is_live()) - i64::from(edge.before.is_some());
        }
        if let Some(ended) = Ended::of(edge).filter(|ended| ended.cause != Cause::Erase) {
            self.ends.entry((edge.follower, edge.target)).or_default().push_end(ended.ended.millis());
        }
    }

    fn apply_record(&mut self, change: &RecordChange, version: Version) {
        let RecordChange { space, owner, id, before, after } = change;
        if let Some(count) = self.counts.get_mut(&(*space, *owner)) {
            *count += i64::from(after.is_some()) - i64::from(before.is_some());
        }
        let name = (*space, *owner, id.clone());
        let Some(value) = after.clone() else {
            self.records.remove(&name);
            return;
        };
        if *space == Space::Post
            && let Some(posts) = self.lists.get_mut(&(*space, *owner, Box::default()))
        {
            posts.insert(0, (id.clone(), version));
        }
        self.records.insert(name, Record { id: id.clone(), version, value });
    }
}

impl View for Loaded {
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
        self.loads.get(&follower).map_or(0, |load| load.unsigned_abs())
    }

    /// By the time: the version of a write may lie ahead of it.
    fn idempotency(&self, scope: &[u8; 16], _: Version) -> Option<IdempotencyRecord> {
        let record = self.idempotency.get(scope).copied();
        record.filter(|record| record.version.millis().plus(self.idempotency_millis) > self.now)
    }

    fn quota(&self, actor: Key) -> Quota {
        self.quotas.get(&actor).cloned().unwrap_or_default()
    }

    fn ends(&self, follower: Key, target: Key) -> Moments {
        self.ends.get(&(follower, target)).cloned().unwrap_or_default()
    }

    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        self.records.get(&(space, owner, id.clone())).cloned()
    }

    fn record_count(&self, space: Space, owner: Key) -> u64 {
        self.counts.get(&(space, owner)).map_or(0, |count| count.unsigned_abs())
    }

    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        let list = self.lists.get(&(space, owner, prefix.into()));
        list.into_iter().flatten().take(limit).cloned().collect()
    }

    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge> {
        self.edges_of.get(&key).into_iter().flatten().take(limit).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{
        FollowLimits, Millis, Operation, Overwrite, Refusal, Reply, Sequence, UserId, UserPatch, Write, resolve,
    };

    use super::*;

    fn decide(state: &mut Loaded, write: impl Into<Write>, number: u64) -> Result<Outcome, Refusal> {
        let version = Version::new(Millis::from_since_2000(number), 0, 0);
        let outcome = resolve(state, &write.into(), version, Sequence::ZERO)?;
        state.apply(&outcome);
        Ok(outcome)
    }

    fn with_users(keys: std::ops::RangeInclusive<i64>) -> Loaded {
        let mut state = Loaded::default();
        for key in keys {
            let (id, patch, overwrite) = (UserId::from(key), UserPatch::default(), Overwrite::Replace);
            decide(&mut state, Operation::PutUser { key: Key(key), id, patch, overwrite }, 1).unwrap();
        }
        state.loads = state.users.keys().map(|key| (*key, 0)).collect();
        state
    }

    fn follow(follower: i64, target: i64, cap: u64) -> Operation {
        let (follower, target) = (Key(follower), Key(target));
        Operation::Follow { follower, target, quiet: Some(false), cap: Some(cap), park: false }
    }

    #[test]
    fn each_decision_sees_those_before_it() {
        let mut state = with_users(1..=4);
        let created = |outcome: Outcome| matches!(outcome.reply, Reply::Edge { created: true, .. });
        assert!(created(decide(&mut state, follow(1, 2, 2), 2).unwrap()));
        assert!(!created(decide(&mut state, follow(1, 2, 2), 3).unwrap()));
        assert!(created(decide(&mut state, follow(1, 3, 2), 4).unwrap()));
        assert_eq!(decide(&mut state, follow(1, 4, 2), 5), Err(Refusal::FollowingLimit));
        decide(&mut state, Operation::Block { actor: Key(2), target: Key(1) }, 6).unwrap();
        assert_eq!(decide(&mut state, follow(1, 2, 2), 7), Err(Refusal::Blocked));
        assert!(created(decide(&mut state, follow(1, 4, 2), 8).unwrap()), "the block made room");
        assert_eq!(state.following_load(Key(1)), 2);
    }

    #[test]
    fn ends_quotas_and_mutes_of_the_batch_count() {
        let mut state = with_users(1..=3);
        let now = Millis::from_since_2000(10);
        let limits = FollowLimits { per_hour: 10, burst: 2, flips_per_day: 1, ..FollowLimits::none(now) };
        let limited = |target| Write { limits: Some(limits), ..Write::from(follow(1, target, 9)) };
        decide(&mut state, limited(2), 10).unwrap();
        decide(&mut state, Operation::Unfollow { follower: Key(1), target: Key(2) }, 11).unwrap();
        assert!(matches!(decide(&mut state, limited(2), 12), Err(Refusal::CoolingDown { .. })));
        decide(&mut state, limited(3), 13).unwrap();
        decide(&mut state, Operation::Unfollow { follower: Key(1), target: Key(3) }, 14).unwrap();
        state.ends.clear();
        assert!(matches!(decide(&mut state, limited(3), 15), Err(Refusal::RateLimited { .. })));
        let mute = |expires_at| Operation::Mute { actor: Key(1), target: Key(2), expires_at };
        let muted = decide(&mut state, mute(Some(Millis::from_since_2000(90_000))), 16).unwrap();
        assert_eq!((muted.changes.len(), state.records.len()), (2, 1));
        assert_eq!(decide(&mut state, mute(None), 17).unwrap().changes.len(), 2);
        assert!(state.records.is_empty(), "the end of a mute goes with it");
    }
}
