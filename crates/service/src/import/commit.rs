//! What came of a chunk: every row is counted once, refusals become rejects, failures end the import.

use entourage_model::{Code, Error, Key, Outcome, Reply, Result};

use super::{
    plan::{Plan, Step},
    row::{Entry, Reason, Reject},
    tally::Tally,
};
use crate::service::unexpected;

/// What the rules say no to; anything else is trouble of the store, and the line may be fine. A user can only be "in
/// progress" of being erased.
const REFUSALS: &[Code] = &[
    Code::RequestInProgress,
    Code::SelfFollow,
    Code::UserNotFound,
    Code::ActorNotFound,
    Code::Blocked,
    Code::FollowingLimit,
    Code::QuietPrivate,
    Code::IdTaken,
];

/// What is to be done about a chunk that is stored.
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
        match (step, reply) {
            (Step::AddUser, Ok(Reply::User { created, .. })) => tally.users_added += u64::from(created),
            (Step::Edge(_), Ok(Reply::Edge { created: true, .. })) => tally.edges_created += 1,
            (Step::Edge(_), Ok(Reply::Edge { created: false, .. })) => tally.edges_unchanged += 1,
            (Step::KeepUser, Ok(Reply::User { created, .. })) => is_new = created,
            (Step::MergeUser(_), Ok(Reply::User { .. })) if is_new => tally.users_created += 1,
            (Step::MergeUser(row), Ok(Reply::User { changed: true, .. })) => {
                tally.users_updated += 1;
                opened.extend(chunk.rows.get(row).and_then(|row| row.entry.opens()));
            }
            (Step::MergeUser(_), Ok(Reply::User { changed: false, .. })) => tally.users_unchanged += 1,
            (Step::Edge(row) | Step::MergeUser(row), Err(code)) => {
                let reason = if being_erased { Reason::BeingErased } else { Reason::Refused(code) };
                late.extend(chunk.rows.get(row).map(|row| chunk.reject(row, reason)));
            }
            // The edge that needs the user, or the merge, is refused as well and says so.
            (Step::AddUser | Step::KeepUser, Err(code)) => {
                is_new = false;
                being_erased |= code == Code::RequestInProgress;
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

impl Entry {
    /// The account that this may have made public.
    pub(super) fn opens(&self) -> Option<Key> {
        match self {
            Self::User { person, patch } if patch.private == Some(false) => Some(person.key),
            _ => None,
        }
    }
}
