//! A row: the sorted ordinals of everyone that a user's edges of one kind point at.

/// Rows up to this length are scanned: their cache lines load in parallel, where a search waits for one after the
/// other.
const GONE_THROUGH: usize = 128;

#[inline]
pub fn has(row: &[u32], ordinal: u32) -> bool {
    if row.len() <= GONE_THROUGH {
        return row.iter().fold(false, |found, at| found | (*at == ordinal));
    }
    row.binary_search(&ordinal).is_ok()
}

pub fn insert(row: &mut Vec<u32>, ordinal: u32) {
    if let Err(at) = row.binary_search(&ordinal) {
        // Growing by an eighth keeps slack small: rows are many and rarely change.
        if row.len() == row.capacity() {
            row.reserve_exact((row.len() / 8).max(4));
        }
        row.insert(at, ordinal);
    }
}

pub fn remove(row: &mut Vec<u32>, ordinal: u32) {
    if let Ok(at) = row.binary_search(&ordinal) {
        row.remove(at);
    }
}

/// As [`insert`], without spare capacity: what the allocator rounds up to is enough.
pub fn insert_exact(row: &mut Box<[u32]>, ordinal: u32) {
    if let Err(at) = row.binary_search(&ordinal) {
        let mut longer = std::mem::take(row).into_vec();
        longer.reserve_exact(1);
        longer.insert(at, ordinal);
        *row = longer.into_boxed_slice();
    }
}

pub fn remove_exact(row: &mut Box<[u32]>, ordinal: u32) {
    if let Ok(at) = row.binary_search(&ordinal) {
        let mut shorter = std::mem::take(row).into_vec();
        shorter.remove(at);
        *row = shorter.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_of_any_length_has_what_is_in_it() {
        for length in [0, 1, 2, GONE_THROUGH - 1, GONE_THROUGH, GONE_THROUGH + 1, 1_000] {
            let row: Vec<u32> = (0..length as u32).map(|index| index * 3 + 1).collect();
            for ordinal in (0..length as u32 * 3 + 3).chain([u32::MAX]) {
                assert_eq!(has(&row, ordinal), row.contains(&ordinal), "{ordinal} in {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_is_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u32..40), 0..200)) {
            let (mut row, mut exact, mut set) = (Vec::new(), Box::default(), BTreeSet::new());
            for (add, ordinal) in steps {
                if add {
                    insert(&mut row, ordinal);
                    insert_exact(&mut exact, ordinal);
                    set.insert(ordinal);
                } else {
                    remove(&mut row, ordinal);
                    remove_exact(&mut exact, ordinal);
                    set.remove(&ordinal);
                }
                prop_assert!(row.iter().eq(set.iter()));
                prop_assert_eq!(&*exact, row.as_slice());
                prop_assert_eq!(has(&row, ordinal), add);
            }
        }
    }
}
