//! Whom two users both follow: the intersection of two rows at one moment.

use std::sync::{Arc, atomic::Ordering};

use entourage_model::{Key, Kind, Side};

use super::{
    row::{Row, RowKey},
    rows::Rows,
};
use crate::adjacency::{intersect, row};

/// How often rows that changed meanwhile are read again.
const TRIES: usize = 4;

impl RowKey {
    pub(super) const fn follows_of(user: Key) -> Self {
        Self::new(user, Kind::Follow, Side::Following)
    }
}

impl Rows {
    /// Appends whom both actively follow, at most `limit`, without erased users. `false` if that is unknown: then
    /// nothing is appended.
    pub(super) fn common(&self, one: Key, other: Key, limit: usize, now: u64, found: &mut Vec<Key>) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        let start = found.len();
        let Some([one_row, other_row]) = self.side_by_side(one, other, generation, now) else { return false };
        let is_empty = one_row.active.is_empty() || other_row.active.is_empty();
        let is_gone = |row: &Row, user| !row.owner_there || self.erased.has(user);
        if !is_empty && (is_gone(&one_row, one) || is_gone(&other_row, other)) {
            return false;
        }
        let mut ordinals = Vec::new();
        intersect(&one_row.active, &other_row.active, &mut ordinals);
        let is_left = |ordinal| row::has(&one_row.left_behind, ordinal) || row::has(&other_row.left_behind, ordinal);
        {
            let names = self.ordinals.names();
            let there = ordinals.into_iter().filter(|ordinal| !is_left(*ordinal));
            let keys = there.filter_map(|ordinal| names.get(ordinal)).filter(|key| !self.erased.has(*key));
            found.extend(keys.take(limit));
        }
        // Ordinals of another generation name other users.
        let is_known = self.generation.load(Ordering::Acquire) == generation;
        if !is_known {
            found.truncate(start);
        }
        is_known
    }

    /// Both rows, if both are held in full: the first did not change until the second was read.
    fn side_by_side(&self, one: Key, other: Key, generation: u64, now: u64) -> Option<[Arc<Row>; 2]> {
        let (one, other) = (RowKey::follows_of(one), RowKey::follows_of(other));
        let whole = |key| self.current(key, generation, now).filter(|row| !row.too_large);
        let mut first = whole(one)?;
        for _ in 0..TRIES {
            let second = whole(other)?;
            let again = whole(one)?;
            if Arc::ptr_eq(&first, &again) {
                return Some([first, second]);
            }
            first = again;
        }
        None
    }
}
