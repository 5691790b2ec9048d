//! A part of the users behind one lock: their lists, their records, and the deltas of the lists.

use std::sync::Arc;

use entourage_model::{Place, Plane, Side};
use hashbrown::HashMap;

use crate::state::{
    chunked::Chunked,
    delta::{Delta, DeltaValue},
    lists::{BlockId, BlockRef, Lists, Refs},
    plane::StoredPlane,
    profile::{LongRecords, NewProfile, Profile},
    row::Row,
};

pub(crate) const SHARDS: usize = 256;

/// Identifies one list: plane, side and the owner's ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ListKey(u64);

impl ListKey {
    pub(crate) const fn new(plane: StoredPlane, side: Side, ordinal: u32) -> Self {
        Self((ordinal as u64) << 8 | (plane as u64) << 1 | side as u64)
    }

    pub(crate) const fn ordinal(self) -> u32 {
        (self.0 >> 8) as u32
    }

    pub(crate) fn plane(self) -> StoredPlane {
        StoredPlane::from_number((self.0 >> 1 & 0x7f) as u8).unwrap_or(StoredPlane::Follow)
    }

    pub(crate) const fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::Following } else { Side::Followers }
    }
}

/// One cache line: there is one per user, and any read of it is one cache miss.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct UserSlot {
    /// The plane of nearly all edges.
    pub(crate) follow: Lists,
}

const _: () = assert!(size_of::<UserSlot>() == 64);

#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub(crate) users: Chunked<UserSlot>,
    pub(crate) long: LongRecords,
    /// The other planes, which few users have.
    pub(crate) sparse: HashMap<(StoredPlane, u32), Lists>,
    pub(crate) delta: HashMap<ListKey, Delta>,
    /// Frozen for a checkpoint, which reads it without the lock.
    pub(crate) frozen: Arc<HashMap<ListKey, Delta>>,
}

pub(crate) const fn shard_of(ordinal: u32) -> usize {
    ordinal as usize % SHARDS
}

const fn slot_of(ordinal: u32) -> usize {
    ordinal as usize / SHARDS
}

impl Shard {
    #[inline]
    pub(crate) fn user(&self, ordinal: u32) -> Option<&UserSlot> {
        self.users.get(slot_of(ordinal))
    }

    pub(crate) fn profile(&self, ordinal: u32) -> Option<&Profile> {
        self.user(ordinal).map(|user| &user.follow.profile)
    }

    /// Adds the user of this shard's next ordinal.
    pub(crate) fn push_user(&mut self, profile: NewProfile) {
        self.push_users(std::iter::once(profile));
    }

    /// Adds the users of this shard's next ordinals.
    pub(crate) fn push_users(&mut self, profiles: impl ExactSizeIterator<Item = NewProfile>) {
        let Self { users, long, .. } = self;
        users.extend(profiles.map(|profile| {
            let profile = long.place(profile, Profile::default());
            UserSlot { follow: Lists { profile, ..Lists::default() } }
        }));
    }

    /// Returns the profile before and after.
    pub(crate) fn set_profile(&mut self, ordinal: u32, profile: NewProfile) -> Option<(Profile, Profile)> {
        let user = self.users.get_mut(slot_of(ordinal))?;
        let before = user.follow.profile;
        user.follow.profile = self.long.place(profile, before);
        Some((before, user.follow.profile))
    }

    /// The row of a user in one plane. No call on the common path: the shorter it is, the more lookups overlap their
    /// cache misses.
    #[inline]
    pub(crate) fn row(&self, plane: StoredPlane, ordinal: u32) -> &[u32] {
        if plane == StoredPlane::Follow {
            return self.user(ordinal).map_or(&[], |user| &user.follow.row);
        }
        self.lists(plane, ordinal).map_or(&[], |lists| &lists.row)
    }

    /// Whether the list of this plane, and not only its row, has an edge to `target`.
    pub(crate) fn has_listed(&self, plane: StoredPlane, ordinal: u32, target: u32) -> bool {
        let has = |plane| self.lists(plane, ordinal).is_some_and(|lists| lists.has(target));
        has(plane) && (plane != StoredPlane::Follow || !has(StoredPlane::Quiet))
    }

