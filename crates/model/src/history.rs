//! What remains of an ended follow, for as long as history is kept.

use crate::{Cause, EdgeChange, Key, Kind, Position, State, Version};

/// An ended follow or request, visible to its follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    pub target: Key,
    /// Its last state: `Pending` for a request that was rejected or cancelled.
    pub state: State,
    pub quiet: bool,
    pub accepted: bool,
    /// When it became active (for a request: when it was made).
    pub position: Position,
    /// When it ended. No two of one follower end at one version.
    pub ended: Version,
    pub cause: Cause,
}

impl Ended {
    /// The history entry of a change, if it ends a follow.
    pub fn of(change: &EdgeChange) -> Option<Self> {
        let before = change.before?;
        let ends = change.kind == Kind::Follow && before.is_live() && !change.after.is_live();
        ends.then_some(Self {
            target: change.target,
            state: before.state,
            quiet: before.quiet,
            accepted: before.accepted,
            position: before.position,
            ended: change.after.version,
            cause: change.cause,
        })
    }
}
