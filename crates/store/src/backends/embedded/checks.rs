//! Many checks at once. A check alone is a chain of waits for memory: ordinals, slot, row. The chains of a handful of
//! pairs go side by side, step by step, so that they wait together.

use std::array;

use entourage_model::{Key, Plane};

use super::state::{Shard, State};
use crate::Answer;

/// How many chains go side by side: about as many as a core can wait for.
const SIDE_BY_SIDE: usize = 16;

/// One answer a pair, in their order. An edge of somebody who is erased is `Unknown`.
pub(super) fn peek_all(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    answers.reserve(pairs.len());
    for some in pairs.chunks(SIDE_BY_SIDE) {
        peek_some(state, plane, some, answers);
    }
}

fn peek_some(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    let first = answers.len();
    let ordinals: [_; SIDE_BY_SIDE] = state.ordinal_pairs(pairs);
    search(state, plane, &ordinals[..pairs.len()], answers);
    if state.erased().is_empty() {
        return;
    }
    // No shard is held any more: a second lock of one would wait for a writer who waits for the first.
    let known = ordinals.iter().zip(pairs).zip(answers.iter_mut().skip(first));
    for ((_, &(follower, target)), answer) in known.filter(|((ordinals, _), _)| ordinals.is_none()) {
        if state.has_active(plane, follower, target) {
            *answer = Answer::Unknown;
        }
    }
}

fn search(state: &State, plane: Plane, ordinals: &[Option<(u32, u32)>], answers: &mut Vec<Answer>) {
    let known = |index: usize| ordinals.get(index).copied().flatten();
    // Recursive: two may be in one shard, and a writer that waits must not come between.
    let shards: [_; SIDE_BY_SIDE] =
        array::from_fn(|index| known(index).map(|(follower, _)| state.shard(follower).read_recursive()));
    let mut searches: [Search<'_>; SIDE_BY_SIDE] = array::from_fn(|index| match (&shards[index], known(index)) {
        (Some(shard), Some((follower, target))) => Search::new(row(shard, plane, follower), target),
        _ => Search::default(),
    });
    let longest = searches.iter().map(|search| search.size).max().unwrap_or(0);
    for _ in 0..usize::BITS - longest.leading_zeros() {
        searches.iter_mut().for_each(Search::step);
    }
    // Whoever is not known has nothing to search in.
    let answer = |search: &Search<'_>| if search.is_found() { Answer::Yes } else { Answer::No };
    answers.extend(searches.iter().take(ordinals.len()).map(answer));
}

fn row(shard: &Shard, plane: Plane, follower: u32) -> &[u32] {
    shard.lists(plane, follower).map_or(&[], |lists| &lists.row)
}

/// A binary search that can be taken step by step, without a branch that depends on what it finds.
#[derive(Clone, Copy, Default)]
struct Search<'a> {
    row: &'a [u32],
    target: u32,
    /// The target, if it is there, is at `base` or up to `size` behind it.
    base: usize,
    size: usize,
}

impl<'a> Search<'a> {
    const fn new(row: &'a [u32], target: u32) -> Self {
        Self { row, target, base: 0, size: row.len() }
    }

    #[inline]
    fn step(&mut self) {
        let half = self.size / 2;
        let middle = self.base + half;
        let is_above = self.row.get(middle).is_some_and(|&at| at <= self.target);
        self.base = if is_above { middle } else { self.base };
        self.size -= half;
    }

    fn is_found(&self) -> bool {
        self.row.get(self.base) == Some(&self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_in_steps_finds_what_is_there_and_nothing_else() {
        for length in (0..70).chain([127, 128, 129, 1_000]) {
            let row: Vec<u32> = (0..length).map(|index| index * 3 + 1).collect();
            for target in 0..length * 3 + 3 {
                let mut search = Search::new(&row, target);
                for _ in 0..usize::BITS - row.len().leading_zeros() {
                    search.step();
                }
                assert_eq!(search.is_found(), row.binary_search(&target).is_ok(), "{target} in {length}");
            }
        }
    }
}
