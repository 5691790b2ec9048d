//! The newest follows of many users, as ordinals. Rows say whom somebody follows and not since when: one with no more
//! follows than are asked for is the answer as it stands, of longer ones the blocks tell.

use entourage_model::Key;
use entourage_store::NewestFollows;

use crate::state::{State, plane::StoredPlane};

/// How many lists are copied before the task yields: each is one wait for memory, and a copy.
pub(crate) const LISTS_A_UNIT: usize = 16;
/// How many users are looked at before it does.
pub(crate) const USERS_A_UNIT: usize = 128;

/// Adds the list of a user if their row is all of it; otherwise says no and adds nothing.
pub(crate) fn push_row(state: &State, user: Key, limit: usize, without: &[u32], found: &mut NewestFollows) -> bool {
    if let Some(ordinal) = state.ordinal_of_edges(user) {
        let shard = state.shard(ordinal).read();
        let (row, quiet) = (shard.row(StoredPlane::Follow, ordinal), shard.row(StoredPlane::Quiet, ordinal));
        if row.len().saturating_sub(quiet.len()) > limit {
            return false;
        }
        if quiet.is_empty() && without.is_empty() {
            found.extend(row.iter().copied());
        } else {
            let is_shown =
                |target: &u32| quiet.binary_search(target).is_err() && without.binary_search(target).is_err();
            found.extend(row.iter().copied().filter(is_shown));
        }
    }
    found.end_list();
    true
}

/// The ordinals of these, ascending.
pub(crate) fn ordinals(state: &State, keys: &[Key]) -> Vec<u32> {
    let mut ordinals: Vec<u32> = keys.iter().filter_map(|key| state.ordinal_of_edges(*key)).collect();
    ordinals.sort_unstable();
    ordinals
}

/// How many followers that are not quiet each has.
pub(crate) fn public_followers(state: &State, ordinals: &[u32], found: &mut Vec<u64>) {
    let followers = |ordinal: &u32| {
        let shard = state.shard(*ordinal).read();
        shard.user(*ordinal).map_or(0, |user| u64::from(user.follow.followers_total))
    };
    found.extend(ordinals.iter().map(followers));
}
