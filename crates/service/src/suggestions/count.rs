//! Counts how often each number comes, weighted, without a map of edges: counters side by side where numbers are small,
//! a radix sort where they are not.

/// Numbers below this have a counter each, 4 MiB in all; that beats sorting while it fits into the processor's cache.
const DENSE_MAX: u32 = 1 << 20;
/// So few are sorted faster without buckets.
const RADIX_MIN: usize = 2_048;
/// Digits are at most this wide: as many buckets as the nearest cache has room for.
const RADIX_BITS: u32 = 12;
const BUCKETS: usize = 1 << RADIX_BITS;

/// A number and its weights, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scored {
    pub(super) score: u32,
    pub(super) number: u32,
}

/// Memory that is used again.
#[derive(Default)]
pub(super) struct Counter {
    sums: Vec<u32>,
    touched: Vec<u32>,
    packed: Vec<u64>,
    buffer: Vec<u64>,
}

impl Counter {
    /// Everybody in these lists, in any order. Numbers are below `bound`, weights above zero.
    pub(super) fn count<'a>(
        &mut self,
        lists: impl Iterator<Item = (&'a [u32], u32)>,
        bound: u32,
        scored: &mut Vec<Scored>,
    ) {
        scored.clear();
        if bound <= DENSE_MAX {
            self.count_dense(lists, bound, scored)
        } else {
            self.count_sorted(lists, bound, scored)
        }
    }

    fn count_dense<'a>(&mut self, lists: impl Iterator<Item = (&'a [u32], u32)>, bound: u32, scored: &mut Vec<Scored>) {
        let Self { sums, touched, .. } = self;
        // All are zero between two calls.
        if sums.len() < bound as usize {
            sums.resize(bound as usize, 0);
        }
        let mut found = 0;
        for (list, weight) in lists {
            if touched.len() < found + list.len() {
                touched.resize(found + list.len(), 0);
            }
            for &number in list {
                let Some(sum) = sums.get_mut(number as usize) else { continue };
                // Whether a number is new is a coin toss: written in any case, kept if it is.
                if let Some(place) = touched.get_mut(found) {
                    *place = number;
                }
                found += usize::from(*sum == 0);
                *sum = sum.saturating_add(weight);
            }
        }
        scored.extend(touched.iter().take(found).filter_map(|&number| {
            let sum = sums.get_mut(number as usize)?;
            Some(Scored { score: std::mem::take(sum), number })
        }));
    }

    fn count_sorted<'a>(
        &mut self,
        lists: impl Iterator<Item = (&'a [u32], u32)>,
        bound: u32,
        scored: &mut Vec<Scored>,
    ) {
        self.packed.clear();
        for (list, weight) in lists {
            self.packed.extend(list.iter().map(|number| u64::from(*number) << u32::BITS | u64::from(weight)));
        }
        if self.packed.len() < RADIX_MIN {
            self.packed.sort_unstable();
        } else {
            let bits = u32::BITS - bound.saturating_sub(1).leading_zeros();
            sort_by_number(&mut self.packed, &mut self.buffer, bits);
        }
        let number = |packed: &u64| (packed >> u32::BITS) as u32;
        for run in self.packed.chunk_by(|one, next| number(one) == number(next)) {
            let Some(first) = run.first() else { continue };
            let score = run.iter().fold(0_u32, |sum, packed| sum.saturating_add(*packed as u32));
            scored.push(Scored { score, number: number(first) });
        }
    }
}

/// Least significant digits first, over the upper half alone; what is behind a number comes along.
fn sort_by_number(packed: &mut Vec<u64>, buffer: &mut Vec<u64>, bits: u32) {
    buffer.clear();
    buffer.resize(packed.len(), 0);
    // Digits of one width, as few as possible.
    let width = bits.div_ceil(bits.div_ceil(RADIX_BITS).max(1)).max(1);
    for shift in (0..bits).step_by(width as usize).map(|digit| u32::BITS + digit) {
        let digit = |value: u64| (value >> shift) as usize & ((1 << width) - 1);
        let mut places = [0_usize; BUCKETS];
        for value in packed.iter() {
            if let Some(count) = places.get_mut(digit(*value)) {
                *count += 1;
            }
        }
        let mut start = 0;
        for place in &mut places {
            start += std::mem::replace(place, start);
        }
        for value in packed.iter() {
            let Some(place) = places.get_mut(digit(*value)) else { continue };
            if let Some(slot) = buffer.get_mut(*place) {
                *slot = *value;
            }
            *place += 1;
        }
        std::mem::swap(packed, buffer);
    }
}

