//! Batched checks. A single check is a chain of cache misses: ordinals, slot, row. A handful of pairs goes through the
//! steps together, so that their misses overlap; many pairs of one follower need one row.

use std::{array, hint::black_box, ops::Range};

use entourage_model::Key;

use crate::{
    reads::target_set::{TARGETS_MAX, TargetSet},
    state::{State, keys::Keys, plane::StoredPlane},
};
use entourage_store::{
    Answer,
    adjacency::{
        row,
        search::{SIDE_BY_SIDE, places},
    },
};

const A_FEW: usize = 4;
/// With this many pairs of one follower, its row is read once for all.
const MANY: usize = 8;
/// A row of up to this many times the number of pairs is scanned faster than that many users are looked up.
const LONGER: usize = 8;
/// Ordinals in a cache line.
const LINE: usize = 16;

/// One answer per pair, in order. An edge of an erased user is `Unknown`.
#[inline]
pub(crate) fn peek_all(state: &State, plane: StoredPlane, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    match (pairs, answers) {
        ([(follower, target)], [answer]) => *answer = peek_one(state, plane, *follower, *target),
        (pairs, answers) => peek_many(state, plane, pairs, answers),
    }
}

/// Not inlined: a single check should not pay for the stack of many.
#[inline(never)]
fn peek_many(state: &State, plane: StoredPlane, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    answers.fill(Answer::No);
    let mut runs = Runs::default();
    let (mut scattered, mut at) = (0, 0);
    for of_one in pairs.chunk_by(|one, next| one.0 == next.0) {
        let end = at + of_one.len();
        if of_one.len() >= MANY {
            peek_scattered(state, plane, &pairs[scattered..at], &mut answers[scattered..at]);
            scattered = end;
            while at < end {
                let run = at..end.min(at + TARGETS_MAX);
                at = run.end;
                if runs.push(run) {
                    peek_rows::<SIDE_BY_SIDE>(state, plane, pairs, runs.take(), answers);
                }
            }
        }
        at = end;
    }
    match runs.count {
        0 => {}
        1 => peek_rows::<1>(state, plane, pairs, runs, answers),
        2..=A_FEW => peek_rows::<A_FEW>(state, plane, pairs, runs, answers),
        _ => peek_rows::<SIDE_BY_SIDE>(state, plane, pairs, runs, answers),
    }
    peek_scattered(state, plane, &pairs[scattered..], &mut answers[scattered..]);
}

/// A single pair: both ordinals, then the row. Nothing branches on the result, so that the processor starts the next
/// check while this one waits for its row.
#[inline]
fn peek_one(state: &State, plane: StoredPlane, follower: Key, target: Key) -> Answer {
    // Tested first: an edge of a user erased after this was there during the call.
    if state.erased().is_empty() {
        return answer(state.has_active(plane, follower, target));
    }
    peek_beside_erased(state, plane, follower, target)
}

#[cold]
#[inline(never)]
fn peek_beside_erased(state: &State, plane: StoredPlane, follower: Key, target: Key) -> Answer {
    match (state.has_active(plane, follower, target), state.ordinal(follower), state.ordinal(target)) {
        (false, _, _) => Answer::No,
        (true, Some(_), Some(_)) => Answer::Yes,
        (true, _, _) => Answer::Unknown,
    }
}

/// [`peek_all`] of follows without quiet ones.
pub(crate) fn peek_open(state: &State, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    peek_all(state, StoredPlane::Follow, pairs, answers);
    for (slot, &(follower, target)) in answers.iter_mut().zip(pairs) {
        // The row has quiet follows as well. Both are read again together: the edge may have changed since.
        if *slot == Answer::Yes {
            *slot = answer(state.has_open(follower, target));
        }
    }
}

/// Ranges of pairs with one follower, [`TARGETS_MAX`] at most in each.
#[derive(Default)]
struct Runs {
    places: [Range<usize>; SIDE_BY_SIDE],
    count: usize,
}

