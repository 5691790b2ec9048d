//! The state in memory: ordinals, users, rows, counts and deltas, in shards behind short locks. Only the committer and
//! recovery apply outcomes; only the checkpoint writer moves deltas into blocks.

pub(crate) mod apply;
pub(crate) mod chunked;
pub(crate) mod delta;
pub(crate) mod erased;
pub(crate) mod grouped;
pub(crate) mod key_table;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod packed_key;
pub(crate) mod plane;
pub(crate) mod profile;
pub(crate) mod quotas;
pub(crate) mod row;
mod shard;

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use entourage_model::{Counts, Edge, Key, Kind, Plane, Sequence, Side, User, Version};
use hashbrown::HashSet;
use parking_lot::{Mutex, RwLock};

pub(crate) use self::shard::{ListKey, SHARDS, Shard, shard_of};
use self::{
    erased::Erased,
    grouped::Grouped,
    key_table::{KeyTable, TABLES},
    keys::Keys,
    packed_key::PackedKey,
    plane::StoredPlane,
    profile::NewProfile,
    quotas::Quotas,
};
use crate::documents::Documents;
use entourage_store::adjacency;

/// Users per block.
pub(crate) const USERS_PER_GROUP: u32 = 64;

/// Everything readers see. It has all sequences up to `published`.
pub(crate) struct State {
    ordinals: KeyTable,
    /// Erased users whose keys are not reused yet.
    erased: Erased,
    keys: RwLock<Keys>,
    pub(crate) documents: Documents,
    pub(crate) quotas: Quotas,
    shards: Vec<RwLock<Shard>>,
    dirty_groups: Mutex<HashSet<u32>>,
    published: AtomicU64,
    edges: AtomicU64,
    delta_entries: AtomicU64,
    frozen_entries: AtomicU64,
    checkpoint_due: AtomicBool,
    /// Users who may not follow: mostly 0, and then no user is looked at.
    suspended: AtomicU64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            ordinals: KeyTable::default(),
            erased: Erased::default(),
            keys: RwLock::default(),
            documents: Documents::default(),
            quotas: Quotas::default(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            dirty_groups: Mutex::default(),
            published: AtomicU64::new(0),
            edges: AtomicU64::new(0),
            delta_entries: AtomicU64::new(0),
            frozen_entries: AtomicU64::new(0),
            checkpoint_due: AtomicBool::new(false),
            suspended: AtomicU64::new(0),
        }
    }
}

impl State {
    #[inline]
    pub(crate) fn ordinal(&self, key: Key) -> Option<u32> {
        self.ordinals.get(key)
    }

    /// Erased users included: their edges stay until those are erased, too.
    #[inline]
    pub(crate) fn ordinal_of_edges(&self, key: Key) -> Option<u32> {
        self.ordinal(key).or_else(|| self.erased.ordinal(key))
    }

    /// Both at once: taking the locks first lets the cache misses of the lookups overlap.
    #[inline]
    fn ordinal_pair(&self, one: Key, other: Key) -> Option<(u32, u32)> {
        let (first, second) = (self.ordinals.read_recursive(one), self.ordinals.read_recursive(other));
        match (first.get(&PackedKey::of(one)), second.get(&PackedKey::of(other))) {
            (Some(one), Some(other)) => Some((*one, *other)),
            _ if self.erased.is_empty() => None,
            (first, second) => {
                let or_erased = |known: Option<&u32>, key| known.copied().or_else(|| self.erased.ordinal(key));
                Some((or_erased(first, one)?, or_erased(second, other)?))
            }
        }
    }

    /// A few at once: all locks first, then all lookups.
    #[inline]
    pub(crate) fn few_ordinals<const N: usize>(&self, keys: [Option<Key>; N]) -> [Option<u32>; N] {
        let shard = |key: Key| self.ordinals.read_recursive(key);
        let guards = keys.map(|key| key.map(|key| (shard(key), key)));
        guards.each_ref().map(|guard| guard.as_ref().and_then(|(shard, key)| shard.get(&PackedKey::of(*key)).copied()))
    }

