//! Reads of lists and single edges: tails first, blocks below them, the newest layer winning at each place.

use entourage_model::{Edge, EdgeValue, Key, Kind, List, Page, Place, Plane, Side};

use super::{
    block::{Entry, Owner},
    fault::Fault,
    files::BlockFiles,
    lists::BlockRef,
    state::{ListKey, State},
    tail::{TailList, TailValue},
};

/// How often a read looks again when blocks moved under it.
const RETRIES: usize = 16;

/// One list at one moment, down to a limit.
struct Layers {
    total: u64,
    quiet: u64,
    /// Places of the tails, newest first, the newer tail's word for each.
    tail: Vec<(Place, TailValue)>,
    blocks: Vec<BlockRef>,
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
    let Some(ordinal) = state.ordinal(list.user) else { return Ok(Page::default()) };
    let Some(layers) = layers(state, ordinal, list, after, limit + 1) else { return Ok(Page::default()) };
    let mut rows = merge(state, files, ordinal, list, after, &layers, limit + 1)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let edges = rows.into_iter().map(|(place, entry)| edge(list, place.key, &entry)).collect();
    Ok(Page { edges, more, total: layers.total, quiet: layers.quiet })
}

fn layers(state: &State, ordinal: u32, list: List, after: Option<Place>, want: usize) -> Option<Layers> {
    let shard = state.shard(ordinal).read();
    let lists = shard.lists(list.plane, ordinal)?;
    let (total, quiet) = lists.totals(list.side);
    let key = ListKey::new(list.plane, list.side, ordinal);
    let (active, frozen) = (shard.tail.get(&key), shard.frozen.get(&key));
    let dead: usize = [active, frozen].into_iter().flatten().map(TailList::dead).sum();
    // Every dead place may hide one edge of the blocks and one of the frozen tail.
    let reach = want + dead;
    let mut tail: Vec<(Place, TailValue)> = Vec::new();
    for (newer, layer) in [(None::<&TailList>, active), (active, frozen)] {
        let Some(layer) = layer else { continue };
        let overruled = |place| newer.is_some_and(|newer| newer.get(place).is_some());
        tail.extend(layer.below(after).take(reach).filter(|(place, _)| !overruled(*place)));
    }
    tail.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let blocks = lists.side(list.side).below(after, reach);
    Some(Layers { total, quiet, tail, blocks })
}

fn merge(
    state: &State,
    files: &BlockFiles,
    ordinal: u32,
    list: List,
    after: Option<Place>,
    layers: &Layers,
    want: usize,
) -> Result<Vec<(Place, Entry)>, Fault> {
    let owner = Owner { plane: list.plane as u8, side: list.side as u8, ordinal };
    let mut rows: Vec<(Place, Entry)> = Vec::new();
    let mut entries = Vec::new();
    for block in &layers.blocks {
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
        if rows.len() >= want {
            break;
        }
    }
    rows.extend(layers.tail.iter().filter(|(_, value)| value.live).map(|(place, value)| (*place, value.entry(*place))));
    rows.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    rows.truncate(want);
    Ok(rows)
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
    EdgeValue { state: plane.state(), quiet: entry.quiet, version: entry.version, position: entry.position }
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
        let Some(plane) = state.plane_of(Plane::of_kind(kind), follower, target) else { return Ok(None) };
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
    plane: Plane,
    follower: u32,
    target: u32,
) -> Result<Option<EdgeValue>, Fault> {
    let blocks: Vec<BlockRef> = {
        let shard = state.shard(follower).read();
        let Some(lists) = shard.lists(plane, follower).filter(|lists| lists.has(target)) else { return Ok(None) };
        let key = ListKey::new(plane, Side::Following, follower);
        for tail in [shard.tail.get(&key), shard.frozen.get(&key)].into_iter().flatten() {
            if let Some((place, found)) = tail.find(target) {
                return Ok(Some(value(plane, &found.entry(place))));
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
            return Ok(Some(value(plane, entry)));
        }
    }
    Err(Fault::damaged("following blocks", 0, format!("edge {follower} → {target} is in memory and in no block")))
}
