//! Whom two users both follow: the intersection of their rows.

use entourage_model::Key;

use crate::state::{State, plane::StoredPlane};
use entourage_store::adjacency::intersect;

/// Appends up to `limit` keys that both have active follows to, without erased users.
pub(crate) fn common_following(state: &State, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) {
    let (Some(one), Some(other)) = (state.ordinal(one), state.ordinal(other)) else { return };
    let mut ordinals = Vec::new();
    {
        // Recursive: both may be in one shard, where a waiting writer would block the second lock.
        let (first, second) = (state.shard(one).read_recursive(), state.shard(other).read_recursive());
        let rows = (first.lists(StoredPlane::Follow, one), second.lists(StoredPlane::Follow, other));
        if let (Some(one), Some(other)) = rows {
            intersect(&one.row, &other.row, &mut ordinals);
        }
    }
    let nobody_is_erased = state.erased().is_empty();
    let keys = state.keys();
    let known = |ordinal: u32| keys.get(ordinal as usize).map(|key| (ordinal, *key));
    let is_there = |&(ordinal, key): &(u32, Key)| nobody_is_erased || state.ordinal(key) == Some(ordinal);
    found.extend(ordinals.into_iter().filter_map(known).filter(is_there).map(|(_, key)| key).take(limit));
}
