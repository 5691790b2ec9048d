//! Shows that random runs cover everything they are meant to compare.

use std::{collections::HashSet, sync::Arc};

use entourage_model::{Code, Event, Secret, Sequence};

use super::{Plan, run, straight_on};
use crate::conformance::block_on;
use entourage_memory as memory;
use entourage_store::{Identity, SystemClock};

#[test]
fn a_run_meets_every_refusal_and_every_event() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([5; 32]) };
    let store = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    let met = block_on(run(store, Plan::new(1, 20_000), straight_on)).unwrap_or_else(|failure| panic!("{failure}"));
    let refusals = [
        Code::SelfFollow,
        Code::SelfBlock,
        Code::UserNotFound,
        Code::ActorNotFound,
        Code::Blocked,
        Code::FollowingLimit,
        Code::QuietPrivate,
        Code::IdTaken,
        Code::IdempotencyMismatch,
        Code::NotFound,
        Code::FollowSuspended,
        Code::RequestInProgress,
        Code::GroupNotFound,
        Code::GroupLimit,
        Code::InvalidRequest,
        Code::CoolingDown,
        Code::ChallengeRequired,
        Code::RateLimited,
        Code::Fenced,
    ];
    assert_eq!(met.refusals, HashSet::from(refusals));
    let changes =
        met.outcomes.iter().flat_map(|outcome| outcome.changes.iter().map(|change| (outcome.version, change)));
    let names: HashSet<_> =
        changes.map(|(version, change)| Event::of(Sequence::ZERO, version, change).name()).collect();
    let expected = [
        "user.created",
        "user.updated",
        "user.suspended",
        "user.restored",
        "follow.created",
        "follow.removed",
        "follow.requested",
        "follow.cancelled",
        "follow.accepted",
        "follow.rejected",
        "follow.updated",
        "follow.parked",
        "block.created",
        "block.removed",
        "mute.created",
        "mute.updated",
        "mute.removed",
        "user.erased",
        "group.created",
        "group.updated",
        "group.removed",
        "group.member_added",
        "group.member_removed",
        "import.finished",
        "post.created",
        "post.updated",
        "post.deleted",
        "abuse.opened",
        "abuse.updated",
        "abuse.removed",
        "record.changed",
    ];
    assert_eq!(names, HashSet::from(expected));
    assert!(met.outcomes.iter().filter(|outcome| outcome.replayed).count() > 20, "retries are among the writes");
}
