//! One write within the limits, from before its commit to after it.

use std::sync::Arc;

use entourage_model::{Code, Error, Key, Operation, Outcome, Reply, Result, Write};

use super::{Limiter, quota::Quota, too_fast};

/// What the limits have to do with a write that is under way.
pub(crate) enum Limited {
    /// Nothing.
    Free,
    /// A follow, with what its target's quota holds for it.
    Follow(Arc<Limiter>, Option<Admission>),
    /// A follow over its target's quota. It is still decided, with room for no new edge: what is there already, what is
    /// replayed and what is wrong for another reason has nothing to do with limits.
    Over(Arc<Limiter>, Error),
}

impl Limiter {
    /// A solved challenge counts for the follower who proved it. Quiet follows do not count for their target: others
    /// would learn of them by being refused.
    pub(crate) fn begin(self: &Arc<Self>, write: &mut Write, has_proof: impl FnOnce(Key) -> bool) -> Limited {
        let Operation::Follow { follower, target, quiet, cap, .. } = &mut write.operation else { return Limited::Free };
        write.limits = self.follow_limits(has_proof(*follower));
        let Some(targets) = self.targets.of(*target).filter(|_| *quiet != Some(true)) else {
            return Limited::Follow(Arc::clone(self), None);
        };
        match targets.hold(target) {
            Ok(()) => {
                let admission = Admission { quota: targets, target: *target, open: true };
                Limited::Follow(Arc::clone(self), Some(admission))
            }
            Err(wait) => {
                *cap = Some(0);
                Limited::Over(Arc::clone(self), too_fast("this user is being followed too fast", wait))
            }
        }
    }
}

/// The outcome of what was held for a follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing was held, or it was used.
    Done,
    /// No new edge came of it, so that there is room for another one.
    Released,
    /// There was no room for it.
    Refused,
}

impl Limited {
    pub(crate) fn end_with_hold(self, result: Result<Outcome>) -> (Result<Outcome>, Hold) {
        let hold = match &self {
            Self::Over(..) if is_full(&result) => Hold::Refused,
            Self::Follow(_, Some(_)) if !is_new(&result) => Hold::Released,
            _ => Hold::Done,
        };
        (self.end(result), hold)
    }

    /// Counts the outcome of the write.
    pub(crate) fn end(self, result: Result<Outcome>) -> Result<Outcome> {
        match self {
            Self::Free => result,
            Self::Follow(limiter, admission) => {
                limiter.refusals.count(&result);
                if let Some(admission) = admission {
                    admission.settle(is_new(&result));
                }
                result
            }
            Self::Over(_, over) if is_full(&result) => Err(over),
            Self::Over(limiter, _) => {
                limiter.refusals.count(&result);
                result
            }
        }
    }
}

/// Whether a new edge was made.
fn is_new(result: &Result<Outcome>) -> bool {
    let is_new = |outcome: &Outcome| !outcome.replayed && matches!(outcome.reply, Reply::Edge { created: true, .. });
    result.as_ref().is_ok_and(is_new)
}

fn is_full(result: &Result<Outcome>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Code::FollowingLimit)
}

/// A follow under way, held back so that those which run at the same time together stay within the quota of their
/// target. One whose end nobody saw may have happened and is counted.
pub(crate) struct Admission {
    quota: Arc<Quota<Key>>,
    target: Key,
    open: bool,
}

impl Admission {
    /// Only what made a new edge counts.
    fn settle(mut self, counts: bool) {
        self.close(counts);
    }

    fn close(&mut self, counts: bool) {
        self.open = false;
        self.quota.settle(&self.target, counts);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.open {
            self.close(true);
        }
    }
}
