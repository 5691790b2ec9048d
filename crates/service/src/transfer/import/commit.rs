//! The outcome of a chunk: every row is counted once, refusals become rejects, failures end the import.

use entourage_model::{Code, Error, Key, Outcome, Reply, Result};

use super::{
    plan::{Plan, Step},
    row::{Reason, Reject},
    tally::{Done, Tally},
};
use crate::writer::unexpected;

/// What the rules say no to; anything else is trouble of the store, and the line may be fine. Of what is imported only
/// an id or a group that is being erased is in progress.
const REFUSALS: &[Code] = &[
    Code::SelfFollow,
    Code::SelfBlock,
    Code::UserNotFound,
    Code::ActorNotFound,
    Code::Blocked,
    Code::FollowingLimit,
    Code::QuietPrivate,
    Code::IdTaken,
    Code::RequestInProgress,
    Code::GroupNotFound,
    Code::GroupLimit,
    Code::InvalidRequest,
];

/// What is to be done about a chunk that is stored.
#[derive(Default)]
pub(super) struct Settled {
    /// In the order of the lines.
    pub(super) rejects: Vec<Reject>,
    /// Accounts that are private no longer.
    pub(super) opened: Vec<Key>,
}

/// Counts the chunk.
pub(super) fn settle(plan: Plan, results: Vec<Result<Outcome>>, tally: &mut Tally) -> Result<Settled> {
    let Plan { mut chunk, steps, done, mut opened, .. } = plan;
    if results.len() != steps.len() {
        return Err(Error::internal("the store answered another number of writes"));
    }
    tally.add(&done);
    let mut late = Vec::new();
    let (mut is_new, mut being_erased) = (false, false);
    for (step, result) in steps.into_iter().zip(results) {
        let reply = match result {
            Ok(outcome) => Ok(outcome.reply),
            Err(error) if REFUSALS.contains(&error.code()) => Err(error.code()),
            Err(error) => return Err(error),
        };
        let row = match step {
            Step::MergeUser(row) | Step::Row(row) => chunk.rows.get(row),
            Step::AddUser | Step::KeepUser | Step::DropSuggestion => None,
        };
        match (step, reply) {
            // What is over is passed by when it is read.
            (Step::DropSuggestion, _) => {}
            (Step::AddUser, Ok(Reply::User { created, .. })) => tally.users_added += u64::from(created),
            (Step::KeepUser, Ok(Reply::User { created, .. })) => is_new = created,
            // What needs the user is refused as well and says so.
            (Step::AddUser | Step::KeepUser, Err(code)) => {
                is_new = false;
                being_erased |= code == Code::RequestInProgress;
            }
            (Step::MergeUser(_) | Step::Row(_), Err(code)) => late.extend(row.map(|row| {
                chunk.reject(row, if being_erased { Reason::BeingErased } else { row.entry.refused(code) })
            })),
            (Step::MergeUser(_) | Step::Row(_), Ok(reply)) => {
                let done = match reply {
                    Reply::User { .. } if is_new => Done::Created,
                    Reply::Edge { created: true, .. } | Reply::Record { created: true, .. } => Done::Created,
                    Reply::User { changed, .. } | Reply::Edge { changed, .. } | Reply::Record { changed, .. } => {
                        if changed {
                            Done::Updated
                        } else {
                            Done::Unchanged
                        }
                    }
                    other => return Err(unexpected(&other)),
                };
                if let Some(row) = row {
                    tally.count(&row.entry, done);
                    opened.extend(row.entry.opens().filter(|_| done == Done::Updated));
                }
            }
            (_, Ok(reply)) => return Err(unexpected(&reply)),
        }
        being_erased &= matches!(step, Step::AddUser | Step::KeepUser);
    }
    chunk.rejects.append(&mut late);
    chunk.rejects.sort_by_key(|reject| reject.line);
    for reject in &chunk.rejects {
        tally.reject(reject.reason.as_str());
    }
    tally.lines += chunk.lines;
    Ok(Settled { rejects: chunk.rejects, opened })
}
