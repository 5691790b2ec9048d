//! The targets that one question names, to be found by key: small enough to stay in the nearest cache.

use entourage_model::Key;

use super::keys::print;

/// How many there can be.
pub(super) const ASKED_MAX: usize = 64;
const HEADS_BITS: u32 = 9;

pub(super) struct Asked<'a> {
    pairs: &'a [(Key, Key)],
    /// For each head of a print the last target that has it, counted from 1; 0 is none.
    heads: [u8; 1 << HEADS_BITS],
    /// For each target the one before with the same head.
    before: [u8; ASKED_MAX],
}

impl<'a> Asked<'a> {
    /// The targets of the first [`ASKED_MAX`] pairs.
    pub(super) fn new(pairs: &'a [(Key, Key)]) -> Self {
        let mut asked = Self { pairs, heads: [0; 1 << HEADS_BITS], before: [0; ASKED_MAX] };
        for (number, ((_, target), before)) in (1..).zip(pairs.iter().zip(&mut asked.before)) {
            *before = std::mem::replace(&mut asked.heads[head(print(*target))], number);
        }
        asked
    }

    /// Whether a key with this print can be asked for. One in ten that is not can, too.
    #[inline]
    pub(super) fn may_have(&self, print: u16) -> bool {
        self.heads[head(print)] != 0
    }

    /// Where this target is asked for; more than once if it is asked for twice.
    #[inline]
    pub(super) fn places(&self, target: Key) -> impl Iterator<Item = usize> {
        let mut number = usize::from(self.heads[head(print(target))]);
        std::iter::from_fn(move || {
            while let Some(index) = number.checked_sub(1) {
                number = usize::from(self.before[index % ASKED_MAX]);
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
        // More than there are heads for without two of them meeting.
        let pairs: Vec<(Key, Key)> = (0..ASKED_MAX as i64).map(|number| (Key(1), Key(number % 50 * 512))).collect();
        let asked = Asked::new(&pairs);
        let mut others_told_apart = 0;
        for target in -1..60 * 512 {
            let mut places: Vec<usize> = asked.places(Key(target)).collect();
            places.sort_unstable();
            let expected: Vec<usize> = (0..pairs.len()).filter(|index| pairs[*index].1 == Key(target)).collect();
            assert_eq!(places, expected, "{target}");
            assert!(places.is_empty() || asked.may_have(print(Key(target))), "{target}");
            others_told_apart += usize::from(!asked.may_have(print(Key(target))));
        }
        assert!(others_told_apart > 25_000, "{others_told_apart}");
    }
}
