//! Decides the erasure of a user: the record at once, the edges and then the posts a chunk at a time.

use smallvec::{SmallVec, smallvec};

use super::{View, posts};
use crate::{
    CHUNK_MAX, Cause, Change, Decision, Edge, EdgeChange, EdgeValue, Key, RecordChange, RecordId, Reply, Space, State,
    User, UserChange, Version,
};

pub(super) fn user(view: &impl View, key: Key, created: Option<Version>) -> Decision {
    let is_meant = |user: &User| created.is_none_or(|created| user.created == created);
    let Some(user) = view.user(key).filter(is_meant) else {
        return Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() };
    };
    let is_named = user.id.as_number() != Some(key.0);
    let value: Box<[u8]> = user.id.as_str().as_bytes().into();
    let gone = UserChange { key, existed: true, after: None, is_suspension: false, erased: Some(user.id) };
    let mut changes = smallvec![Change::User(gone)];
    let (owner, id) = (view.buckets().of(key), RecordId::of_key(key));
    // The server's record about them goes at once: it exists for users only.
    if let Some(record) = view.record(Space::Fanout, owner, &id) {
        let (space, id, before) = (Space::Fanout, id.clone(), Some(record.version));
        changes.push(Change::Record(RecordChange { space, owner, id, before, after: None }));
    }
    // Events name them by their key, which no longer leads to an id.
    if is_named {
        let before = view.record(Space::Erased, owner, &id).map(|record| record.version);
        changes.push(Change::Record(RecordChange { space: Space::Erased, owner, id, before, after: Some(value) }));
    }
    Decision { reply: Reply::Gone { changed: true }, changes }
}

/// Whether the key has no user and data of its last user remains.
pub(super) fn is_unfinished(view: &impl View, key: Key) -> bool {
    !view.user_exists(key) && (!view.edges_of(key, 1).is_empty() || posts::are_left(view, key))
}

pub(super) fn edges(view: &impl View, key: Key, limit: usize, version: Version) -> Decision {
    // The id may have a new owner by now: a late repetition must not touch them.
    if view.user_exists(key) {
        return Decision { reply: Reply::EdgesErased { removed: 0, left: false }, changes: SmallVec::new() };
    }
    let limit = limit.min(CHUNK_MAX);
    let found = view.edges_of(key, limit + 1);
    if found.is_empty() {
        return erase_posts(view, key, limit);
    }
    // A mute that ends has a second record, as each post has.
    let limit = if found.iter().any(|edge| edge.value.expires.is_some()) { limit.div_ceil(2) } else { limit };
    let mut changes: SmallVec<[Change; 1]> = found.iter().take(limit).map(|edge| removal(edge, version)).collect();
    let (removed, left) = (changes.len() as u32, found.len() > limit || posts::are_left(view, key));
    changes.extend(ended(view, key, left));
    Decision { reply: Reply::EdgesErased { removed, left }, changes }
}

/// Each post has a second record, so half as many make a commit of the same size.
fn erase_posts(view: &impl View, key: Key, limit: usize) -> Decision {
    let limit = limit.div_ceil(2);
    let found = view.records(Space::Post, key, &[], limit + 1);
    let going = found.iter().take(limit);
    // The external ids went with the author.
    let mut changes: SmallVec<[Change; 1]> =
        going.flat_map(|(id, known)| posts::removal(view.buckets(), key, id, *known, None)).collect();
    let (removed, left) = (found.len().min(limit) as u32, found.len() > limit);
    if removed > 0 {
        changes.extend(ended(view, key, left));
    }
    Decision { reply: Reply::EdgesErased { removed, left }, changes }
}

/// The last chunk writes the id again: from now on it is kept as long as the events of this commit.
fn ended(view: &impl View, key: Key, left: bool) -> Option<Change> {
    let (space, owner, id) = (Space::Erased, view.buckets().of(key), RecordId::of_key(key));
    let record = view.record(space, owner, &id).filter(|_| !left)?;
    Some(Change::Record(RecordChange { space, owner, id, before: Some(record.version), after: Some(record.value) }))
}

fn removal(edge: &Edge, version: Version) -> Change {
    let Edge { kind, follower, target, value: before } = *edge;
    let after = EdgeValue { state: State::Removed, version, ..before };
    Change::Edge(EdgeChange { kind, follower, target, cause: Cause::Erase, before: Some(before), after })
}
