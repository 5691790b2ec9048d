//! Watermarks: how far a reader must have come to have seen a write.

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use crate::Sequence;

/// Which history of a store an offset belongs to: a store that lost its newest writes continues in a new lineage, and
/// counts there from where they were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage(pub u64);

/// One offset for each partition of a store's log, in one lineage. Only the store that made it can tell what it covers.
/// All watermarks of a store have one size, so that it reveals nothing.
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

    /// Zero for a partition it does not mention.
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

    /// Takes the later offset for each partition; not across lineages, where offsets are not comparable.
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

impl EventPosition {
    /// As an error reports where to resume.
    pub fn to_text(self) -> String {
        match self.lineage {
            Lineage(0) => self.offset.to_string(),
            Lineage(lineage) => format!("{}@{lineage}", self.offset),
        }
    }

    pub fn from_text(partition: u16, text: &str) -> Option<Self> {
        let (offset, lineage) = text.split_once('@').unwrap_or((text, "0"));
        Some(Self { lineage: Lineage(lineage.parse().ok()?), partition, offset: Sequence(offset.parse().ok()?) })
    }
}

/// How far the events of every partition of a store were read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventPositions {
    lineage: Lineage,
    offsets: SmallVec<[Sequence; 1]>,
}

impl EventPositions {
    pub fn new(lineage: Lineage, offsets: impl IntoIterator<Item = Sequence>) -> Self {
        Self { lineage, offsets: offsets.into_iter().collect() }
    }

    /// Before the first event.
    pub fn start(lineage: Lineage, partitions: u16) -> Self {
        Self { lineage, offsets: smallvec![Sequence::ZERO; usize::from(partitions)] }
    }

    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    pub fn partitions(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.offsets.len()).filter_map(|index| u16::try_from(index).ok())
    }

    /// Zero for a partition that does not exist.
    pub fn offset(&self, partition: u16) -> Sequence {
        self.offsets.get(usize::from(partition)).copied().unwrap_or_default()
    }

    pub fn position(&self, partition: u16) -> EventPosition {
        EventPosition { lineage: self.lineage, partition, offset: self.offset(partition) }
    }

    pub fn positions(&self) -> impl Iterator<Item = EventPosition> + '_ {
        self.partitions().map(|partition| self.position(partition))
    }

    pub fn has(&self, partition: u16, sequence: Sequence) -> bool {
        sequence <= self.offset(partition)
    }

    /// Whether everything read there was read here, too.
    pub fn has_all_of(&self, other: &Self) -> bool {
        other.partitions().all(|partition| self.has(partition, other.offset(partition)))
    }

    /// An event was read.
    pub fn advance(&mut self, partition: u16, sequence: Sequence) {
        if let Some(offset) = self.offsets.get_mut(usize::from(partition)) {
            *offset = (*offset).max(sequence);
        }
    }

    /// The store has shown that nothing up to these offsets was lost since: they mean the same in this lineage.
    pub const fn enter(&mut self, lineage: Lineage) {
        self.lineage = lineage;
    }

    /// Merges what was read there.
    pub fn advance_to(&mut self, other: &Self) {
        for partition in other.partitions() {
            self.advance(partition, other.offset(partition));
        }
    }

    /// How many events were read beyond another's.
    pub fn beyond(&self, other: &Self) -> u64 {
        self.partitions().map(|partition| self.offset(partition).0.saturating_sub(other.offset(partition).0)).sum()
    }

    /// As an error reports where to resume: the lineage, and the offset of each partition.
    pub fn to_text(&self) -> String {
        let offsets: Vec<String> = self.offsets.iter().map(Sequence::to_string).collect();
        format!("{}:{}", self.lineage.0, offsets.join(","))
    }

    pub fn from_text(text: &str) -> Option<Self> {
        let (lineage, offsets) = text.split_once(':')?;
        let offsets: Option<_> = offsets.split(',').map(|offset| offset.parse().ok().map(Sequence)).collect();
        Some(Self { lineage: Lineage(lineage.parse().ok()?), offsets: offsets? })
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

    #[test]
    fn positions_advance_by_partition_and_read_back() {
        let of = |offsets: [u64; 3]| EventPositions::new(Lineage(4), offsets.map(Sequence));
        let mut read = of([5, 0, 7]);
        read.advance(1, Sequence(3));
        read.advance(2, Sequence(6));
        read.advance(9, Sequence(9));
        assert_eq!(read, of([5, 3, 7]));
        assert!(read.has(1, Sequence(3)) && !read.has(1, Sequence(4)));
        assert!(read.has_all_of(&of([5, 2, 7])) && !read.has_all_of(&of([0, 0, 8])));
        assert_eq!(of([6, 9, 9]).beyond(&read), 9);
        assert_eq!(EventPositions::from_text(&read.to_text()), Some(read));
        assert_eq!(EventPositions::from_text("4:1,x"), None);
        for position in [EventPosition::at(Sequence(8)), of([1, 2, 3]).position(0)] {
            assert_eq!(EventPosition::from_text(0, &position.to_text()), Some(position));
        }
    }
}
