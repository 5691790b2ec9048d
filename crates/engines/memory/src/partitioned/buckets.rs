//! A list in buckets of bounded size, with a directory: a store cannot keep a list of millions in one place. A bucket
//! that overflows is split, neighbours that run empty are merged.

use std::{collections::BTreeMap, ops::Bound};

use entourage_model::Place;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// By the least place that a bucket may have.
    directory: BTreeMap<Place, Vec<Place>>,
    pub rows: u64,
}

impl Buckets {
    /// The bucket that would hold a place.
    fn bucket_of(&self, place: Place) -> Option<Place> {
        self.directory.range(..=place).next_back().map(|(first, _)| *first)
    }

    pub fn insert(&mut self, place: Place, rows_max: usize) {
        let first = self.bucket_of(place).unwrap_or_else(|| {
            // Below all others: the first bucket begins here from now on.
            let bucket = self.directory.pop_first().map(|(_, bucket)| bucket);
            self.directory.insert(place, bucket.unwrap_or_default());
            place
        });
        let bucket = self.directory.entry(first).or_default();
        let Err(at) = bucket.binary_search(&place) else { return };
        bucket.insert(at, place);
        self.rows += 1;
        if bucket.len() > rows_max {
            let upper = bucket.split_off(bucket.len() / 2);
            if let Some(first) = upper.first().copied() {
                self.directory.insert(first, upper);
            }
        }
    }

    pub fn remove(&mut self, place: Place, rows_max: usize) {
        let Some(first) = self.bucket_of(place) else { return };
        let Some(bucket) = self.directory.get_mut(&first) else { return };
        let Ok(at) = bucket.binary_search(&place) else { return };
        bucket.remove(at);
        self.rows -= 1;
        // Not as soon as they fit: the next row would split them again.
        let left = bucket.len();
        let next = self.directory.range((Bound::Excluded(first), Bound::Unbounded)).next();
        let next = next.filter(|(_, next)| left + next.len() <= rows_max / 2).map(|(first, _)| *first);
        let before = self.directory.range(..first).next_back();
        let before = before.filter(|(_, before)| left + before.len() <= rows_max / 2).map(|(first, _)| *first);
        match (before, next) {
            (Some(before), _) => self.merge(before, first),
            (None, Some(next)) => self.merge(first, next),
            (None, None) if left == 0 => {
                self.directory.remove(&first);
            }
            (None, None) => {}
        }
    }

    fn merge(&mut self, lower: Place, upper: Place) {
        let upper = self.directory.remove(&upper).unwrap_or_default();
        self.directory.entry(lower).or_default().extend(upper);
    }

    /// From `after` down, bucket by bucket, at most `limit`.
    pub fn down(&self, after: Option<Place>, limit: usize) -> Vec<Place> {
        let buckets = match after {
            Some(after) => self.directory.range(..after),
            None => self.directory.range::<Place, _>(..),
        };
        let rows = buckets.rev().flat_map(|(_, bucket)| bucket.iter().rev());
        rows.copied().filter(|place| after.is_none_or(|after| *place < after)).take(limit).collect()
    }

    /// From `after` up.
    pub fn up(&self, after: Option<Place>, limit: usize) -> Vec<Place> {
        let buckets = match after.and_then(|after| self.bucket_of(after)) {
            Some(first) => self.directory.range(first..),
            None => self.directory.range::<Place, _>(..),
        };
        let rows = buckets.flat_map(|(_, bucket)| bucket);
        rows.copied().filter(|place| after.is_none_or(|after| *place > after)).take(limit).collect()
    }

    /// How many of these rows, in either order, lie in the bucket of the first one.
    pub fn in_one_bucket(&self, rows: &[Place]) -> usize {
        let Some(first) = rows.first().and_then(|place| self.bucket_of(*place)) else { return 0 };
        rows.iter().take_while(|place| self.bucket_of(**place) == Some(first)).count()
    }

    #[cfg(any(test, feature = "planted"))]
    pub fn buckets(&self) -> usize {
        self.directory.len()
    }

    /// Violated invariants.
    pub fn wrong(&self, rows_max: usize) -> Option<String> {
        let rows: Vec<Place> = self.directory.values().flatten().copied().collect();
        let is_in_order = rows.windows(2).all(|pair| pair.first() < pair.last());
        let is_within = |(first, bucket): (&Place, &Vec<Place>)| {
            bucket.len() <= rows_max && bucket.first().is_some_and(|place| place >= first)
        };
        let is_right = is_in_order && rows.len() as u64 == self.rows && self.directory.iter().all(is_within);
        (!is_right).then(|| format!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use entourage_model::{Key, Version};
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn place(number: u64) -> Place {
        Place { position: Version::from_bits(number / 3), key: Key((number % 3) as i64) }
    }

    #[test]
    fn pages_of_a_list_in_buckets_are_those_of_a_plain_one() {
        for rows_max in [1, 2, 4, 7] {
            let mut rng = StdRng::seed_from_u64(rows_max as u64);
            let (mut list, mut plain) = (Buckets::default(), BTreeSet::new());
            let (mut splits, mut merges) = (0, 0);
            for round in 0..4_000_u32 {
                let (one, before) = (place(rng.random_range(0..60)), list.buckets());
                // Grows and shrinks.
                if rng.random_range(0..10) < if round / 200 % 2 == 0 { 7 } else { 3 } {
                    list.insert(one, rows_max);
                    plain.insert(one);
                    splits += usize::from(before > 0 && list.buckets() > before);
                } else {
                    list.remove(one, rows_max);
                    plain.remove(&one);
                    merges += usize::from(list.buckets() < before);
                }
                assert_eq!(list.wrong(rows_max), None);
                let (after, limit) = (place(rng.random_range(0..60)), rng.random_range(1..9));
                let down: Vec<Place> = plain.range(..after).rev().take(limit).copied().collect();
                let up = plain.range((Bound::Excluded(after), Bound::Unbounded)).take(limit).copied();
                assert_eq!(list.down(Some(after), limit), down);
                assert_eq!(list.up(Some(after), limit), up.collect::<Vec<_>>());
                assert_eq!(list.down(None, 99), plain.iter().rev().copied().collect::<Vec<_>>());
                assert_eq!(list.up(None, 99), plain.iter().copied().collect::<Vec<_>>());
            }
            assert!(splits > 50 && merges > 50, "{rows_max}: {splits} splits, {merges} merges");
        }
    }

    #[test]
    fn a_list_that_is_not_in_order_or_too_long_is_noticed() {
        let mut list = Buckets::default();
        for number in 0..9 {
            list.insert(place(number), 4);
        }
        assert_eq!(list.wrong(4), None);
        assert!(list.wrong(2).is_some());
        let mut short = list.clone();
        short.rows -= 1;
        assert!(short.wrong(4).is_some());
        for bucket in list.directory.values_mut() {
            bucket.reverse();
        }
        assert!(list.wrong(4).is_some());
    }
}
