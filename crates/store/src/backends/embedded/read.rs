//! Reads of lists and single edges: tails first, blocks below them, the newest layer winning at each place.

use entourage_model::{Edge, EdgeValue, Key, Kind, List, Page, Place, Plane, Side, User};
use smallvec::SmallVec;

use super::{
    block::{Entry, Owner},
    fault::Fault,
    files::BlockFiles,
    fold,
    lists::BlockRef,
    plane::StoredPlane,
    state::{ListKey, Shard, State},
    tail::{TailList, TailValue},
};

/// How often a read looks again when blocks moved under it.
const RETRIES: usize = 16;

/// How many entries of each layer are looked at beyond what is wanted before more are: places declared empty hide
/// edges of older layers, and mostly there are few.
const HIDDEN: usize = 64;
const MORE_HIDDEN: usize = 16;

/// One stored list at one moment, down to a limit.
struct Layers {
    key: ListKey,
    /// Places of the tails, newest first, the newer tail's word for each.
    tail: Vec<(Place, TailValue)>,
    blocks: Vec<BlockRef>,
    /// Below this place the tails have more to say.
    tail_floor: Option<Place>,
    more_blocks: bool,
}

pub(super) fn scan(
    state: &State,
    files: &BlockFiles,
    list: List,
    after: Option<Place>,
    limit: usize,
) -> Result<Page, Fault> {
    retry(|| scan_once(state, files, list, after, limit))
}

fn retry<T>(mut read: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    for _ in 1..RETRIES {
        match read() {
            Err(Fault::Moved) => {}
            other => return other,
        }
    }
    read()
}

fn scan_once(state: &State, files: &BlockFiles, list: List, after: Option<Place>, limit: usize) -> Result<Page, Fault> {
    let Some(ordinal) = state.ordinal_of_edges(list.user) else { return Ok(Page::default()) };
    let want = limit + 1;
    let mut reach = want + HIDDEN;
    'reading: loop {
        let (parts, (total, quiet)) = {
            // All parts of the list under one lock: an edge that goes from one to the other is in one of them.
            let shard = state.shard(ordinal).read();
            let keys = StoredPlane::of_list(list).iter().map(|&plane| ListKey::new(plane, list.side, ordinal));
            let parts: SmallVec<[Layers; 2]> = keys.filter_map(|key| layers(&shard, key, after, reach)).collect();
            (parts, shard.totals(list.plane, list.side, ordinal))
        };
        let mut rows: Vec<(Place, Entry)> = Vec::new();
        for layers in &parts {
            let (found, whole) = merge(state, files, after, layers, want)?;
            if found.len() < want && !whole {
                reach = reach.saturating_mul(MORE_HIDDEN);
                continue 'reading;
            }
            rows.extend(found);
        }
        if parts.len() > 1 {
            rows.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        }
        let more = rows.len() > limit;
        rows.truncate(limit);
        let edges = rows.into_iter().map(|(place, entry)| edge(list, place.key, &entry)).collect();
        let (total, quiet) = if list.open { (total - quiet, 0) } else { (total, quiet) };
        return Ok(Page { edges, more, total, quiet });
    }
}

fn layers(shard: &Shard, key: ListKey, after: Option<Place>, reach: usize) -> Option<Layers> {
    let lists = shard.lists(key.plane(), key.ordinal())?;
    let (active, frozen) = (shard.tail.get(&key), shard.frozen.get(&key));
    let mut tail: Vec<(Place, TailValue)> = Vec::new();
    let mut tail_floor = None;
    for (newer, layer) in [(None::<&TailList>, active), (active, frozen)] {
        let Some(layer) = layer else { continue };
        let overruled = |place| newer.is_some_and(|newer| newer.get(place).is_some());
        for (index, (place, value)) in layer.below(after).take(reach).enumerate() {
            if index + 1 == reach {
                tail_floor = tail_floor.max(Some(place));
            }
            if !overruled(place) {
                tail.push((place, value));
            }
        }
    }
    tail.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let (blocks, more_blocks) = lists.side(key.side()).below(after, reach);
    Some(Layers { key, tail, blocks, tail_floor, more_blocks })
}

/// The newest rows, `want` at most, and whether there are no others.
fn merge(
    state: &State,
    files: &BlockFiles,
    after: Option<Place>,
    layers: &Layers,
    want: usize,
) -> Result<(Vec<(Place, Entry)>, bool), Fault> {
    let owner = fold::owner(layers.key);
    let mut rows: Vec<(Place, Entry)> = Vec::new();
    let mut entries = Vec::new();
    let mut floor = layers.tail_floor;
    for (index, block) in layers.blocks.iter().enumerate() {
        entries.clear();
        files.read(owner, *block, &mut entries)?;
        let keys = state.keys();
        for entry in &entries {
            let place = place(&keys, entry)?;
            let overruled = || layers.tail.binary_search_by(|(known, _)| place.cmp(known)).is_ok();
            if after.is_none_or(|after| place < after) && !overruled() {
                rows.push((place, *entry));
            }
        }
        let last = index + 1 == layers.blocks.len();
        if rows.len() >= want || (last && layers.more_blocks) {
            let oldest = entries.last().map(|entry| place(&keys, entry)).transpose()?;
            floor = if last && !layers.more_blocks { floor } else { floor.max(oldest) };
            break;
        }
    }
    rows.extend(layers.tail.iter().filter(|(_, value)| value.live).map(|(place, value)| (*place, value.entry(*place))));
    rows.retain(|(place, _)| Some(*place) >= floor);
    rows.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let whole = floor.is_none() && rows.len() <= want;
    rows.truncate(want);
    Ok((rows, whole))
}

