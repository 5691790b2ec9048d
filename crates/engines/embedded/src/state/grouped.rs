//! Puts work into groups and keeps its order within each: a counting sort of positions.

pub(crate) struct Grouped {
    /// Positions, group after group.
    order: Vec<u32>,
    /// Where each group ends in `order`.
    ends: Vec<usize>,
}

impl Grouped {
    /// `groups` gives the group, below `count`, of each position.
    pub(crate) fn new(count: usize, groups: impl Iterator<Item = usize> + Clone) -> Self {
        let mut next = vec![0; count];
        let mut all = 0;
        for group in groups.clone() {
            next[group] += 1;
            all += 1;
        }
        let mut start = 0;
        for slot in &mut next {
            let size = *slot;
            *slot = start;
            start += size;
        }
        let mut order = vec![0; all];
        for (position, group) in groups.enumerate() {
            order[next[group]] = position as u32;
            next[group] += 1;
        }
        Self { order, ends: next }
    }

    /// The positions of each group, in their original order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.order[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_order() {
        let grouped = Grouped::new(4, [2, 0, 2, 3, 0, 2].into_iter());
        let groups: Vec<&[u32]> = grouped.groups().collect();
        assert_eq!(groups, [&[1, 4][..], &[], &[0, 2, 5], &[3]]);
    }
}