    /// A few pairs at once: all locks first, then all lookups. `None` if either is unknown.
    #[inline]
    pub(crate) fn ordinal_pairs<const N: usize>(&self, pairs: &[(Key, Key)]) -> [Option<(u32, u32)>; N] {
        let shard = |key: Key| self.ordinals.read_recursive(key);
        let guards: [_; N] = array::from_fn(|index| pairs.get(index).map(|&(one, other)| (shard(one), shard(other))));
        array::from_fn(|index| match (&guards[index], pairs.get(index)) {
            (Some((first, second)), Some(&(one, other))) => {
                match (first.get(&PackedKey::of(one)), second.get(&PackedKey::of(other))) {
                    (Some(&one), Some(&other)) => Some((one, other)),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// [`Self::ordinal_pairs`] for a follower whose ordinal is known.
    #[inline]
    pub(crate) fn target_ordinals<const N: usize>(
        &self,
        follower: u32,
        pairs: &[(Key, Key)],
    ) -> [Option<(u32, u32)>; N] {
        let shard = |key: Key| self.ordinals.read_recursive(key);
        let guards: [_; N] = array::from_fn(|index| pairs.get(index).map(|&(_, target)| (shard(target), target)));
        guards
            .each_ref()
            .map(|guard| guard.as_ref().and_then(|(shard, key)| Some((follower, *shard.get(&PackedKey::of(*key))?))))
    }

    /// Many at once: one lock per table, so that no lookup waits for the cache miss of another.
    pub(crate) fn ordinals_of(&self, keys: &[Key]) -> Vec<Option<u32>> {
        let mut found = vec![None; keys.len()];
        let grouped = Grouped::new(TABLES, keys.iter().map(|key| KeyTable::table_of(*key)));
        for (table, members) in self.ordinals.tables().iter().zip(grouped.groups()) {
            let table = table.read();
            for &index in members {
                found[index as usize] = table.get(&PackedKey::of(keys[index as usize])).copied();
            }
        }
        found
    }

    pub(crate) const fn erased(&self) -> &Erased {
        &self.erased
    }

    pub(crate) fn shard(&self, ordinal: u32) -> &RwLock<Shard> {
        &self.shards[shard_of(ordinal)]
    }

    pub(crate) fn shards(&self) -> &[RwLock<Shard>] {
        &self.shards
    }

    pub(crate) fn keys(&self) -> parking_lot::RwLockReadGuard<'_, Keys> {
        self.keys.read()
    }

    pub(crate) fn users(&self) -> u32 {
        self.keys.read().len() as u32
    }

    pub(crate) fn edges(&self) -> u64 {
        self.edges.load(Ordering::Relaxed)
    }

    pub(crate) fn delta_entries(&self) -> u64 {
        self.delta_entries.load(Ordering::Relaxed)
    }

    pub(crate) fn published(&self) -> Sequence {
        Sequence(self.published.load(Ordering::Acquire))
    }

    pub(crate) fn publish(&self, sequence: Sequence) {
        self.published.store(sequence.0, Ordering::Release);
    }

    /// Estimated bytes of the state, by measured factors.
    pub(crate) fn memory_estimate(&self) -> u64 {
        let others = self.documents.lists_estimate() + self.quotas.memory_estimate();
        u64::from(self.users()) * 96 + self.edges() * 6 + others + self.deltas_estimate()
    }

    /// The part that checkpoints free.
    pub(crate) fn deltas_estimate(&self) -> u64 {
        let deltas = self.delta_entries() + self.frozen_entries.load(Ordering::Relaxed);
        deltas * 90 + self.documents.deltas_estimate()
    }

    pub(crate) fn has_active(&self, plane: StoredPlane, follower: Key, target: Key) -> bool {
        let Some((follower, target)) = self.ordinal_pair(follower, target) else { return false };
        adjacency::row::has(self.shard(follower).read().row(plane, follower), target)
    }

    /// Whether there is an active follow that is not quiet.
    pub(crate) fn has_open(&self, follower: Key, target: Key) -> bool {
        let Some((follower, target)) = self.ordinal_pair(follower, target) else { return false };
        self.shard(follower).read().has_listed(StoredPlane::Follow, follower, target)
    }

    /// The first of these planes that has an edge between the two, all seen at one moment.
    pub(crate) fn plane_of(&self, planes: &[StoredPlane], follower: u32, target: u32) -> Option<StoredPlane> {
        let shard = self.shard(follower).read();
        planes.iter().copied().find(|plane| shard.has_listed(*plane, follower, target))
    }

    /// Whether the rows agree with what the follower's list has of an edge.
    pub(crate) fn is_in_rows(&self, plane: Plane, follower: u32, target: u32, listed: &[Edge]) -> bool {
        let shard = self.shard(follower).read();
        let has = |plane| shard.lists(plane, follower).is_some_and(|lists| lists.has(target));
        let quiet = plane == Plane::Follow && listed.iter().any(|edge| edge.value.quiet);
        has(plane.into()) != listed.is_empty() && (plane != Plane::Follow || has(StoredPlane::Quiet) == quiet)
    }

    pub(crate) fn is_private(&self, ordinal: u32) -> bool {
        self.shard(ordinal).read().user(ordinal).is_some_and(|user| user.follow.profile.is_private())
    }

    pub(crate) fn is_suspended(&self, ordinal: u32) -> bool {
        self.suspended.load(Ordering::Relaxed) > 0
            && self.shard(ordinal).read().user(ordinal).is_some_and(|user| user.follow.profile.is_suspended())
    }

    pub(crate) fn user(&self, key: Key) -> Option<User> {
        self.user_at(self.ordinal(key)?, key)
    }

    /// The user of an ordinal, given their key; `None` if erased.
    pub(crate) fn user_at(&self, ordinal: u32, key: Key) -> Option<User> {
        let shard = self.shard(ordinal).read();
        profile::decode(key, shard.long.bytes(shard.profile(ordinal)?)).ok()
    }

    pub(crate) fn has_id(&self, key: Key, id: &[u8]) -> bool {
        let Some(ordinal) = self.ordinal(key) else { return false };
        let shard = self.shard(ordinal).read();
        shard.profile(ordinal).is_some_and(|profile| shard.long.has_id(profile, key, id))
    }

    pub(crate) fn counts(&self, key: Key) -> Option<Counts> {
        let ordinal = self.ordinal(key)?;
        let shard = self.shard(ordinal).read();
        let total = |plane, side| shard.totals(plane, side, ordinal);
        let (followers, followers_quiet) = total(Plane::Follow, Side::Followers);
        let (following, following_quiet) = total(Plane::Follow, Side::Following);
        let (requests, _) = total(Plane::Request, Side::Followers);
        let (requested, _) = total(Plane::Request, Side::Following);
        Some(Counts { followers, followers_quiet, following, following_quiet, requests, requested })
    }

    pub(crate) fn following_load(&self, ordinal: u32) -> u64 {
        let shard = self.shard(ordinal).read();
        Plane::of_kind(Kind::Follow).iter().map(|&plane| shard.totals(plane, Side::Following, ordinal).0).sum()
    }

    /// Erases the user; the ordinal stays with the edges and is never reused.
    pub(crate) fn erase_user(&self, key: Key, version: Version) {
        self.documents.forget(key);
        self.quotas.erase(key);
        let Some(ordinal) = self.ordinal(key) else {
            // The checkpoint has the user as erased already, before the erasure itself: blocks it replaced may have a
            // name.
            self.erased.left_traces();
            return;
        };
        self.erased.insert(key, ordinal, version);
        self.ordinals.remove(key);
        self.set_profile(ordinal, NewProfile::erased(version));
        self.mark_dirty([ordinal / USERS_PER_GROUP]);
    }

    pub(crate) fn put_user(&self, user: &User) {
        // A checkpoint may already have an erasure that comes later in the log.
        if self.erased.version(user.key).is_some_and(|erased| erased >= user.version) {
            return;
        }
        let profile = NewProfile::new(&profile::encode(user));
        let ordinal = match self.ordinal(user.key) {
            Some(ordinal) => {
                self.set_profile(ordinal, profile);
                ordinal
            }
            None => self.add_user(user.key, profile),
        };
        self.dirty_groups.lock().insert(ordinal / USERS_PER_GROUP);
    }

    /// Assigns the next ordinal. The key is published last, when everything else is in place.
    fn add_user(&self, key: Key, profile: NewProfile) -> u32 {
        let ordinal = {
            let mut keys = self.keys.write();
            keys.push(key);
            (keys.len() - 1) as u32
        };
        self.count_suspended(false, profile.is_suspended());
        self.shard(ordinal).write().push_user(profile);
        self.ordinals.insert(key, ordinal);
        self.erased.remove(key);
        ordinal
    }

    /// Recovery only: sets the keys of all users whose slots are filled.
    pub(crate) fn set_keys(&self, keys: Keys) {
        *self.keys.write() = keys;
    }

    /// Recovery only.
    pub(crate) const fn key_table(&self) -> &KeyTable {
        &self.ordinals
    }

    /// Recovery only, when all keys have ordinals: adds an erased user, in the order of ordinals.
    pub(crate) fn note_erased(&self, key: Key, ordinal: u32, version: Version) {
        self.erased.insert(key, ordinal, version);
        match self.ordinals.get(key) {
            // The key was reused since.
            Some(later) if later > ordinal => self.erased.remove(key),
            Some(_) => self.ordinals.remove(key),
            None => {}
        }
    }

    fn set_profile(&self, ordinal: u32, profile: NewProfile) {
        if let Some((before, after)) = self.shard(ordinal).write().set_profile(ordinal, profile) {
            self.count_suspended(before.is_suspended(), after.is_suspended());
        }
    }

    /// Ordinals without those of erased users.
    pub(crate) fn live_users(&self) -> u64 {
        self.ordinals.len()
    }

    pub(crate) fn count_suspended(&self, before: bool, after: bool) {
        match (before, after) {
            (false, true) => self.suspended.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.suspended.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }

    /// Counts what `apply` did: delta entries added, edges added less edges removed.
    pub(crate) fn count(&self, entries: u64, edges: i64) {
        self.delta_entries.fetch_add(entries, Ordering::Relaxed);
        // Two's complement: adding a negative number subtracts.
        self.edges.fetch_add(edges as u64, Ordering::Relaxed);
    }

    /// Freezes the deltas for a checkpoint. Only between batches, and only if none are frozen.
    pub(crate) fn freeze(&self) -> HashSet<u32> {
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.frozen = Arc::new(std::mem::take(&mut shard.delta));
        }
        self.documents.freeze();
        self.checkpoint_due.store(false, Ordering::Relaxed);
        self.frozen_entries.store(self.delta_entries.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        std::mem::take(&mut *self.dirty_groups.lock())
    }

    pub(crate) fn ask_for_checkpoint(&self) {
        self.checkpoint_due.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.checkpoint_due.load(Ordering::Relaxed)
    }

    /// The frozen deltas are in blocks now.
    pub(crate) fn thaw(&self) {
        self.frozen_entries.store(0, Ordering::Relaxed);
        self.documents.thawed();
    }

    /// The next checkpoint writes these groups.
    pub(crate) fn mark_dirty(&self, groups: impl IntoIterator<Item = u32>) {
        self.dirty_groups.lock().extend(groups);
    }

    /// Recovery only: edges found in blocks.
    pub(crate) fn add_edges(&self, count: u64) {
        self.edges.fetch_add(count, Ordering::Relaxed);
    }
}