impl Runs {
    /// True when full.
    fn push(&mut self, run: Range<usize>) -> bool {
        self.places[self.count] = run;
        self.count += 1;
        self.count == SIDE_BY_SIDE
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

fn peek_scattered(state: &State, plane: StoredPlane, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    for (some, answers) in pairs.chunks(SIDE_BY_SIDE).zip(answers.chunks_mut(SIDE_BY_SIDE)) {
        // Unused slots cost as much as used ones.
        match some.len() {
            1 => peek_some::<1>(state, plane, some, answers),
            ..=A_FEW => peek_some::<A_FEW>(state, plane, some, answers),
            _ => peek_some::<SIDE_BY_SIDE>(state, plane, some, answers),
        }
    }
}

/// At most `N` pairs.
fn peek_some<const N: usize>(state: &State, plane: StoredPlane, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    let ordinals: [_; N] = state.ordinal_pairs(pairs);
    search(state, plane, &ordinals, answers);
    doubt_erased(state, plane, &ordinals, pairs, answers);
}

/// At most `N` runs: all rows are found before any is scanned.
fn peek_rows<const N: usize>(
    state: &State,
    plane: StoredPlane,
    pairs: &[(Key, Key)],
    runs: Runs,
    answers: &mut [Answer],
) {
    let runs = &runs.places[..runs.count.min(N)];
    let followers: [Option<u32>; N] =
        state.few_ordinals(array::from_fn(|index| runs.get(index).map(|run| pairs[run.start].0)));
    let is_long = |row: &[u32], run: &Range<usize>| row.len() > run.len() * LONGER;
    let mut long = [false; N];
    {
        // Locked before any shard, and queued behind a waiting writer: many readers must not keep new users out.
        let keys = state.keys();
        // Recursive: two may be in one shard, where a waiting writer would block the second lock.
        let shards = followers.map(|follower| follower.map(|ordinal| state.shard(ordinal).read_recursive()));
        let rows: [&[u32]; N] = array::from_fn(|index| match (&shards[index], followers[index]) {
            (Some(shard), Some(follower)) => shard.row(plane, follower),
            _ => &[],
        });
        let rows = || rows.iter().zip(runs);
        // Touching every line of each row lets the cache misses overlap.
        black_box(rows().fold(0, |all, (row, run)| {
            row.iter().take(run.len() * LONGER).step_by(LINE).fold(all, |all, ordinal| all ^ ordinal)
        }));
        for ((row, run), long) in rows().zip(&mut long) {
            *long = is_long(row, run);
            if !*long {
                go_through(state, &keys, row, &pairs[run.clone()], &mut answers[run.clone()]);
            }
        }
    }
    // The rest locks shards itself, so none may be held.
    for ((run, follower), long) in runs.iter().zip(followers).zip(long) {
        let (pairs, answers) = (&pairs[run.clone()], &mut answers[run.clone()]);
        match follower {
            Some(follower) if long => peek_long_row(state, plane, follower, pairs, answers),
            Some(_) => {}
            None => peek_scattered(state, plane, pairs, answers),
        }
    }
}

/// Answers pairs of one follower by the keys of its row. The shard is locked.
fn go_through(state: &State, keys: &Keys, row: &[u32], pairs: &[(Key, Key)], answers: &mut [Answer]) {
    // A key with an edge left is not reused, and edges stay while the shard is locked.
    let nobody_is_gone = state.erased().is_empty();
    let is_gone = |key| !nobody_is_gone && state.erased().ordinal(key).is_some();
    let targets = TargetSet::new(pairs);
    let prints = keys.prints();
    let mut hits = [0; TARGETS_MAX];
    for some in row.chunks(TARGETS_MAX) {
        let mut count = 0;
        for &ordinal in some {
            // Always written, kept if it may be a target: a branch would be mispredicted too often.
            hits[count % TARGETS_MAX] = ordinal;
            count += usize::from(prints.get(ordinal as usize).is_some_and(|print| targets.may_have(*print)));
        }
        for key in hits.iter().take(count).filter_map(|ordinal| keys.get(*ordinal as usize)) {
            for index in targets.places(*key) {
                let gone = is_gone(pairs[index].0) || is_gone(*key);
                answers[index] = if gone { Answer::Unknown } else { Answer::Yes };
            }
        }
    }
}

fn peek_long_row(state: &State, plane: StoredPlane, follower: u32, pairs: &[(Key, Key)], answers: &mut [Answer]) {
    for (some, answers) in pairs.chunks(SIDE_BY_SIDE).zip(answers.chunks_mut(SIDE_BY_SIDE)) {
        let ordinals: [_; SIDE_BY_SIDE] = state.target_ordinals(follower, some);
        {
            let shard = state.shard(follower).read();
            let row = shard.row(plane, follower);
            let targets = ordinals.map(|ordinals| ordinals.map_or(0, |(_, target)| target));
            let found = places(row, &targets).into_iter().zip(&ordinals);
            for (slot, (place, ordinals)) in answers.iter_mut().zip(found) {
                *slot = answer(ordinals.is_some_and(|(_, target)| row.get(place) == Some(&target)));
            }
        }
        doubt_erased(state, plane, &ordinals, some, answers);
    }
}

/// A pair without ordinals was not found; if an erased user left that edge, the answer is unknown. No shard may be
/// held: a second lock would wait for a writer that waits for the first.
fn doubt_erased(
    state: &State,
    plane: StoredPlane,
    ordinals: &[Option<(u32, u32)>],
    pairs: &[(Key, Key)],
    answers: &mut [Answer],
) {
    if state.erased().is_empty() {
        return;
    }
    let known = ordinals.iter().zip(pairs).zip(answers);
    for ((_, &(follower, target)), answer) in known.filter(|((ordinals, _), _)| ordinals.is_none()) {
        if state.has_active(plane, follower, target) {
            *answer = Answer::Unknown;
        }
    }
}

fn search<const N: usize>(
    state: &State,
    plane: StoredPlane,
    ordinals: &[Option<(u32, u32)>; N],
    answers: &mut [Answer],
) {
    // Recursive: two may be in one shard, where a waiting writer would block the second lock.
    let shards: [_; N] =
        array::from_fn(|index| ordinals[index].map(|(follower, _)| state.shard(follower).read_recursive()));
    // Unknown users have an empty row. All rows first: finding one is a cache miss, too.
    let rows: [&[u32]; N] = array::from_fn(|index| match (&shards[index], ordinals[index]) {
        (Some(shard), Some((follower, _))) => shard.row(plane, follower),
        _ => &[],
    });
    let is_there = |(row, ordinals): (&&[u32], &Option<(u32, u32)>)| ordinals.is_some_and(|(_, to)| row::has(row, to));
    for (slot, found) in answers.iter_mut().zip(rows.iter().zip(ordinals)) {
        *slot = answer(is_there(found));
    }
}

const fn answer(yes: bool) -> Answer {
    if yes { Answer::Yes } else { Answer::No }
}
