//! Decides on the end of a user: the record at once, the edges a chunk at a time.

use smallvec::{SmallVec, smallvec};

use super::View;
use crate::{CHUNK_MAX, Cause, Change, Decision, Edge, EdgeChange, EdgeValue, Key, Reply, State, UserChange, Version};

pub(super) fn user(view: &impl View, key: Key, created: Option<Version>) -> Decision {
    let is_meant = match created {
        Some(created) => view.user(key).is_some_and(|user| user.created == created),
        None => view.user_exists(key),
    };
    if !is_meant {
        return Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() };
    }
    let change = Change::User(UserChange { key, existed: true, after: None });
    Decision { reply: Reply::Gone { changed: true }, changes: smallvec![change] }
}

pub(super) fn edges(view: &impl View, key: Key, limit: usize, version: Version) -> Decision {
    // Whoever has the id by now is somebody else: a late repetition must not touch them.
    if view.user_exists(key) {
        return Decision { reply: Reply::EdgesErased { removed: 0, left: false }, changes: SmallVec::new() };
    }
    let limit = limit.min(CHUNK_MAX);
    let found = view.edges_of(key, limit + 1);
    let changes: SmallVec<[Change; 1]> = found.iter().take(limit).map(|edge| removal(edge, version)).collect();
    let (removed, left) = (changes.len() as u32, found.len() > limit);
    Decision { reply: Reply::EdgesErased { removed, left }, changes }
}

fn removal(edge: &Edge, version: Version) -> Change {
    let Edge { kind, follower, target, value: before } = *edge;
    let after = EdgeValue { state: State::Removed, version, ..before };
    Change::Edge(EdgeChange { kind, follower, target, cause: Cause::Erase, before: Some(before), after })
}
