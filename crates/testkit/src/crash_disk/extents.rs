//! Which bytes of a file take space: those that were written, zeros included, and not the holes a size leaves.

use std::{collections::BTreeMap, ops::Range};

/// Ranges that neither overlap nor touch, by their start.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&other_start, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= start
        {
            self.0.remove(&other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.0.insert(start, end);
    }

    pub(super) fn cut_at(&mut self, size: u64) {
        drop(self.0.split_off(&size));
        if let Some((_, end)) = self.0.iter_mut().next_back() {
            *end = size.min(*end);
        }
    }

    /// Where a write of `range` must stop when it may take only `free` bytes more.
    pub(super) fn reach(&self, range: Range<u64>, mut free: u64) -> u64 {
        let mut position = range.start;
        while position < range.end {
            match self.0.range(..=position).next_back() {
                Some((_, &end)) if end > position => position = end,
                _ => {
                    let next = self.0.range(position..).next().map_or(range.end, |(start, _)| *start);
                    let gap = next.min(range.end) - position;
                    if gap > free {
                        return position + free;
                    }
                    free -= gap;
                    position += gap;
                }
            }
        }
        range.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_count_like_a_plain_set(
            steps in prop::collection::vec((prop::bool::weighted(0.2), 0..60u64, 0..20u64, 0..30u64), 1..20)
        ) {
            let (mut extents, mut plain) = (Extents::default(), [false; 100]);
            for (cut, start, length, free) in steps {
                let range = start..start + length;
                let mut left = free;
                let stop = range.clone().find(|byte| {
                    let taken = plain[*byte as usize];
                    let fits = taken || left > 0;
                    left -= u64::from(!taken && fits);
                    !fits
                });
                prop_assert_eq!(extents.reach(range.clone(), free), stop.unwrap_or(range.end));
                if cut {
                    extents.cut_at(start);
                    plain[start as usize..].fill(false);
                } else {
                    extents.insert(range.clone());
                    plain[range.start as usize..range.end as usize].fill(true);
                }
                prop_assert_eq!(extents.total(), plain.iter().filter(|taken| **taken).count() as u64);
            }
        }
    }
}
