//! Whom two users both follow: the intersection of two rows, by whichever way their sizes call for.

use entourage_model::{Key, Plane};

use super::state::State;

/// From this many times as long on, looking each of the few up in the many is faster than walking both.
const MUCH_LONGER: usize = 32;

/// Appends the keys of whom both have active follows to, at most `limit`; users who are erased are none.
pub(super) fn common(state: &State, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) {
    let (Some(one), Some(other)) = (state.ordinal(one), state.ordinal(other)) else { return };
    let mut ordinals = Vec::new();
    {
        // Recursive: both may be in one shard, and a writer that waits must not come between.
        let (first, second) = (state.shard(one).read_recursive(), state.shard(other).read_recursive());
        let rows = (first.lists(Plane::Follow, one), second.lists(Plane::Follow, other));
        if let (Some(one), Some(other)) = rows {
            intersect(&one.row, &other.row, &mut ordinals);
        }
    }
    let nobody_is_erased = state.erased().is_empty();
    let keys = state.keys();
    let known = |ordinal: u32| keys.get(ordinal as usize).map(|key| (ordinal, *key));
    let is_there = |&(ordinal, key): &(u32, Key)| nobody_is_erased || state.ordinal(key) == Some(ordinal);
    found.extend(ordinals.into_iter().filter_map(known).filter(is_there).map(|(_, key)| key).take(limit));
}

/// What is in both; each ascends without a repetition.
fn intersect(one: &[u32], other: &[u32], found: &mut Vec<u32>) {
    let (few, many) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    if few.len() * MUCH_LONGER < many.len() { look_up(few, many, found) } else { walk(few, many, found) }
}

/// Searches go on behind the one before: what is left to search shrinks as the few ascend.
fn look_up(few: &[u32], mut many: &[u32], found: &mut Vec<u32>) {
    for wanted in few {
        let at = many.partition_point(|candidate| candidate < wanted);
        many = &many[at..];
        if many.first() == Some(wanted) {
            found.push(*wanted);
        }
    }
}

/// Without a branch on what is found: the processor would guess wrong half of the time.
fn walk(one: &[u32], other: &[u32], found: &mut Vec<u32>) {
    let start = found.len();
    found.resize(start + one.len().min(other.len()), 0);
    let into = &mut found[start..];
    let (mut left, mut right, mut count) = (0, 0, 0);
    while let (Some(&a), Some(&b)) = (one.get(left), other.get(right)) {
        if let Some(slot) = into.get_mut(count) {
            *slot = a;
        }
        count += usize::from(a == b);
        left += usize::from(a <= b);
        right += usize::from(b <= a);
    }
    found.truncate(start + count);
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