    /// Number of edges of a list, and of quiet ones among them.
    pub(crate) fn totals(&self, plane: Plane, side: Side, ordinal: u32) -> (u64, u64) {
        let count = |plane| self.lists(plane, ordinal).map_or(0, |lists: &Lists| lists.count(side));
        let total = count(plane.into());
        match (plane, side) {
            (Plane::Follow, Side::Following) => (total, count(StoredPlane::Quiet)),
            (Plane::Follow, Side::Followers) => (total + count(StoredPlane::Quiet), count(StoredPlane::Quiet)),
            _ => (total, 0),
        }
    }

    /// Sets what a walk through a whole list of followers counted.
    pub(crate) fn set_followers(&mut self, plane: Plane, ordinal: u32, total: u32, quiet: u32) {
        let stored = StoredPlane::from(plane);
        let apart = (stored == StoredPlane::Follow).then_some((StoredPlane::Quiet, quiet));
        for (stored, count) in [(stored, total.saturating_sub(quiet))].into_iter().chain(apart) {
            // A count of zero needs no list.
            if self.lists(stored, ordinal).map_or(0, |lists| lists.followers_total) != count
                && let Some(lists) = self.lists_mut(stored, ordinal)
            {
                lists.followers_total = count;
            }
        }
    }

    pub(crate) fn lists(&self, plane: StoredPlane, ordinal: u32) -> Option<&Lists> {
        match plane {
            StoredPlane::Follow => self.user(ordinal).map(|user| &user.follow),
            _ if !self.user(ordinal)?.follow.has_others => None,
            _ => self.sparse.get(&(plane, ordinal)),
        }
    }

    /// Puts an edge at a place. `replaces`: another value was there.
    pub(crate) fn put_edge(&mut self, key: ListKey, place: Place, value: DeltaValue, replaces: bool) {
        if replaces && !self.delta.get(&key).is_some_and(|delta| delta.knows(place)) {
            let block = self.block_below(key, place);
            self.delta.entry(key).or_default().cover(place, block);
        }
        self.delta.entry(key).or_default().come(place, value, key.side() == Side::Following);
    }

    /// Removes the edge at a place.
    pub(crate) fn take_edge(&mut self, key: ListKey, place: Place) {
        let is_gone = self.delta.get_mut(&key).is_some_and(|delta| delta.go(place) || delta.covers(place));
        if !is_gone {
            let block = self.block_below(key, place);
            self.delta.entry(key).or_default().cover(place, block);
        }
    }

    /// The block that has this place, unless a frozen delta has an entry for it.
    fn block_below(&self, key: ListKey, place: Place) -> Option<BlockId> {
        if self.frozen.get(&key).is_some_and(|frozen| frozen.knows(place)) {
            return None;
        }
        let lists = self.lists(key.plane(), key.ordinal())?;
        lists.side(key.side()).holding(place).map(BlockRef::id)
    }

    pub(crate) fn set_blocks(&mut self, key: ListKey, refs: Refs) {
        if let Some(delta) = self.delta.get_mut(&key) {
            delta.recount(&refs);
        }
        if let Some(lists) = self.lists_mut(key.plane(), key.ordinal()) {
            lists.set_blocks(key.side(), refs);
        }
    }

    /// Recovery only: rows are loaded again.
    pub(crate) fn clear_rows(&mut self) {
        for slot in 0..self.users.len() {
            if let Some(user) = self.users.get_mut(slot) {
                user.follow.row = Row::default();
            }
        }
        self.sparse.values_mut().for_each(|lists| lists.row = Row::default());
    }

    /// Every list of this shard, whose own index is `index`.
    pub(crate) fn all_lists(&self, index: usize) -> impl Iterator<Item = (StoredPlane, u32, &Lists)> {
        let ordinal = move |slot: usize| (slot * SHARDS + index) as u32;
        let follow =
            self.users.iter().enumerate().map(move |(slot, user)| (StoredPlane::Follow, ordinal(slot), &user.follow));
        follow.chain(self.sparse.iter().map(|(&(plane, ordinal), lists)| (plane, ordinal, lists)))
    }

    pub(crate) fn lists_mut(&mut self, plane: StoredPlane, ordinal: u32) -> Option<&mut Lists> {
        let user = self.users.get_mut(slot_of(ordinal))?;
        if plane == StoredPlane::Follow {
            return Some(&mut user.follow);
        }
        user.follow.has_others = true;
        Some(self.sparse.entry((plane, ordinal)).or_default())
    }
}
