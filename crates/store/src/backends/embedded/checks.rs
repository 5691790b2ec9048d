//! Many checks at once. A check alone is a chain of waits for memory: ordinals, slot, row. The chains of a handful of
//! pairs go side by side, step by step, so that they wait together; many pairs of one follower need one row.

use std::array;

use entourage_model::{Key, Plane};

use super::{
    asked::{ASKED_MAX, Asked},
    state::{Shard, State},
};
use crate::{
    Answer,
    adjacency::{
        row,
        search::{SIDE_BY_SIDE, places},
    },
};

const A_FEW: usize = 4;
/// From so many pairs of one follower on, their row is taken by itself.
const MANY: usize = 8;
/// A row of up to so many times as many edges as are asked for is gone through faster than that many users are found.
const LONGER: usize = 8;

/// One answer a pair, in their order. An edge of somebody who is erased is `Unknown`.
pub(super) fn peek_all(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    answers.reserve(pairs.len());
    let mut scattered = 0;
    let mut at = 0;
    for of_one in pairs.chunk_by(|one, next| one.0 == next.0) {
        if of_one.len() >= MANY {
            peek_scattered(state, plane, &pairs[scattered..at], answers);
            of_one.chunks(ASKED_MAX).for_each(|some| peek_row(state, plane, some, answers));
            scattered = at + of_one.len();
        }
        at += of_one.len();
    }
    peek_scattered(state, plane, &pairs[scattered..], answers);
}

fn peek_scattered(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    for some in pairs.chunks(SIDE_BY_SIDE) {
        // Places that nobody takes cost as much as those that somebody does.
        match some.len() {
            1 => peek_some::<1>(state, plane, some, answers),
            ..=A_FEW => peek_some::<A_FEW>(state, plane, some, answers),
            _ => peek_some::<SIDE_BY_SIDE>(state, plane, some, answers),
        }
    }
}

/// `N` pairs at most.
fn peek_some<const N: usize>(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    let ordinals: [_; N] = state.ordinal_pairs(pairs);
    search(state, plane, &ordinals, pairs.len(), answers);
    doubt_erased(state, plane, &ordinals, pairs, answers);
}

/// Pairs of one follower, [`ASKED_MAX`] at most.
fn peek_row(state: &State, plane: Plane, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    let Some(&(follower, _)) = pairs.first() else { return };
    let Some(ordinal) = state.ordinal(follower) else { return peek_scattered(state, plane, pairs, answers) };
    let shard = state.shard(ordinal).read();
    let row = row_of(&shard, plane, ordinal);
    if row.len() > pairs.len() * LONGER {
        drop(shard);
        return peek_long_row(state, plane, ordinal, pairs, answers);
    }
    let first = answers.len();
    answers.resize(first + pairs.len(), Answer::No);
    let answers = &mut answers[first..];
    let asked = Asked::new(pairs);
    // Nobody comes back under a key that an edge is left of, and edges stay while the shard is held.
    let is_gone = |key| state.erased().ordinal(key).is_some();
    let keys = state.keys_beside();
    for key in row.iter().filter_map(|ordinal| keys.get(*ordinal as usize)) {
        for index in asked.places(*key) {
            answers[index] = if is_gone(follower) || is_gone(*key) { Answer::Unknown } else { Answer::Yes };
        }
    }
}

fn peek_long_row(state: &State, plane: Plane, follower: u32, pairs: &[(Key, Key)], answers: &mut Vec<Answer>) {
    for some in pairs.chunks(SIDE_BY_SIDE) {
        let ordinals: [_; SIDE_BY_SIDE] = state.target_ordinals(follower, some);
        {
            let shard = state.shard(follower).read();
            let row = row_of(&shard, plane, follower);
            let targets = ordinals.map(|ordinals| ordinals.map_or(0, |(_, target)| target));
            let found = places(row, &targets).into_iter().zip(&ordinals).take(some.len());
            answers.extend(
                found.map(|(place, ordinals)| {
                    answer(ordinals.is_some_and(|(_, target)| row.get(place) == Some(&target)))
                }),
            );
        }
        doubt_erased(state, plane, &ordinals, some, answers);
    }
}

/// Whoever has no ordinal was not found; an edge that they left behind makes that no answer. No shard may be held: a
/// second lock of one would wait for a writer who waits for the first.
fn doubt_erased(
    state: &State,
    plane: Plane,
    ordinals: &[Option<(u32, u32)>],
    pairs: &[(Key, Key)],
    answers: &mut [Answer],
) {
    if state.erased().is_empty() {
        return;
    }
    let first = answers.len() - pairs.len();
    let known = ordinals.iter().zip(pairs).zip(answers.iter_mut().skip(first));
    for ((_, &(follower, target)), answer) in known.filter(|((ordinals, _), _)| ordinals.is_none()) {
        if state.has_active(plane, follower, target) {
            *answer = Answer::Unknown;
        }
    }
}

fn search<const N: usize>(
    state: &State,
    plane: Plane,
    ordinals: &[Option<(u32, u32)>; N],
    count: usize,
    answers: &mut Vec<Answer>,
) {
    // Recursive: two may be in one shard, and a writer that waits must not come between.
    let shards: [_; N] =
        array::from_fn(|index| ordinals[index].map(|(follower, _)| state.shard(follower).read_recursive()));
    // Whoever is not known has nothing to search in. All rows first: finding one waits for memory, too.
    let rows: [&[u32]; N] = array::from_fn(|index| match (&shards[index], ordinals[index]) {
        (Some(shard), Some((follower, _))) => row_of(shard, plane, follower),
        _ => &[],
    });
    let is_there = |(row, ordinals): (&&[u32], &Option<(u32, u32)>)| ordinals.is_some_and(|(_, to)| row::has(row, to));
    answers.extend(rows.iter().zip(ordinals).take(count).map(|found| answer(is_there(found))));
}

const fn answer(yes: bool) -> Answer {
    if yes { Answer::Yes } else { Answer::No }
}

#[inline]
fn row_of(shard: &Shard, plane: Plane, follower: u32) -> &[u32] {
    shard.lists(plane, follower).map_or(&[], |lists| &lists.row)
}