/// The quiet edges in the blocks of one stored list. Recovery only.
pub(super) fn quiet_entries(state: &State, files: &BlockFiles, key: ListKey) -> Result<Vec<(Place, TailValue)>, Fault> {
    let blocks: Vec<BlockRef> = {
        let shard = state.shard(key.ordinal()).read();
        shard.lists(key.plane(), key.ordinal()).map_or(Vec::new(), |lists| lists.side(key.side()).iter().collect())
    };
    let (mut entries, mut quiet) = (Vec::new(), Vec::new());
    for block in blocks {
        entries.clear();
        files.read(fold::owner(key), block, &mut entries)?;
        let keys = state.keys();
        for entry in entries.iter().filter(|entry| entry.quiet) {
            quiet.push((place(&keys, entry)?, TailValue::live(entry)));
        }
    }
    Ok(quiet)
}

pub(super) fn place(keys: &[Key], entry: &Entry) -> Result<Place, Fault> {
    let key = keys
        .get(entry.other as usize)
        .ok_or_else(|| Fault::damaged("blocks", 0, format!("ordinal {} was never given", entry.other)))?;
    Ok(Place { position: entry.position, key: *key })
}

fn edge(list: List, other: Key, entry: &Entry) -> Edge {
    let (follower, target) = match list.side {
        Side::Following => (list.user, other),
        Side::Followers => (other, list.user),
    };
    Edge { kind: list.plane.kind(), follower, target, value: value(list.plane, entry) }
}

fn value(plane: Plane, entry: &Entry) -> EdgeValue {
    let Entry { position, version, expires, quiet, accepted, .. } = *entry;
    EdgeValue { state: plane.state(), quiet, accepted, expires, version, position }
}

/// What stands at one place of a list.
pub(super) fn at(state: &State, files: &BlockFiles, list: ListKey, wanted: Place) -> Result<Option<EdgeValue>, Fault> {
    retry(|| at_once(state, files, list, wanted))
}

fn at_once(state: &State, files: &BlockFiles, list: ListKey, wanted: Place) -> Result<Option<EdgeValue>, Fault> {
    let (plane, ordinal) = (list.plane(), list.ordinal());
    let block = {
        let shard = state.shard(ordinal).read();
        let Some(lists) = shard.lists(plane, ordinal) else { return Ok(None) };
        for tail in [shard.tail.get(&list), shard.frozen.get(&list)].into_iter().flatten() {
            if let Some(found) = tail.get(wanted) {
                return Ok(found.live.then(|| value(plane.plane(), &found.entry(wanted))));
            }
        }
        lists.side(list.side()).holding(wanted)
    };
    let Some(block) = block else { return Ok(None) };
    let mut entries = Vec::new();
    files.read(fold::owner(list), block, &mut entries)?;
    let keys = state.keys();
    for entry in entries.iter().filter(|entry| entry.position == wanted.position) {
        if place(&keys, entry)? == wanted {
            return Ok(Some(value(plane.plane(), entry)));
        }
    }
    Ok(None)
}

/// The live edge of a kind, whichever plane it stands in.
pub(super) fn get(
    state: &State,
    files: &BlockFiles,
    kind: Kind,
    follower: u32,
    target: u32,
) -> Result<Option<EdgeValue>, Fault> {
    for _ in 0..RETRIES {
        let Some(plane) = state.plane_of(StoredPlane::of_kind(kind), follower, target) else { return Ok(None) };
        // It may have gone to another plane since.
        if let Some(value) = retry(|| get_in(state, files, plane, follower, target))? {
            return Ok(Some(value));
        }
    }
    Err(Fault::Moved)
}

fn get_in(
    state: &State,
    files: &BlockFiles,
    plane: StoredPlane,
    follower: u32,
    target: u32,
) -> Result<Option<EdgeValue>, Fault> {
    let blocks: Vec<BlockRef> = {
        let shard = state.shard(follower).read();
        let listed = shard.has_listed(plane, follower, target);
        let Some(lists) = shard.lists(plane, follower).filter(|_| listed) else { return Ok(None) };
        let key = ListKey::new(plane, Side::Following, follower);
        for tail in [shard.tail.get(&key), shard.frozen.get(&key)].into_iter().flatten() {
            if let Some((place, found)) = tail.find(target) {
                return Ok(Some(value(plane.plane(), &found.entry(place))));
            }
        }
        lists.following.iter().rev().collect()
    };
    let owner = Owner { plane: plane as u8, side: Side::Following as u8, ordinal: follower };
    let mut entries = Vec::new();
    for block in blocks {
        entries.clear();
        files.read(owner, block, &mut entries)?;
        if let Some(entry) = entries.iter().find(|entry| entry.other == target) {
            return Ok(Some(value(plane.plane(), entry)));
        }
    }
    Err(Fault::damaged("following blocks", 0, format!("edge {follower} → {target} is in memory and in no block")))
}

/// Users in the order of their keys, above `after`.
pub(super) fn sweep(state: &State, after: Option<Key>, limit: usize) -> Vec<User> {
    let is_next = |key: &Key| after.is_none_or(|after| *key > after);
    let mut keys: Vec<Key> = state.keys().iter().copied().filter(is_next).collect();
    if state.erased().total() > 0 {
        // Ordinals of the erased are never given again: a key may have several, and at most one counts.
        keys.retain(|key| state.ordinal(*key).is_some());
        keys.sort_unstable();
        keys.dedup();
    }
    if limit < keys.len() {
        keys.select_nth_unstable(limit);
        keys.truncate(limit);
    }
    keys.sort_unstable();
    keys.into_iter().filter_map(|key| state.user(key)).collect()
}
