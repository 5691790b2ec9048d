//! What came of a chunk: every row is counted once, refusals become rejects, failures end the import.

use entourage_model::{Code, Error, Outcome, Reply, Result};

use super::{
    plan::{Plan, Step},
    row::{Reason, Reject},
    tally::Tally,
};
use crate::service::unexpected;

/// What the rules say no to; anything else is trouble of the store, and the line may be fine.
const REFUSALS: &[Code] = &[
    Code::SelfFollow,
    Code::UserNotFound,
    Code::ActorNotFound,
    Code::Blocked,
    Code::FollowingLimit,
    Code::QuietPrivate,
    Code::IdTaken,
];

/// Counts the chunk; its rejects in the order of the lines.
pub(super) fn settle(plan: Plan, results: Vec<Result<Outcome>>, tally: &mut Tally) -> Result<Vec<Reject>> {
    let Plan { mut chunk, steps, done, .. } = plan;
    if results.len() != steps.len() {
        return Err(Error::internal("the store answered another number of writes"));
    }
    tally.add(&done);
    let mut late = Vec::new();
    let mut is_new = false;
    for (step, result) in steps.into_iter().zip(results) {
        let reply = match result {
            Ok(outcome) => Ok(outcome.reply),
            Err(error) if REFUSALS.contains(&error.code()) => Err(error.code()),
            Err(error) => return Err(error),
        };
        match (step, reply) {
            (Step::AddUser, Ok(Reply::User { created, .. })) => tally.users_added += u64::from(created),
            (Step::Edge(_), Ok(Reply::Edge { created: true, .. })) => tally.edges_created += 1,
            (Step::Edge(_), Ok(Reply::Edge { created: false, .. })) => tally.edges_unchanged += 1,
            (Step::KeepUser, Ok(Reply::User { created, .. })) => is_new = created,
            (Step::MergeUser(_), Ok(Reply::User { .. })) if is_new => tally.users_created += 1,
            (Step::MergeUser(_), Ok(Reply::User { changed: true, .. })) => tally.users_updated += 1,
            (Step::MergeUser(_), Ok(Reply::User { changed: false, .. })) => tally.users_unchanged += 1,
            (Step::Edge(row) | Step::MergeUser(row), Err(code)) => {
                late.extend(chunk.rows.get(row).map(|row| chunk.reject(row, Reason::Refused(code))));
            }
            // The edge that needs the user, or the merge, is refused as well and says so.
            (Step::AddUser | Step::KeepUser, Err(_)) => is_new = false,
            (_, Ok(reply)) => return Err(unexpected(&reply)),
        }
    }
    chunk.rejects.append(&mut late);
    chunk.rejects.sort_by_key(|reject| reject.line);
    for reject in &chunk.rejects {
        tally.reject(reject.reason.as_str());
    }
    let users = tally.users_created + tally.users_updated + tally.users_unchanged;
    tally.lines = tally.edges_created + tally.edges_unchanged + users + tally.rejected;
    Ok(chunk.rejects)
}
