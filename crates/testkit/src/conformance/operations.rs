//! Short constructors of operations.

use entourage_model::{
    Condition, ExternalId, FollowLimits, IdempotencyKey, Key, Millis, Operation, Post, RecordId, Space, UserPatch,
    Version, Write,
};

pub(super) fn follow(follower: Key, target: Key) -> Operation {
    Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false }
}

pub(super) fn follow_quietly(follower: Key, target: Key) -> Operation {
    Operation::Follow { follower, target, quiet: Some(true), cap: None, park: false }
}

pub(super) fn follow_within(follower: Key, target: Key, cap: u64) -> Operation {
    Operation::Follow { follower, target, quiet: Some(false), cap: Some(cap), park: false }
}

pub(super) fn follow_parked(follower: Key, target: Key) -> Operation {
    Operation::Follow { follower, target, quiet: None, cap: None, park: true }
}

pub(super) fn release(target: Key, follower: Key, accept: bool) -> Operation {
    Operation::Release { target, follower, accept }
}

pub(super) fn unfollow(follower: Key, target: Key) -> Operation {
    Operation::Unfollow { follower, target }
}

pub(super) fn remove_follower(target: Key, follower: Key) -> Operation {
    Operation::RemoveFollower { target, follower, sees_quiet: true }
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
    Operation::Mute { actor, target, expires_at: None }
}

pub(super) fn mute_until(actor: Key, target: Key, time: Millis) -> Operation {
    Operation::Mute { actor, target, expires_at: Some(time) }
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

pub(super) fn id(bytes: &[u8]) -> RecordId {
    RecordId::new(bytes).expect("the id is valid")
}

pub(super) fn put_record(space: Space, owner: Key, name: &[u8], value: &[u8]) -> Operation {
    put_record_if(space, owner, name, Some(value), Condition::Any)
}

pub(super) fn put_record_if(
    space: Space,
    owner: Key,
    name: &[u8],
    value: Option<&[u8]>,
    condition: Condition,
) -> Operation {
    Operation::PutRecord { space, owner, id: id(name), value: value.map(Into::into), condition, cap: None }
}

pub(super) fn remove_record(space: Space, owner: Key, name: &[u8]) -> Operation {
    put_record_if(space, owner, name, None, Condition::Any)
}

pub(super) fn member(owner: Key, group: &[u8], member: Key, present: bool) -> Operation {
    Operation::GroupMember { owner, group: id(group), member, present }
}

pub(super) fn post(author: Key, value: &[u8]) -> Operation {
    Operation::Post { author, value: value.into() }
}

pub(super) fn named_post(author: Key, name: &str, body: &str) -> Operation {
    let external_id = Some(ExternalId::new(name).expect("the id is valid"));
    Operation::Post { author, value: Post { external_id, ..Post::new(false, body) }.encode() }
}

pub(super) fn import_post(author: Key, at: Millis, value: &[u8]) -> Operation {
    Operation::ImportPost { author, at, id: None, value: value.into() }
}

pub(super) fn fan_out(server: Key, author: Key, value: Option<&[u8]>) -> Operation {
    let id = RecordId::of_key(author);
    put_record_if(Space::Fanout, server, id.as_bytes(), value, Condition::Any)
}

pub(super) fn suspend(key: Key, suspended: bool) -> Operation {
    Operation::Suspend { key, suspended }
}

pub(super) fn erase(key: Key) -> Operation {
    Operation::Erase { key, created: None }
}

pub(super) fn erase_edges(key: Key, limit: usize) -> Operation {
    Operation::EraseEdges { key, limit }
}

pub(super) fn keyed(operation: Operation, idempotency: IdempotencyKey) -> Write {
    Write { idempotency: Some(idempotency), ..Write::from(operation) }
}

pub(super) fn limited(operation: Operation, limits: FollowLimits) -> Write {
    Write { limits: Some(limits), ..Write::from(operation) }
}

pub(super) fn above(operation: Operation, floor: Version) -> Write {
    Write { floor, ..Write::from(operation) }
}
