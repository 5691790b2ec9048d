//! What is known of one edge: two lookups that wait for nobody.

use std::sync::{Arc, atomic::Ordering};

use entourage_model::{Key, Kind};

use super::{
    row::{Row, RowKey},
    rows::Rows,
};
use crate::adjacency::row;

/// What memory knows of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Active,
    /// Pending or parked.
    Waiting,
    Absent,
    /// Unknown: the row would have to be read.
    Missing,
    /// Unknown, and reading the row would not help.
    TooLarge,
}

impl Rows {
    /// What is known of an edge at this moment, which is `now`.
    #[inline]
    pub(super) fn look(&self, kind: Kind, follower: Key, target: Key, now: u64) -> Look {
        let mut known = Look::TooLarge;
        for (key, member) in RowKey::of_edge(kind, follower, target) {
            match self.look_in(key, now, |row| self.find(row, member)) {
                found @ (Look::Active | Look::Waiting | Look::Absent) => return found,
                Look::Missing => known = Look::Missing,
                Look::TooLarge => {}
            }
        }
        known
    }

    /// As `look`, but unknown for an edge that may stand between users of whom one is gone.
    #[inline]
    pub(super) fn look_between_users(&self, kind: Kind, follower: Key, target: Key, now: u64) -> Look {
        let mut known = Look::TooLarge;
        for (key, member) in RowKey::of_edge(kind, follower, target) {
            let mut is_sure = true;
            let found = self.look_in(key, now, |row| {
                let found = self.find(row, member);
                // In here: a clear also drops the erased users, and `look_in` notices that.
                let is_gone = || self.erased.has(follower) || self.erased.has(target);
                is_sure = found != Look::Active || (self.are_users(row, member) && !is_gone());
                found
            });
            match found {
                Look::Active if !is_sure => return Look::TooLarge,
                Look::Active | Look::Waiting | Look::Absent => return found,
                Look::Missing => known = Look::Missing,
                Look::TooLarge => {}
            }
        }
        known
    }

    /// Whether both ends of an active edge existed when the row was read or the edge was made.
    fn are_users(&self, held: &Row, member: Key) -> bool {
        let is_left_behind = |ordinal| row::has(&held.left_behind, ordinal);
        held.owner_there && (held.left_behind.is_empty() || !self.ordinals.get(member).is_some_and(is_left_behind))
    }

    /// A row that is valid in this generation and at this moment.
    #[inline]
    pub(super) fn current(&self, key: RowKey, generation: u64, now: u64) -> Option<Arc<Row>> {
        self.held.get(&key).filter(|row| row.generation == generation && now < row.expires)
    }

    #[inline]
    pub(super) fn look_in(&self, key: RowKey, now: u64, find: impl FnOnce(&Row) -> Look) -> Look {
        let generation = self.generation.load(Ordering::Acquire);
        let Some(row) = self.current(key, generation, now) else { return Look::Missing };
        if row.too_large {
            return Look::TooLarge;
        }
        row.heat.touch(now);
        let found = find(&row);
        // Ordinals of another generation are meaningless.
        if self.generation.load(Ordering::Acquire) == generation { found } else { Look::Missing }
    }

    fn find(&self, held: &Row, member: Key) -> Look {
        match self.ordinals.get(member) {
            Some(ordinal) if row::has(&held.active, ordinal) => Look::Active,
            Some(ordinal) if row::has(&held.waiting, ordinal) => Look::Waiting,
            _ => Look::Absent,
        }
    }
}
