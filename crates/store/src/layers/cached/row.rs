//! One held row: the targets of a user's edges of one kind, or their owners, as of the last change.

use std::{
    hash::{Hash, Hasher},
    sync::atomic::{AtomicU32, Ordering},
};

use entourage_model::{Cause, Key, Kind, Side, State, Version};

use crate::{
    EdgeRow,
    adjacency::{Ordinals, row},
};

/// The overhead of an entry: the row's fields, its two reference counts, its place in the tables.
const BYTES_PER_ROW: u64 = 240;
const BYTES_PER_EDGE: u64 = 4;

/// Names a row. Follows and mutes are held from their follower's side only, which is bounded. Blocks are few, and the
/// viewer of a list needs them in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) user: Key,
    pub(super) kind: Kind,
    pub(super) side: Side,
}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let tag = (self.kind as u64) << 1 | self.side as u64;
        state.write_u64(self.user.0 as u64 ^ tag << 60);
    }
}

impl RowKey {
    pub(super) const fn new(user: Key, kind: Kind, side: Side) -> Self {
        Self { user, kind, side }
    }

    /// The rows that can answer for an edge, with the member to search for in each.
    pub(super) fn of_edge(kind: Kind, follower: Key, target: Key) -> impl Iterator<Item = (Self, Key)> {
        let backward = (kind == Kind::Block).then_some((Self::new(target, kind, Side::Followers), follower));
        std::iter::once((Self::new(follower, kind, Side::Following), target)).chain(backward)
    }
}

/// One edge after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) follower: Key,
    pub(super) target: Key,
    pub(super) state: State,
    pub(super) version: Version,
    pub(super) cause: Cause,
}

/// In how many stretches of time a row was looked at, and which was the last: a check only stores where a new one
/// begins.
#[derive(Debug, Default)]
pub(super) struct Heat(AtomicU32);

impl Clone for Heat {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Heat {
    /// About sixteen seconds on the clock of the gate.
    const STRETCH_BITS: u32 = 14;

    #[inline]
    pub(super) fn touch(&self, now: u64) {
        let (stretch, known) = ((now >> Self::STRETCH_BITS) as u16, self.0.load(Ordering::Relaxed));
        if (known >> 16) as u16 != stretch {
            let count = (known as u16).saturating_add(1);
            self.0.store(u32::from(stretch) << 16 | u32::from(count), Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self) -> u16 {
        self.0.load(Ordering::Relaxed) as u16
    }
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Ordinals are valid in their generation only.
    pub(super) generation: u64,
    /// On the clock of the gate.
    pub(super) expires: u64,
    /// Not held: it is only known to be not worth reading again.
    pub(super) too_large: bool,
    pub(super) owner_there: bool,
    pub(super) heat: Heat,
    pub(super) active: Vec<u32>,
    pub(super) waiting: Vec<u32>,
    pub(super) left_behind: Vec<u32>,
}

impl Row {
    pub(super) fn too_large(generation: u64, expires: u64) -> Self {
        let (active, waiting, left_behind) = (Vec::new(), Vec::new(), Vec::new());
        let heat = Heat::default();
        Self { generation, expires, too_large: true, owner_there: false, heat, active, waiting, left_behind }
    }

    pub(super) fn of(contents: &EdgeRow, ordinals: &Ordinals, generation: u64, expires: u64) -> Self {
        let sorted = |keys: &[Key]| {
            let mut row: Vec<u32> = keys.iter().map(|key| ordinals.get_or_add(*key)).collect();
            row.sort_unstable();
            row.dedup();
            row.shrink_to_fit();
            row
        };
        let (active, mut waiting) = (sorted(&contents.active), sorted(&contents.waiting));
        // Accepted while the row was read.
        waiting.retain(|member| !row::has(&active, *member));
        Self {
            generation,
            expires,
            too_large: false,
            owner_there: contents.owner_there,
            heat: Heat::default(),
            active,
            waiting,
            left_behind: sorted(&contents.left_behind),
        }
    }

    pub(super) const fn edges(&self) -> usize {
        self.active.len() + self.waiting.len()
    }

    pub(super) fn set(&mut self, member: u32, state: State, cause: Cause) {
        match state {
            State::Active => {
                row::remove(&mut self.waiting, member);
                row::insert(&mut self.active, member);
                // Nobody begins to follow a missing user. But a request can be accepted whether its follower exists or
                // not.
                if matches!(cause, Cause::Follower | Cause::Import) {
                    row::remove(&mut self.left_behind, member);
                    self.owner_there = true;
                }
            }
            State::Pending | State::Parked => {
                row::remove(&mut self.active, member);
                row::insert(&mut self.waiting, member);
            }
            State::Removed => {
                row::remove(&mut self.active, member);
                row::remove(&mut self.waiting, member);
                row::remove(&mut self.left_behind, member);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let edges = self.active.capacity() + self.waiting.capacity() + self.left_behind.capacity();
        BYTES_PER_ROW + edges as u64 * BYTES_PER_EDGE
    }
}
