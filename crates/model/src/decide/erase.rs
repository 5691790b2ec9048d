//! Decides on the end of a user: the record at once, the edges and then the posts a chunk at a time.

use smallvec::{SmallVec, smallvec};

use super::{View, posts};
use crate::{
    CHUNK_MAX, Cause, Change, Decision, Edge, EdgeChange, EdgeValue, Key, RecordChange, RecordId, Reply, Space, State,
    UserChange, Version,
};

pub(super) fn user(view: &impl View, key: Key, created: Option<Version>) -> Decision {
    let is_meant = match created {
        Some(created) => view.user(key).is_some_and(|user| user.created == created),
        None => view.user_exists(key),
    };
    if !is_meant {
        return Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() };
    }
    let mut changes = smallvec![Change::User(UserChange { key, existed: true, after: None })];
    // The server's own record of them goes at once: none is written of whoever is no user.
    let (space, owner, id) = (Space::Fanout, Key::SERVER, RecordId::of_key(key));
    if let Some(record) = view.record(space, owner, &id) {
        changes.push(Change::Record(RecordChange { space, owner, id, before: Some(record.version), after: None }));
    }
    Decision { reply: Reply::Gone { changed: true }, changes }
}

pub(super) fn edges(view: &impl View, key: Key, limit: usize, version: Version) -> Decision {
    // Whoever has the id by now is somebody else: a late repetition must not touch them.
    if view.user_exists(key) {
        return Decision { reply: Reply::EdgesErased { removed: 0, left: false }, changes: SmallVec::new() };
    }
    let limit = limit.min(CHUNK_MAX);
    let found = view.edges_of(key, limit + 1);
    if found.is_empty() {
        return erase_posts(view, key, limit);
    }
    let changes: SmallVec<[Change; 1]> = found.iter().take(limit).map(|edge| removal(edge, version)).collect();
    let (removed, left) = (changes.len() as u32, found.len() > limit || posts::are_left(view, key));
    Decision { reply: Reply::EdgesErased { removed, left }, changes }
}

/// With each post goes another record, so half as many make as large a commit.
fn erase_posts(view: &impl View, key: Key, limit: usize) -> Decision {
    let limit = limit.div_ceil(2);
    let found = view.records(Space::Post, key, &[], limit + 1);
    let going = found.iter().take(limit);
    let changes = going.flat_map(|(id, known)| posts::removal(key, id, *known)).collect();
    let (removed, left) = (found.len().min(limit) as u32, found.len() > limit);
    Decision { reply: Reply::EdgesErased { removed, left }, changes }
}

fn removal(edge: &Edge, version: Version) -> Change {
    let Edge { kind, follower, target, value: before } = *edge;
    let after = EdgeValue { state: State::Removed, version, ..before };
    Change::Edge(EdgeChange { kind, follower, target, cause: Cause::Erase, before: Some(before), after })
}
