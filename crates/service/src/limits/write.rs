//! One write within the limits, from before its commit to after it. Every door that commits goes through here.

use std::sync::Arc;

use entourage_model::{Code, Error, Key, Operation, Outcome, Reply, Result};

use super::{Admission, Limiter};

/// What the limits have to do with a write that is under way.
pub(crate) enum Limited {
    /// Nothing.
    Free,
    Follow(Admission),
    /// A follow over a limit. It is still decided, with room for no new edge: what is there already, what is replayed
    /// and what is wrong for another reason has nothing to do with limits.
    Over(Error),
}

impl Limiter {
    pub(crate) fn begin(self: &Arc<Self>, operation: &mut Operation, has_proof: impl FnOnce(Key) -> bool) -> Limited {
        match operation {
            Operation::Follow { follower, target, quiet, cap } => {
                match self.admit(*follower, *target, *quiet == Some(true), has_proof(*follower)) {
                    Ok(admission) => Limited::Follow(admission),
                    Err(error) => {
                        *cap = Some(0);
                        Limited::Over(error)
                    }
                }
            }
            _ => Limited::Free,
        }
    }
}

/// What became of what was held for a follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing was held, or it was used.
    Done,
    /// It came to nothing, so that there is room for another one.
    GivenBack,
    /// There was no room for it.
    Refused,
}

impl Limited {
    pub(crate) fn end_with_hold(self, result: Result<Outcome>) -> (Result<Outcome>, Hold) {
        let is_held = matches!(self, Self::Follow(_));
        // Who flips an edge too often waits, whatever the others do.
        let is_over = matches!(&self, Self::Over(over) if over.code() != Code::CoolingDown);
        let is_refused = is_over && is_full(&result);
        let is_new =
            |outcome: &Outcome| !outcome.replayed && matches!(outcome.reply, Reply::Edge { created: true, .. });
        let hold = match &result {
            _ if is_refused => Hold::Refused,
            Ok(outcome) if is_held && is_new(outcome) => Hold::Done,
            _ if is_held => Hold::GivenBack,
            _ => Hold::Done,
        };
        (self.end(result), hold)
    }

    /// Counts what came of the write.
    pub(crate) fn end(self, result: Result<Outcome>) -> Result<Outcome> {
        let fresh = result.as_ref().ok().filter(|outcome| !outcome.replayed).map(|outcome| outcome.reply);
        match (self, fresh) {
            (Self::Follow(admission), reply) => {
                admission.settle(matches!(reply, Some(Reply::Edge { created: true, .. })));
                result
            }
            (Self::Over(over), None) if is_full(&result) => Err(over),
            _ => result,
        }
    }
}

fn is_full(result: &Result<Outcome>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Code::FollowingLimit)
}
