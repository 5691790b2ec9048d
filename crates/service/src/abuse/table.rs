//! A table of bounded size. A new key takes the place of whichever of a few others weighs least, so that a flood of
//! keys seen once does not push out those that are seen again and again.

use std::hash::Hash;

use entourage_model::Millis;
use hashbrown::HashMap;

/// How many entries are compared to find the one that goes.
const COMPARED: usize = 2;

pub(super) trait Weigh {
    /// What would be lost with it at `now`.
    fn weight(&self, now: Millis) -> u64;
}

struct Entry<K, V> {
    key: K,
    value: V,
}

pub(super) struct Table<K, V> {
    places: HashMap<K, u32>,
    entries: Vec<Entry<K, V>>,
    max: usize,
    /// Where the next comparison begins.
    hand: usize,
}

impl<K: Copy + Eq + Hash, V: Default + Weigh> Table<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self { places: HashMap::new(), entries: Vec::new(), max: max.max(1), hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let place = *self.places.get(key)?;
        self.entries.get(place as usize).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        self.entries.get_mut(place as usize).map(|entry| &mut entry.value)
    }

    /// The entry of `key`, made if it is missing.
    pub(super) fn entry(&mut self, key: K, now: Millis) -> Option<&mut V> {
        let place = match self.places.get(&key) {
            Some(place) => *place as usize,
            None => self.insert(key, now),
        };
        self.entries.get_mut(place).map(|entry| &mut entry.value)
    }

    fn insert(&mut self, key: K, now: Millis) -> usize {
        let fresh = Entry { key, value: V::default() };
        let place = if self.entries.len() < self.max {
            self.entries.push(fresh);
            self.entries.len() - 1
        } else {
            let place = self.lightest(now);
            if let Some(entry) = self.entries.get_mut(place) {
                self.places.remove(&entry.key);
                *entry = fresh;
            }
            place
        };
        self.places.insert(key, place as u32);
        place
    }

    fn lightest(&mut self, now: Millis) -> usize {
        let length = self.entries.len().max(1);
        // From all of the table: those that came together may all be heavy.
        let stride = (length / COMPARED).max(1);
        let places = (0..COMPARED).map(|step| (self.hand + step * stride) % length);
        let weight = |place: &usize| self.entries.get(*place).map_or(0, |entry| entry.value.weight(now));
        let lightest = places.min_by_key(weight).unwrap_or(0);
        self.hand = (self.hand + 1) % length;
        lightest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for u64 {
        fn weight(&self, _: Millis) -> u64 {
            *self
        }
    }

    #[test]
    fn a_flood_of_keys_seen_once_leaves_the_heavy_ones() {
        let (now, mut table) = (Millis::default(), Table::<u64, u64>::new(1_000));
        for heavy in 0..50 {
            *table.entry(heavy, now).unwrap() = 100;
        }
        for key in 1_000..200_000 {
            *table.entry(key, now).unwrap() += 1;
            assert!(table.len() <= 1_000 && table.places.len() <= 1_000);
        }
        assert!((0..50).all(|heavy| table.get(&heavy) == Some(&100)));
        assert_eq!(table.get(&1_001), None);
    }
}
