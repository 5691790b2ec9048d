//! `limits.following_max` for imports that ask for it. Exact while nobody else writes.

use std::collections::HashSet;

use entourage_model::{Key, Kind, Result};
use entourage_store::StoreExt as _;
use hashbrown::HashMap;

use super::row::Row;
use crate::Context;

/// The rows, by their place, that would bring their follower over the cap. `creates_users`: missing ones will be there.
pub(super) async fn over(context: &Context, rows: &[Row], cap: u64, creates_users: bool) -> Result<HashSet<usize>> {
    let edges = rows.iter().enumerate().filter_map(|(index, row)| Some((index, row.entry.follow()?)));
    let edges: Vec<(usize, (Key, Key))> = edges.collect();
    let pairs: Vec<(Key, Key)> = edges.iter().map(|(_, pair)| *pair).collect();
    let mirrored: Vec<(Key, Key)> = pairs.iter().map(|&(follower, target)| (target, follower)).collect();
    let follows = context.store.get_edges(Kind::Follow, &pairs).await?;
    let blocks = context.store.get_edges(Kind::Block, &pairs).await?;
    let blocked = context.store.get_edges(Kind::Block, &mirrored).await?;
    let ends: Vec<Key> = pairs.iter().flat_map(|&(follower, target)| [follower, target]).collect();
    let users = if creates_users { HashMap::new() } else { context.users_by_key(&ends).await? };
    let will_exist = |key: &Key| creates_users || users.contains_key(key);
    let mut load: HashMap<Key, u64> = HashMap::new();
    let mut seen = HashSet::new();
    let mut over = HashSet::new();
    for (place, &(index, (follower, target))) in edges.iter().enumerate() {
        let is_there = |found: &[Option<_>]| found.get(place).is_some_and(Option::is_some);
        let is_refused = is_there(&blocks) || is_there(&blocked) || follower == target;
        // What exists stays, what is refused is refused: neither makes the list longer.
        if is_there(&follows) || is_refused || !will_exist(&follower) || !will_exist(&target) {
            continue;
        }
        let load = match load.entry(follower) {
            hashbrown::hash_map::Entry::Occupied(known) => known.into_mut(),
            hashbrown::hash_map::Entry::Vacant(new) => new.insert(following_load(context, follower).await?),
        };
        if seen.contains(&(follower, target)) {
            continue;
        }
        if *load >= cap {
            over.insert(index);
        } else {
            *load += 1;
            seen.insert((follower, target));
        }
    }
    Ok(over)
}

async fn following_load(context: &Context, follower: Key) -> Result<u64> {
    let counts = context.store.get_counts(follower).await?.unwrap_or_default();
    Ok(counts.following + counts.requested)
}
