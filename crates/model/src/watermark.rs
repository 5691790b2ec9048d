//! How far whoever reads a store must have come to have seen a write.

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use crate::Sequence;

/// Which history of a store an offset belongs to: a store that lost its newest writes goes on in another one, and
/// counts there from where they were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage(pub u64);

/// One offset for each partition of a store's log, in one lineage. Only the store that made it can tell what it covers.
/// All watermarks of a store have one size, so that it tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    lineage: Lineage,
    offsets: SmallVec<[u64; 1]>,
}

impl Watermark {
    /// Of a store with one partition that has never forked.
    pub fn at(offset: Sequence) -> Self {
        Self { lineage: Lineage::default(), offsets: smallvec![offset.0] }
    }

    pub fn new(lineage: Lineage, offsets: impl IntoIterator<Item = Sequence>) -> Self {
        Self { lineage, offsets: offsets.into_iter().map(|offset| offset.0).collect() }
    }

    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Zero of a partition that it says nothing of.
    pub fn offset(&self, partition: u16) -> Sequence {
        Sequence(self.offsets.get(usize::from(partition)).copied().unwrap_or(0))
    }

    /// The offset in the only partition of a store that has one.
    pub fn sequence(&self) -> Sequence {
        self.offset(0)
    }

    pub fn offsets(&self) -> impl ExactSizeIterator<Item = Sequence> + '_ {
        self.offsets.iter().map(|offset| Sequence(*offset))
    }

    /// Takes the later one for each partition; not across lineages, where offsets cannot be compared.
    #[must_use]
    pub fn merge(&mut self, other: &Self) -> bool {
        let is_one_history = self.lineage == other.lineage && self.offsets.len() == other.offsets.len();
        if is_one_history {
            for (offset, other) in self.offsets.iter_mut().zip(&other.offsets) {
                *offset = (*offset).max(*other);
            }
        }
        is_one_history
    }
}

/// A place among the events of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventPosition {
    pub lineage: Lineage,
    pub partition: u16,
    pub offset: Sequence,
}

impl EventPosition {
    /// Of a store with one partition that has never forked.
    pub const fn at(offset: Sequence) -> Self {
        Self { lineage: Lineage(0), partition: 0, offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_merge_by_partition_and_not_across_lineages() {
        let of = |lineage, offsets: [u64; 2]| Watermark::new(Lineage(lineage), offsets.map(Sequence));
        let mut merged = of(1, [5, 2]);
        assert!(merged.merge(&of(1, [3, 9])));
        assert_eq!(merged, of(1, [5, 9]));
        assert!(!merged.merge(&of(2, [99, 99])) && !merged.merge(&Watermark::at(Sequence(99))));
        assert_eq!((merged.offset(1), merged.offset(2)), (Sequence(9), Sequence::ZERO));
    }
}
