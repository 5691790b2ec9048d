//! Where things live: the home of a key, and the user in whose home a write is decided.

use entourage_model::{Key, Operation, RecordId, Space};
use xxhash_rust::xxh3::xxh3_64;

pub(super) fn home_of(key: Key, homes: usize) -> usize {
    (xxh3_64(&key.0.to_be_bytes()) % homes.max(1) as u64) as usize
}

/// The user whose edge or whose things it changes.
pub(super) fn decided_at(operation: &Operation) -> Key {
    match *operation {
        // The edge is the follower's.
        Operation::RemoveFollower { follower, .. }
        | Operation::Accept { follower, .. }
        | Operation::Reject { follower, .. } => follower,
        Operation::PutRecord { space, owner: Key::SERVER, ref id, .. } => of_server(space, id).unwrap_or(Key::SERVER),
        ref other => other.parties().0,
    }
}

/// With whom a record of the server's lives that is about one user.
pub(super) fn of_server(space: Space, id: &RecordId) -> Option<Key> {
    match space {
        Space::Fanout | Space::Erased => id.key(),
        Space::Job => id.mute_end().map(|(_, actor, _)| actor),
        _ => None,
    }
}
