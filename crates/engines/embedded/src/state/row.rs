//! A user's row: whom their edges of one plane point at, as ascending ordinals. Two are inline: most users of a large
//! network have few edges, and need no allocation.

use std::ops::Deref;

use entourage_store::adjacency::row;

/// Not an ordinal: the count of users has 32 bits, so the last ordinal is below this.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// Padded with [`NOBODY`].
    Few([u32; 2]),
    Many(Box<[u32]>),
}

// Every user has one: two ordinals fit where a box has its length.
const _: () = assert!(size_of::<Row>() == 16);

impl Default for Row {
    fn default() -> Self {
        Self::Few([NOBODY; 2])
    }
}

impl Deref for Row {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match self {
            Self::Many(row) => row,
            Self::Few(few) => {
                let count = few.iter().fold(0, |count, at| count + usize::from(*at != NOBODY));
                few.get(..count).unwrap_or_default()
            }
        }
    }
}

impl From<Vec<u32>> for Row {
    /// Keeps the order.
    fn from(row: Vec<u32>) -> Self {
        match *row.as_slice() {
            [] => Self::default(),
            [one] => Self::Few([one, NOBODY]),
            [one, other] => Self::Few([one, other]),
            _ => Self::Many(row.into_boxed_slice()),
        }
    }
}

impl Row {
    pub(crate) fn insert(&mut self, ordinal: u32) {
        match self {
            Self::Many(row) => row::insert_exact(row, ordinal),
            Self::Few(few) => match *few {
                [one, other] if one == ordinal || other == ordinal => {}
                [NOBODY, _] => few[0] = ordinal,
                [one, NOBODY] => *few = [one.min(ordinal), one.max(ordinal)],
                [one, other] => {
                    let mut three = [one, other, ordinal];
                    three.sort_unstable();
                    *self = Self::Many(three.into());
                }
            },
        }
    }

    pub(crate) fn remove(&mut self, ordinal: u32) {
        match self {
            Self::Few(few) => match *few {
                [one, other] if one == ordinal => *few = [other, NOBODY],
                [_, other] if other == ordinal => few[1] = NOBODY,
                _ => {}
            },
            Self::Many(row) => {
                row::remove_exact(row, ordinal);
                if let [one, other] = **row {
                    *self = Self::Few([one, other]);
                }
            }
        }
    }

    /// Recovery only: in any order, to be sorted when all are there.
    pub(crate) fn extend(&mut self, ordinals: impl ExactSizeIterator<Item = u32>) {
        let mut row = match std::mem::take(self) {
            Self::Many(row) => row.into_vec(),
            few if few.is_empty() && ordinals.len() <= 2 => {
                let mut few = [NOBODY; 2];
                few.iter_mut().zip(ordinals).for_each(|(place, ordinal)| *place = ordinal);
                *self = Self::Few(few);
                return;
            }
            few => few.to_vec(),
        };
        row.reserve_exact(ordinals.len());
        row.extend(ordinals);
        *self = Self::from(row);
    }

    pub(crate) fn sort(&mut self) {
        match self {
            // `NOBODY` is the greatest.
            Self::Few(few) => few.sort_unstable(),
            Self::Many(row) => row.sort_unstable(),
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
        fn a_row_is_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u32..6), 0..60)) {
            let (mut row, mut set) = (Row::default(), BTreeSet::new());
            for (add, ordinal) in steps {
                if add {
                    row.insert(ordinal);
                    set.insert(ordinal);
                } else {
                    row.remove(ordinal);
                    set.remove(&ordinal);
                }
                prop_assert!(row.iter().eq(set.iter()));
                prop_assert_eq!(matches!(row, Row::Few(_)), set.len() <= 2);
            }
        }

        #[test]
        fn a_row_takes_what_blocks_bring(parts in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..5), 0..4)) {
            let mut row = Row::default();
            for part in &parts {
                row.extend(part.iter().map(|ordinal| u32::from(*ordinal)));
            }
            row.sort();
            let mut all: Vec<u32> = parts.concat().into_iter().map(u32::from).collect();
            all.sort_unstable();
            prop_assert_eq!(&*row, all.as_slice());
            prop_assert_eq!(&row, &Row::from(all));
        }
    }
}
