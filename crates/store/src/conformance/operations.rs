//! Operations in one word each.

use entourage_model::{IdempotencyKey, Key, Millis, Operation, UserPatch, Version, Write};

pub(super) fn follow(follower: Key, target: Key) -> Operation {
    Operation::Follow { follower, target, quiet: false, cap: None }
}

pub(super) fn follow_quietly(follower: Key, target: Key) -> Operation {
    Operation::Follow { follower, target, quiet: true, cap: None }
}

pub(super) fn follow_within(follower: Key, target: Key, cap: u64) -> Operation {
    Operation::Follow { follower, target, quiet: false, cap: Some(cap) }
}

pub(super) fn unfollow(follower: Key, target: Key) -> Operation {
    Operation::Unfollow { follower, target }
}

pub(super) fn remove_follower(target: Key, follower: Key) -> Operation {
    Operation::RemoveFollower { target, follower }
}

pub(super) fn accept(target: Key, follower: Key) -> Operation {
    Operation::Accept { target, follower }
}

pub(super) fn reject(target: Key, follower: Key) -> Operation {
    Operation::Reject { target, follower }
}

pub(super) fn block(actor: Key, target: Key) -> Operation {
    Operation::Block { actor, target }
}

pub(super) fn unblock(actor: Key, target: Key) -> Operation {
    Operation::Unblock { actor, target }
}

pub(super) fn mute(actor: Key, target: Key) -> Operation {
    Operation::Mute { actor, target }
}

pub(super) fn unmute(actor: Key, target: Key) -> Operation {
    Operation::Unmute { actor, target }
}

pub(super) fn import(follower: Key, target: Key, at: Millis) -> Operation {
    Operation::Import { follower, target, at, quiet: false }
}

pub(super) fn privacy(private: bool) -> UserPatch {
    UserPatch { private: Some(private), ..UserPatch::default() }
}

pub(super) fn keyed(operation: Operation, idempotency: IdempotencyKey) -> Write {
    Write { idempotency: Some(idempotency), ..Write::from(operation) }
}

pub(super) fn above(operation: Operation, floor: Version) -> Write {
    Write { floor, ..Write::from(operation) }
}
