//! A table of bounded size. A new key takes the place of whichever of a few others was asked for least lately, so that a
//! flood of keys seen once does not push out those that are seen again and again.

use std::hash::{BuildHasher as _, Hash};

use entourage_model::Millis;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::window::Window;

/// How many entries are compared to find the one that goes.
const COMPARED: usize = 2;
/// What one question adds to the weight of an entry, which is halved with every hour of silence: one question is
/// remembered for eight hours.
const QUESTION: u32 = 1 << 8;

/// All that is compared, apart from the values: a table is walked in its order, and few of its cache lines are read.
struct Entry<K> {
    key: K,
    last: Millis,
    weight: u32,
}

impl<K> Entry<K> {
    fn weight(&self, now: Millis) -> u32 {
        let hours = now.since_2000().saturating_sub(self.last.since_2000()) / Window::HOUR;
        self.weight.checked_shr(u32::try_from(hours).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

/// What a table remembers of a key.
pub(super) trait Remembered: Default {
    /// As new, for another key. What is not read before it is written may stay.
    fn clear(&mut self);
}

pub(super) struct Table<K, V> {
    /// Places in `entries` and `values`, by the hash of their keys.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Entry<K>>,
    values: Vec<V>,
    max: usize,
    /// Where the next comparison begins.
    hand: usize,
}

impl<K: Copy + Eq + Hash, V: Remembered> Table<K, V> {
    pub(super) fn new(max: usize) -> Self {
        let (places, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        Self { places, hasher, entries: Vec::new(), values: Vec::new(), max: max.max(1), hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(self.place(key, self.hasher.hash_one(key))?)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key, self.hasher.hash_one(key))?;
        self.values.get_mut(place)
    }

    /// The value of `key`, made if it is missing.
    pub(super) fn entry(&mut self, key: K, now: Millis) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let place = match self.place(&key, hash) {
            Some(place) => place,
            None => self.insert(key, hash, now),
        };
        let entry = self.entries.get_mut(place)?;
        entry.weight = entry.weight(now).saturating_add(QUESTION);
        entry.last = entry.last.max(now);
        self.values.get_mut(place)
    }

    fn place(&self, key: &K, hash: u64) -> Option<usize> {
        let is_its = |place: &u32| self.entries.get(*place as usize).is_some_and(|entry| entry.key == *key);
        self.places.find(hash, is_its).map(|place| *place as usize)
    }

    fn insert(&mut self, key: K, hash: u64, now: Millis) -> usize {
        let fresh = Entry { key, last: now, weight: 0 };
        let place = if self.entries.len() < self.max {
            self.entries.push(fresh);
            self.values.push(V::default());
            self.entries.len() - 1
        } else {
            self.replace(fresh, now)
        };
        let Self { places, hasher, entries, .. } = self;
        let hash_of = |place: &u32| entries.get(*place as usize).map_or(0, |entry| hasher.hash_one(entry.key));
        places.insert_unique(hash, place as u32, hash_of);
        place
    }

    fn replace(&mut self, fresh: Entry<K>, now: Millis) -> usize {
        let place = self.lightest(now);
        if let (Some(entry), Some(value)) = (self.entries.get_mut(place), self.values.get_mut(place)) {
            let hash = self.hasher.hash_one(entry.key);
            if let Ok(found) = self.places.find_entry(hash, |found| *found as usize == place) {
                found.remove();
            }
            *entry = fresh;
            value.clear();
        }
        place
    }

    fn lightest(&mut self, now: Millis) -> usize {
        let length = self.entries.len().max(1);
        // From all of the table: those that came together may all be heavy.
        let stride = (length / COMPARED).max(1);
        let places = (0..COMPARED).map(|step| (self.hand + step * stride) % length);
        let weight = |place: &usize| self.entries.get(*place).map_or(0, |entry| entry.weight(now));
        let lightest = places.min_by_key(weight).unwrap_or(0);
        self.hand = (self.hand + 1) % length;
        lightest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Remembered for u64 {
        fn clear(&mut self) {
            *self = 0;
        }
    }

    #[test]
    fn a_flood_of_keys_seen_once_leaves_those_seen_often() {
        let (now, mut table) = (Millis::default(), Table::<u64, u64>::new(1_000));
        for _ in 0..100 {
            for often in 0..50 {
                *table.entry(often, now).unwrap() += 1;
            }
        }
        for key in 1_000..200_000 {
            *table.entry(key, now).unwrap() += 1;
            assert!(table.len() <= 1_000 && table.values.len() <= 1_000 && table.places.len() <= 1_000);
        }
        assert!((0..50).all(|often| table.get(&often) == Some(&100)));
        assert_eq!(table.get(&1_001), None);
        let known = (1_000..200_000).filter(|key| table.get(key).is_some());
        assert!(known.map(|key| table.get(&key)).all(|value| value == Some(&1)), "a value was left by another key");
    }

    #[test]
    fn those_that_were_silent_for_long_go_first() {
        let (mut table, later) = (Table::<u64, u64>::new(2), Millis::from_since_2000(12 * Window::HOUR));
        for _ in 0..9 {
            table.entry(1, Millis::default());
        }
        table.entry(2, later);
        table.entry(3, later);
        assert!(table.get(&1).is_none() && table.get(&2).is_some() && table.get(&3).is_some());
    }
}
