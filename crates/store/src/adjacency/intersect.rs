//! Intersection of two rows, by the method that fits their sizes.

use std::array;

use super::search::{SIDE_BY_SIDE, places};

/// From this ratio of lengths on, searching the long row for each of the short is faster than walking both.
const MUCH_LONGER: usize = 32;
/// How many walks are interleaved: each step depends on the previous one, but not on those of another walk.
const WALKS: usize = 4;

/// Appends what is in both; each row ascends without duplicates.
pub fn intersect(one: &[u32], other: &[u32], found: &mut Vec<u32>) {
    let (few, many) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    if few.len() * MUCH_LONGER < many.len() { look_up(few, many, found) } else { walk(few, many, found) }
}

/// Each search starts where the previous one ended: the rest shrinks as the short row ascends.
fn look_up(few: &[u32], mut many: &[u32], found: &mut Vec<u32>) {
    for some in few.chunks(SIDE_BY_SIDE) {
        let last = some.last().copied().unwrap_or_default();
        let targets: [u32; SIDE_BY_SIDE] = array::from_fn(|index| some.get(index).copied().unwrap_or(last));
        let places = places(many, &targets);
        let hits = some.iter().zip(places).filter(|(wanted, place)| many.get(*place) == Some(wanted));
        found.extend(hits.map(|(wanted, _)| *wanted));
        many = &many[places[SIDE_BY_SIDE - 1]..];
    }
}

/// Both rows are cut at the same numbers, and the pieces walked in an interleaved way.
fn walk(one: &[u32], other: &[u32], found: &mut Vec<u32>) {
    let start = found.len();
    found.resize(start + one.len(), 0);
    let (mut one_left, mut other_left, mut room) = (one, other, &mut found[start..]);
    let mut walks: [Walk<'_>; WALKS] = array::from_fn(|index| {
        let length = one_left.len() / (WALKS - index);
        let (mine, rest) = one_left.split_at(length);
        let cut = rest.first().map_or(other_left.len(), |next| other_left.partition_point(|number| number < next));
        let (others, other_rest) = other_left.split_at(cut);
        let (into, room_rest) = std::mem::take(&mut room).split_at_mut(length);
        (one_left, other_left, room) = (rest, other_rest, room_rest);
        Walk { one: mine, other: others, into, left: 0, right: 0, count: 0 }
    });
    // A walk takes at least as many steps as the shorter of its two rests.
    loop {
        let sure = walks.iter().map(Walk::sure_steps).min().unwrap_or(0);
        if sure == 0 {
            break;
        }
        for _ in 0..sure {
            walks.iter_mut().for_each(Walk::step);
        }
    }
    for walk in &mut walks {
        while walk.sure_steps() > 0 {
            walk.step();
        }
    }
    let pieces = walks.map(|walk| (walk.into.len(), walk.count));
    let (mut from, mut to) = (start, start);
    for (length, count) in pieces {
        found.copy_within(from..from + count, to);
        from += length;
        to += count;
    }
    found.truncate(to);
}

struct Walk<'a> {
    one: &'a [u32],
    other: &'a [u32],
    into: &'a mut [u32],
    left: usize,
    right: usize,
    count: usize,
}

impl Walk<'_> {
    fn sure_steps(&self) -> usize {
        (self.one.len() - self.left).min(self.other.len() - self.right)
    }

    /// Branch-free: the processor would mispredict half of the time.
    #[inline]
    fn step(&mut self) {
        if let (Some(&a), Some(&b)) = (self.one.get(self.left), self.other.get(self.right)) {
            if let Some(slot) = self.into.get_mut(self.count) {
                *slot = a;
            }
            self.count += usize::from(a == b);
            self.left += usize::from(a <= b);
            self.right += usize::from(b <= a);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_way_finds_what_is_in_both(one: BTreeSet<u8>, other in prop::collection::btree_set(0u32..9_000, 0..3_000)) {
            let one: Vec<u32> = one.into_iter().map(|number| u32::from(number) * 31).collect();
            let expected: Vec<u32> = one.iter().copied().filter(|number| other.contains(number)).collect();
            let other: Vec<u32> = other.into_iter().collect();
            for way in [intersect, look_up, walk] {
                let mut found = vec![7];
                way(&one, &other, &mut found);
                prop_assert_eq!(&found[1..], &expected[..]);
                found.truncate(1);
                way(&other, &one, &mut found);
                prop_assert_eq!(&found[1..], &expected[..]);
            }
        }
    }
}
