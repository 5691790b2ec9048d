//! Counts without a hot row: where many change at once, commits insert deltas, and now and then one folds them.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use entourage_model::{Change, EdgeChange, EdgeValue, Key, Plane, Side};
use tokio_postgres::{Client, Statement};

use super::{
    Engine,
    error::{Failure, answering},
    lock::Name,
    statements::Statements,
};

/// After how many deltas of this process one of its commits folds, and how many a fold takes at most.
const FOLD_AFTER: u64 = 1_000;
const FOLD_AT_MOST: i64 = 20_000;
/// A count of followers that this many edges of one batch change is hot. What one user follows changes by that user's
/// own writes, which wait for each other anyway.
const HOT_EDGES: u32 = 4;

/// Rows are locked in the order of their keys, by folds as well: two commits never wait for each other in a circle.
pub(super) const PUT: &str = "INSERT INTO counts (user_key, plane, side, total, quiet) \
     SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[]) \
     ON CONFLICT (user_key, plane, side) DO UPDATE SET total = counts.total + excluded.total, \
     quiet = counts.quiet + excluded.quiet";
pub(super) const PUT_DELTAS: &str = "INSERT INTO count_deltas (user_key, plane, side, total, quiet) \
     SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[])";
/// The oldest deltas, up to one id: a plan made while there were none would compare every two of them to find those of a list.
const FOLD: &str = "WITH gone AS (\
         DELETE FROM count_deltas \
         WHERE id <= (SELECT max(id) FROM (SELECT id FROM count_deltas ORDER BY id LIMIT $1) AS oldest) \
         RETURNING user_key, plane, side, total, quiet) \
     INSERT INTO counts (user_key, plane, side, total, quiet) \
     SELECT user_key, plane, side, sum(total), sum(quiet) FROM gone GROUP BY user_key, plane, side \
     ORDER BY user_key, plane, side ON CONFLICT (user_key, plane, side) DO UPDATE SET total = counts.total + excluded.total, \
     quiet = counts.quiet + excluded.quiet";

/// The changes of one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delta {
    user: Key,
    plane: Plane,
    side: Side,
    total: i64,
    quiet: i64,
    /// How many edges they come from.
    edges: u32,
}

impl Delta {
    /// Whether others are likely to write the same count at this moment.
    fn is_hot(&self) -> bool {
        self.side == Side::Followers && self.edges >= HOT_EDGES
    }
}

type Sums = BTreeMap<(Key, Plane, Side), (i64, i64, u32)>;

/// The changes to the lists of both ends, in the order of their keys.
pub(super) fn deltas<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Vec<Delta> {
    let mut sums = Sums::new();
    for change in changes {
        let Change::Edge(edge) = change else { continue };
        for (value, sign) in edge.before.map(|before| (before, -1)).into_iter().chain([(edge.after, 1)]) {
            add(&mut sums, edge, value, sign);
        }
    }
    sums.into_iter()
        .filter(|&(_, (total, quiet, _))| (total, quiet) != (0, 0))
        .map(|((user, plane, side), (total, quiet, edges))| Delta { user, plane, side, total, quiet, edges })
        .collect()
}

fn add(sums: &mut Sums, edge: &EdgeChange, value: EdgeValue, sign: i64) {
    let Some(plane) = Plane::of(edge.kind, value.state) else { return };
    for (user, side) in [(edge.follower, Side::Following), (edge.target, Side::Followers)] {
        let (total, quiet, edges) = sums.entry((user, plane, side)).or_default();
        *total += sign;
        *quiet += sign * i64::from(value.quiet);
        *edges += 1;
    }
}

/// Counts of hot lists get deltas, which nobody waits for; the others are changed in place, which costs less.
pub(super) async fn put(client: &Client, statements: &Statements, deltas: &[Delta]) -> Result<(), Failure> {
    let (hot, cold): (Vec<Delta>, Vec<Delta>) = deltas.iter().partition(|delta| delta.is_hot());
    let done =
        tokio::join!(put_into(client, &statements.put_counts, &cold), put_into(client, &statements.put_deltas, &hot),);
    match done {
        (Ok(()), Ok(())) => Ok(()),
        (a, b) => Err(Failure::cause([a.err(), b.err()])),
    }
}

