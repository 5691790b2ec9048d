//! A log of published halves: with duplicates, and truncated from the front.

use std::collections::VecDeque;

use entourage_model::Sequence;

use super::home::Outgoing;

#[derive(Debug, Default)]
pub struct Log {
    /// The offset of the first one that is kept.
    start: u64,
    records: VecDeque<Outgoing>,
}

/// The requested offset is no longer kept.
#[derive(Debug)]
pub struct Truncated;

impl Log {
    pub fn append(&mut self, outgoing: Outgoing) {
        self.records.push_back(outgoing);
    }

    #[cfg(feature = "planted")]
    pub fn kept(&self) -> usize {
        self.records.len()
    }

    pub fn end(&self) -> u64 {
        self.start + self.records.len() as u64
    }

    pub fn read(&self, offset: u64, limit: usize) -> Result<Vec<Outgoing>, Truncated> {
        let skipped = offset.checked_sub(self.start).ok_or(Truncated)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.records.iter().skip(skipped).take(limit).copied().collect())
    }

    pub fn truncate(&mut self, start: u64) {
        while self.start < start && self.records.pop_front().is_some() {
            self.start += 1;
        }
    }

    /// Whether something of that source, up to that event, is published at `offset` or after it.
    pub fn has_from(&self, offset: u64, source: usize, up_to: Sequence) -> bool {
        let skipped = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        offset < self.start
            || self.records.iter().skip(skipped).any(|record| record.source == source && record.sequence <= up_to)
    }
}
