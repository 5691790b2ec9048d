//! The targets of one request, found by key: small enough for the L1 cache.

use entourage_model::Key;

use crate::state::keys::print;

/// Capacity.
pub(crate) const TARGETS_MAX: usize = 64;
const HEADS_BITS: u32 = 9;

pub(crate) struct TargetSet<'a> {
    pairs: &'a [(Key, Key)],
    /// For each head of a print, the last target that has it, counted from 1; 0 is none.
    heads: [u8; 1 << HEADS_BITS],
    /// For each target, the previous one with the same head.
    before: [u8; TARGETS_MAX],
}

impl<'a> TargetSet<'a> {
    /// The targets of the first [`TARGETS_MAX`] pairs.
    pub(crate) fn new(pairs: &'a [(Key, Key)]) -> Self {
        let mut targets = Self { pairs, heads: [0; 1 << HEADS_BITS], before: [0; TARGETS_MAX] };
        for (number, ((_, target), before)) in (1..).zip(pairs.iter().zip(&mut targets.before)) {
            *before = std::mem::replace(&mut targets.heads[head(print(*target))], number);
        }
        targets
    }

    /// Whether a key with this print may be a target. One in ten others passes, too.
    #[inline]
    pub(crate) fn may_have(&self, print: u16) -> bool {
        self.heads[head(print)] != 0
    }

    /// The indices of all pairs with this target.
    #[inline]
    pub(crate) fn places(&self, target: Key) -> impl Iterator<Item = usize> {
        let mut number = usize::from(self.heads[head(print(target))]);
        std::iter::from_fn(move || {
            while let Some(index) = number.checked_sub(1) {
                number = usize::from(self.before[index % TARGETS_MAX]);
                if self.pairs.get(index).is_some_and(|pair| pair.1 == target) {
                    return Some(index);
                }
            }
            None
        })
    }
}

#[inline]
const fn head(print: u16) -> usize {
    (print >> (u16::BITS - HEADS_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_found_where_it_is_asked_for() {
        // So many that some share a head.
        let pairs: Vec<(Key, Key)> = (0..TARGETS_MAX as i64).map(|number| (Key(1), Key(number % 50 * 512))).collect();
        let targets = TargetSet::new(&pairs);
        let mut others_told_apart = 0;
        for target in -1..60 * 512 {
            let mut places: Vec<usize> = targets.places(Key(target)).collect();
            places.sort_unstable();
            let expected: Vec<usize> = (0..pairs.len()).filter(|index| pairs[*index].1 == Key(target)).collect();
            assert_eq!(places, expected, "{target}");
            assert!(places.is_empty() || targets.may_have(print(Key(target))), "{target}");
            others_told_apart += usize::from(!targets.may_have(print(Key(target))));
        }
        assert!(others_told_apart > 25_000, "{others_told_apart}");
    }
}
