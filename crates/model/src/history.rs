//! What is left of a follow that ended, for as long as history is kept.

use crate::{Cause, EdgeChange, Key, Kind, Position, State, Version};

/// A follow, or a request for one, that is over; told to its follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    pub target: Key,
    /// What it was until then: `Pending` for a request that was rejected or cancelled.
    pub state: State,
    pub quiet: bool,
    pub accepted: bool,
    /// When it became active (for a request: when it was asked for).
    pub position: Position,
    /// When it ended. No two of one follower end at one version.
    pub ended: Version,
    pub cause: Cause,
}

impl Ended {
    /// What a change leaves behind, if it ends a follow.
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
