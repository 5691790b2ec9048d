//! One write within the limits, from before its commit to after it. Every door that commits goes through here.

use entourage_model::{Code, Error, Key, Operation, Outcome, Reply, Result};

use super::{Admission, Limiter};

/// What the limits have to do with a write that is under way.
pub(crate) enum Limited<'a> {
    /// Nothing.
    Free,
    Follow(Admission<'a>),
    /// A follow over a limit. It is still decided, with room for no new edge: what is there already, what is replayed
    /// and what is wrong for another reason has nothing to do with limits.
    Over(Error),
    Unfollow(&'a Limiter, Key, Key),
}

impl Limiter {
    pub(crate) fn begin(&self, operation: &mut Operation, has_proof: impl FnOnce(Key) -> bool) -> Limited<'_> {
        match operation {
            Operation::Follow { follower, target, cap, .. } => {
                match self.admit(*follower, *target, has_proof(*follower)) {
                    Ok(admission) => Limited::Follow(admission),
                    Err(error) => {
                        *cap = Some(0);
                        Limited::Over(error)
                    }
                }
            }
            Operation::Unfollow { follower, target } => Limited::Unfollow(self, *follower, *target),
            _ => Limited::Free,
        }
    }
}

impl Limited<'_> {
    /// Counts what came of the write.
    pub(crate) fn end(self, result: Result<Outcome>) -> Result<Outcome> {
        let fresh = result.as_ref().ok().filter(|outcome| !outcome.replayed).map(|outcome| outcome.reply);
        match (self, fresh) {
            (Self::Follow(admission), reply) => {
                admission.settle(matches!(reply, Some(Reply::Edge { created: true, .. })));
                result
            }
            (Self::Over(over), None) if is_full(&result) => Err(over),
            (Self::Unfollow(limiter, follower, target), Some(Reply::Gone { changed: true })) => {
                limiter.count_flip(follower, target);
                result
            }
            _ => result,
        }
    }
}

fn is_full(result: &Result<Outcome>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Code::FollowingLimit)
}
