//! Ordinals by key: sharded hash tables behind short locks. Recovery fills each in one pass, in its final size.

use std::{hash::BuildHasher, ops::Range};

use entourage_model::Key;
use hashbrown::HashMap;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::state::packed_key::PackedKey;

pub(crate) const TABLES: usize = 64;
/// Tables are filled in bucket order, in parts of about this size, which stay in cache.
const PART_BYTES: usize = 16 << 10;

pub(crate) type Table = HashMap<PackedKey, u32>;

pub(crate) struct KeyTable {
    tables: Vec<RwLock<Table>>,
}

impl Default for KeyTable {
    fn default() -> Self {
        Self { tables: (0..TABLES).map(|_| RwLock::default()).collect() }
    }
}

impl KeyTable {
    pub(crate) const fn table_of(key: Key) -> usize {
        // Upper bits of a product spread both sequential and hashed ids.
        let hash = (key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        hash as usize % TABLES
    }

    pub(crate) fn tables(&self) -> &[RwLock<Table>] {
        &self.tables
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<u32> {
        self.tables[Self::table_of(key)].read().get(&PackedKey::of(key)).copied()
    }

    /// For callers that hold several guards: two may be of one table, where a waiting writer would block the second.
    #[inline]
    pub(crate) fn read_recursive(&self, key: Key) -> RwLockReadGuard<'_, Table> {
        self.tables[Self::table_of(key)].read_recursive()
    }

    pub(crate) fn insert(&self, key: Key, ordinal: u32) {
        self.tables[Self::table_of(key)].write().insert(PackedKey::of(key), ordinal);
    }

    pub(crate) fn remove(&self, key: Key) {
        self.tables[Self::table_of(key)].write().remove(&PackedKey::of(key));
    }

    pub(crate) fn len(&self) -> u64 {
        self.tables.iter().map(|table| table.read().len() as u64).sum()
    }

    /// Fills empty tables from `keys`, which are indexed by ordinal, without the ordinals in `left_out` (ascending).
    /// The last ordinal of a key counts.
    pub(crate) fn fill(
        &self,
        tables: Range<usize>,
        keys: &[Key],
        left_out: impl Iterator<Item = u32>,
        scratch: &mut Scratch,
    ) {
        let mut left_out = left_out.peekable();
        let Scratch { entries, ordered } = scratch;
        let share = keys.len() / TABLES;
        entries.resize_with(tables.len(), || Vec::with_capacity(share + share / 64 + 64));
        entries.iter_mut().for_each(Vec::clear);
        for (ordinal, &key) in keys.iter().enumerate() {
            let ordinal = ordinal as u32;
            if left_out.next_if_eq(&ordinal).is_some() {
                continue;
            }
            let table = Self::table_of(key).wrapping_sub(tables.start);
            if let Some(entries) = entries.get_mut(table) {
                entries.push((PackedKey::of(key), ordinal));
            }
        }
        for (table, entries) in tables.zip(entries) {
            fill(&mut self.tables[table].write(), entries, ordered);
        }
    }
}

/// Memory of [`KeyTable::fill`] that is used again.
#[derive(Default)]
pub(crate) struct Scratch {
    entries: Vec<Vec<(PackedKey, u32)>>,
    ordered: Vec<(PackedKey, u32)>,
}

fn fill(table: &mut Table, entries: &[(PackedKey, u32)], ordered: &mut Vec<(PackedKey, u32)>) {
    table.reserve(entries.len());
    put_in_order_of_places(table, entries, ordered);
    for &(key, ordinal) in &*ordered {
        table.insert(key, ordinal);
    }
}

/// The lower bits of a hash give the bucket. If that changed, filling would be slower and nothing else.
fn put_in_order_of_places(table: &Table, entries: &[(PackedKey, u32)], ordered: &mut Vec<(PackedKey, u32)>) {
    let places = table.capacity().next_power_of_two();
    let parts = (places * size_of::<(PackedKey, u32)>() / PART_BYTES).next_power_of_two().min(places);
    let shift = places.trailing_zeros() - parts.trailing_zeros();
    let part = |key: &PackedKey| (table.hasher().hash_one(key) as usize & (places - 1)) >> shift;
    let mut next = vec![0usize; parts + 1];
    entries.iter().for_each(|(key, _)| next[part(key) + 1] += 1);
    for part in 0..parts {
        next[part + 1] += next[part];
    }
    ordered.clear();
    ordered.extend_from_slice(entries);
    for entry in entries {
        let place = &mut next[part(&entry.0)];
        ordered[*place] = *entry;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_at_once_or_one_by_one_is_the_same() {
        let keys: Vec<Key> = (0..40_000i64).map(|number| Key(number * number % 30_011 - 9_000)).collect();
        let left_out = [0, 7, 19_999, 39_999];
        let (filled, inserted, mut scratch) = (KeyTable::default(), KeyTable::default(), Scratch::default());
        for start in (0..TABLES).step_by(16) {
            filled.fill(start..start + 16, &keys, left_out.into_iter(), &mut scratch);
        }
        for (ordinal, key) in (0..).zip(&keys).filter(|(ordinal, _)| !left_out.contains(ordinal)) {
            inserted.insert(*key, ordinal);
        }
        assert_eq!(filled.len(), inserted.len());
        assert!((-10_000..40_000).map(Key).all(|key| filled.get(key) == inserted.get(key)));
    }

    #[test]
    fn a_full_table_has_no_room_that_it_will_not_need() {
        let keys: Vec<Key> = (0..200_000).map(Key).collect();
        let table = KeyTable::default();
        table.fill(0..TABLES, &keys, std::iter::empty(), &mut Scratch::default());
        for table in table.tables() {
            let table = table.read();
            assert!(table.capacity() < table.len() * 2 + 16, "{} for {}", table.capacity(), table.len());
        }
    }
}