pub(super) fn hot(deltas: &[Delta]) -> u64 {
    deltas.iter().filter(|delta| delta.is_hot()).count() as u64
}

async fn put_into(client: &Client, statement: &Statement, deltas: &[Delta]) -> Result<(), Failure> {
    if deltas.is_empty() {
        return Ok(());
    }
    let users: Vec<i64> = deltas.iter().map(|delta| delta.user.0).collect();
    let planes: Vec<i16> = deltas.iter().map(|delta| delta.plane as i16).collect();
    let sides: Vec<i16> = deltas.iter().map(|delta| delta.side as i16).collect();
    let totals: Vec<i64> = deltas.iter().map(|delta| delta.total).collect();
    let quiet: Vec<i64> = deltas.iter().map(|delta| delta.quiet).collect();
    client.execute(statement, &[&users, &planes, &sides, &totals, &quiet]).await?;
    Ok(())
}

impl Engine {
    /// Called after a commit: the caller that finds enough of them does the work. A failure costs only speed.
    pub(super) async fn fold_sometimes(&self) {
        let unfolded = self.unfolded.load(Ordering::Relaxed);
        if unfolded >= FOLD_AFTER
            && self.unfolded.compare_exchange(unfolded, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.fold_or_warn().await;
        }
    }

    pub(super) async fn fold_or_warn(&self) {
        if let Err(failure) = answering(self.breaker.guard(self.fold())).await {
            tracing::warn!(error = %failure.error, "counts were not folded");
        }
    }

    /// Moves deltas into the counts; a second caller skips it.
    async fn fold(&self) -> Result<(), Failure> {
        self.refuse_when_schema_is_newer()?;
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let statement = transaction.prepare_cached("SELECT pg_try_advisory_xact_lock($1)").await?;
        let alone: bool = transaction.query_one(&statement, &[&self.locks.number(Name::Fold)]).await?.get(0);
        if !alone {
            return Ok(());
        }
        let statement = transaction.prepare_cached(FOLD).await?;
        transaction.execute(&statement, &[&FOLD_AT_MOST]).await?;
        transaction.commit().await.map_err(Failure::of_commit)
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{Cause, Kind, State, Version};

    use super::*;

    fn value(state: State, quiet: bool) -> EdgeValue {
        EdgeValue { state, quiet, ..EdgeValue::active(Version::ZERO) }
    }

    fn change(before: Option<EdgeValue>, after: EdgeValue) -> Change {
        let (kind, follower, target, cause) = (Kind::Follow, Key(1), Key(2), Cause::Follower);
        Change::Edge(EdgeChange { kind, follower, target, cause, before, after })
    }

    fn both(plane: Plane, total: i64, quiet: i64, edges: u32) -> [Delta; 2] {
        [(Key(1), Side::Following), (Key(2), Side::Followers)].map(|(user, side)| Delta {
            user,
            plane,
            side,
            total,
            quiet,
            edges,
        })
    }

    #[test]
    fn every_transition_moves_both_ends() {
        let active = value(State::Active, false);
        let quiet = value(State::Active, true);
        let pending = value(State::Pending, false);
        let removed = value(State::Removed, true);
        let [out, inn] = both(Plane::Follow, 1, 0, 1);
        let [asked, got] = both(Plane::Request, -1, 0, 1);
        let cases: [(Option<EdgeValue>, EdgeValue, Vec<Delta>); 5] = [
            (None, active, both(Plane::Follow, 1, 0, 1).to_vec()),
            (Some(active), quiet, both(Plane::Follow, 0, 1, 2).to_vec()),
            (Some(quiet), removed, both(Plane::Follow, -1, -1, 1).to_vec()),
            (Some(pending), active, vec![out, asked, inn, got]),
            (Some(pending), removed, both(Plane::Request, -1, 0, 1).to_vec()),
        ];
        for (before, after, expected) in cases {
            assert_eq!(deltas(&[change(before, after)]), expected, "{before:?} {after:?}");
        }
    }
}