/// Leaves the `limit` best, and everybody else with the score of the last of them, in any order.
pub(super) fn keep_best(scored: &mut Vec<Scored>, limit: usize) {
    if limit == 0 {
        scored.clear();
    }
    if scored.len() <= limit {
        return;
    }
    let (_, last, rest) = scored.select_nth_unstable_by(limit - 1, |one, other| other.score.cmp(&one.score));
    let least = last.score;
    let ties: Vec<Scored> = rest.iter().filter(|scored| scored.score == least).copied().collect();
    scored.truncate(limit);
    scored.extend(ties);
}

/// A set of numbers.
#[derive(Default)]
pub(super) struct Marks {
    words: Vec<u64>,
    marked: Vec<u32>,
}

impl Marks {
    pub(super) fn insert(&mut self, number: u32) {
        let word = (number / u64::BITS) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (number % u64::BITS);
            self.marked.push(number);
        }
    }

    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.words.get((number / u64::BITS) as usize).is_some_and(|word| word >> (number % u64::BITS) & 1 == 1)
    }

    /// Costs what was put in, not what there is room for.
    pub(super) fn clear(&mut self) {
        for number in self.marked.drain(..) {
            if let Some(word) = self.words.get_mut((number / u64::BITS) as usize) {
                *word = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Lists of random numbers below `bound`.
    fn lists(seed: u64, bound: u32, lists: usize, each: usize) -> Vec<(Vec<u32>, u32)> {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut list = || (0..each).map(|_| random(u64::from(bound)) as u32).collect::<Vec<u32>>();
        (0..lists).map(|index| (list(), index as u32 + 1)).collect()
    }

    #[test]
    fn counters_and_sorting_agree_with_a_map() {
        let mut counter = Counter::default();
        for (seed, bound, count, each) in
            [(1, 1, 3, 4), (2, 50, 20, 9), (3, 5_000, 40, 100), (4, 3_000_000, 60, 70), (5, u32::MAX, 50, 200)]
        {
            let lists = lists(seed, bound, count, each);
            let mut truth: BTreeMap<u32, u32> = BTreeMap::new();
            for (list, weight) in &lists {
                list.iter().for_each(|number| *truth.entry(*number).or_default() += weight);
            }
            let truth: Vec<Scored> = truth.into_iter().map(|(number, score)| Scored { score, number }).collect();
            let asked = || lists.iter().map(|(list, weight)| (list.as_slice(), *weight));
            for dense in [true, false] {
                let mut scored = Vec::new();
                match dense {
                    true if bound > 10_000_000 => continue,
                    true => counter.count_dense(asked(), bound, &mut scored),
                    false => counter.count_sorted(asked(), bound, &mut scored),
                }
                scored.sort_unstable_by_key(|scored| scored.number);
                assert_eq!(scored, truth, "seed {seed}, dense: {dense}");
            }
        }
    }

    #[test]
    fn the_best_stay_with_their_ties() {
        let all: Vec<Scored> = (0..100).map(|number| Scored { score: number % 7, number }).collect();
        for limit in [0, 1, 10, 14, 15, 99, 100, 200] {
            let mut kept = all.clone();
            keep_best(&mut kept, limit);
            let mut expected = all.clone();
            expected.sort_unstable_by_key(|scored| std::cmp::Reverse(scored.score));
            let least = limit.checked_sub(1).and_then(|last| expected.get(last)).map(|scored| scored.score);
            expected.retain(|scored| limit > 0 && least.is_none_or(|least| scored.score >= least));
            kept.sort_unstable();
            expected.sort_unstable();
            assert_eq!(kept, expected, "limit {limit}");
        }
    }

    #[test]
    fn marks_are_forgotten() {
        let mut marks = Marks::default();
        for number in [0, 63, 64, 1_000_000] {
            marks.insert(number);
            assert!(marks.has(number) && !marks.has(number + 1));
        }
        marks.clear();
        assert!([0, 63, 64, 1_000_000].into_iter().all(|number| !marks.has(number)));
    }
}
