//! Reads of lists and single edges: deltas first, then blocks; at each place the newest layer wins.

use entourage_model::{Edge, EdgeValue, Key, Kind, List, Page, Place, Plane, Side, User};
use smallvec::SmallVec;

use crate::{
    blocks::{block::Entry, files::Blocks},
    checkpoint::fold,
    fault::Fault,
    state::{
        ListKey, Shard, State,
        delta::{DeltaValue, Direction},
        lists::{BlockRef, Candidate, Refs},
        plane::StoredPlane,
    },
};
use entourage_store::share;

/// Attempts of a read whose blocks are moved meanwhile.
const RETRIES: usize = 16;

/// Following lists of up to this many blocks are scanned for one edge.
const FEW_BLOCKS: usize = 4;

/// The layers of one stored list at one moment, as needed for a page.
struct Layers {
    key: ListKey,
    /// Edges of the deltas.
    delta: Vec<(Place, DeltaValue)>,
    /// Blocks, each with the places that a delta overrides, in order.
    blocks: Vec<(BlockRef, Vec<Place>)>,
}

/// Down from the greatest place below `start`, or up from the least above it.
pub(crate) fn scan<'a>(
    state: &State,
    files: impl Into<Blocks<'a>>,
    list: List,
    start: Option<Place>,
    direction: Direction,
    limit: usize,
) -> Result<Page, Fault> {
    let files = files.into();
    retry(|| scan_once(state, files, list, start, direction, limit))
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

fn scan_once(
    state: &State,
    files: Blocks<'_>,
    list: List,
    start: Option<Place>,
    direction: Direction,
    limit: usize,
) -> Result<Page, Fault> {
    let Some(ordinal) = state.ordinal_of_edges(list.user) else { return Ok(Page::default()) };
    // One more than requested tells whether there is more.
    let want = limit + 1;
    let (parts, (total, quiet)) = {
        // All parts of the list under one lock: an edge that moves between two is in one of them.
        let shard = state.shard(ordinal).read();
        let keys = StoredPlane::of_list(list).iter().map(|&plane| ListKey::new(plane, list.side, ordinal));
        let parts: SmallVec<[Layers; 2]> = keys.filter_map(|key| layers(&shard, key, start, direction, want)).collect();
        (parts, shard.totals(list.plane, list.side, ordinal))
    };
    let mut rows: Vec<(Place, Entry)> = Vec::new();
    for layers in &parts {
        rows.extend(merge(state, files, start, direction, layers, want)?);
    }
    if parts.len() > 1 {
        direction.order(&mut rows);
    }
    let more = rows.len() > limit;
    rows.truncate(limit);
    let edges = rows.into_iter().map(|(place, entry)| edge(list, place.key, &entry)).collect();
    let (total, quiet) = if list.open { (total - quiet, 0) } else { (total, quiet) };
    Ok(Page { edges, more, total, quiet })
}

/// The other ends of the newest rows, as ordinals: no more than a count needs.
pub(crate) fn newest<'a>(
    state: &State,
    files: impl Into<Blocks<'a>>,
    list: List,
    limit: usize,
) -> Result<Vec<u32>, Fault> {
    let files = files.into();
    retry(|| newest_once(state, files, list, limit))
}

fn newest_once(state: &State, files: Blocks<'_>, list: List, limit: usize) -> Result<Vec<u32>, Fault> {
    let Some(ordinal) = state.ordinal_of_edges(list.user) else { return Ok(Vec::new()) };
    let parts: SmallVec<[Layers; 2]> = {
        let shard = state.shard(ordinal).read();
        let keys = StoredPlane::of_list(list).iter().map(|&plane| ListKey::new(plane, list.side, ordinal));
        keys.filter_map(|key| layers(&shard, key, None, Direction::Down, limit)).collect()
    };
    let mut rows: Vec<(Place, Entry)> = Vec::new();
    for layers in &parts {
        rows.extend(merge(state, files, None, Direction::Down, layers, limit)?);
    }
    if parts.len() > 1 {
        Direction::Down.order(&mut rows);
    }
    Ok(rows.into_iter().take(limit).map(|(_, entry)| entry.other).collect())
}

/// Enough of each layer for `want` rows. Fully covered blocks are skipped.
fn layers(shard: &Shard, key: ListKey, start: Option<Place>, direction: Direction, want: usize) -> Option<Layers> {
    let lists = shard.lists(key.plane(), key.ordinal())?;
    let (active, frozen) = (shard.delta.get(&key), shard.frozen.get(&key));
    let newest = active.into_iter().flat_map(|delta| delta.live(start, direction).take(want));
    let is_over = |place| active.is_some_and(|active| active.knows(place));
    let older = frozen.into_iter().flat_map(|delta| delta.live(start, direction));
    let delta = newest.chain(older.filter(|(place, _)| !is_over(*place)).take(want)).collect();
    let deltas = || active.into_iter().chain(frozen);
    let (mut blocks, mut sure) = (Vec::new(), 0);
    for Candidate { block, above, newest, is_sure } in lists.side(key.side()).behind(start, direction) {
        if sure >= want {
            break;
        }
        let hidden: u32 = deltas().map(|delta| delta.covered_in(block.id())).sum();
        let left = block.count.saturating_sub(hidden);
        if left > 0 {
            let mut covered: Vec<Place> = deltas().flat_map(|delta| delta.covered_between(above, newest)).collect();
            covered.sort_unstable();
            blocks.push((block, covered));
            sure += if is_sure { left as usize } else { 0 };
        }
    }
    Some(Layers { key, delta, blocks })
}

/// The first rows, `want` at most.
fn merge(
    state: &State,
    files: Blocks<'_>,
    start: Option<Place>,
    direction: Direction,
    layers: &Layers,
    want: usize,
) -> Result<Vec<(Place, Entry)>, Fault> {
    let owner = fold::owner(layers.key);
    let mut rows: Vec<(Place, Entry)> = Vec::new();
    let mut entries = Vec::new();
    for (block, covered) in &layers.blocks {
        if rows.len() >= want {
            break;
        }
        entries.clear();
        files.read(owner, *block, &mut entries)?;
        if direction == Direction::Up {
            entries.reverse();
        }
        let keys = state.keys();
        for entry in &entries {
            let place = place(&keys, entry)?;
            if direction.is_behind(start, place) && covered.binary_search(&place).is_err() {
                rows.push((place, *entry));
            }
        }
    }
    if !layers.delta.is_empty() {
        rows.extend(layers.delta.iter().map(|(place, value)| (*place, value.entry(*place))));
        direction.order(&mut rows);
        // A checkpoint puts edges into blocks a moment before it drops their delta: then both have them.
        rows.dedup_by_key(|(place, _)| *place);
    }
    rows.truncate(want);
    Ok(rows)
}

/// Recovery only: the quiet edges in the blocks of one stored list.
pub(crate) fn quiet_entries<'a>(
    state: &State,
    files: impl Into<Blocks<'a>>,
    key: ListKey,
) -> Result<Vec<(Place, DeltaValue)>, Fault> {
    let files = files.into();
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
            quiet.push((place(&keys, entry)?, DeltaValue::of(entry)));
        }
    }
    Ok(quiet)
}

pub(crate) fn place(keys: &[Key], entry: &Entry) -> Result<Place, Fault> {
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

/// The edge at one place of a list.
pub(crate) fn at<'a>(
    state: &State,
    files: impl Into<Blocks<'a>>,
    list: ListKey,
    wanted: Place,
) -> Result<Option<EdgeValue>, Fault> {
    let files = files.into();
    retry(|| at_once(state, files, list, wanted))
}

fn at_once(state: &State, files: Blocks<'_>, list: ListKey, wanted: Place) -> Result<Option<EdgeValue>, Fault> {
    let (plane, ordinal) = (list.plane(), list.ordinal());
    let block = {
        let shard = state.shard(ordinal).read();
        let Some(lists) = shard.lists(plane, ordinal) else { return Ok(None) };
        for delta in [shard.delta.get(&list), shard.frozen.get(&list)].into_iter().flatten() {
            if let Some(word) = delta.get(wanted) {
                return Ok(word.map(|found| value(plane.plane(), &found.entry(wanted))));
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

/// The live edge of a kind, in whichever plane.
pub(crate) fn get<'a>(
    state: &State,
    files: impl Into<Blocks<'a>>,
    kind: Kind,
    follower: u32,
    target: u32,
) -> Result<Option<EdgeValue>, Fault> {
    let files = files.into();
    for _ in 0..RETRIES {
        let Some(plane) = state.plane_of(StoredPlane::of_kind(kind), follower, target) else { return Ok(None) };
        // The edge may have moved to another plane since.
        if let Some(value) = retry(|| get_in(state, files, plane, follower, target))? {
            return Ok(Some(value));
        }
    }
    Err(Fault::Moved)
}

fn get_in(
    state: &State,
    files: Blocks<'_>,
    plane: StoredPlane,
    follower: u32,
    target: u32,
) -> Result<Option<EdgeValue>, Fault> {
    let key = ListKey::new(plane, Side::Following, follower);
    let refs = {
        let shard = state.shard(follower).read();
        let listed = shard.has_listed(plane, follower, target);
        let Some(lists) = shard.lists(plane, follower).filter(|_| listed) else { return Ok(None) };
        for delta in [shard.delta.get(&key), shard.frozen.get(&key)].into_iter().flatten() {
            if let Some((place, found)) = delta.find(target) {
                return Ok(Some(value(plane.plane(), &found.entry(place))));
            }
        }
        lists.following.clone()
    };
    let blocks: SmallVec<[BlockRef; FEW_BLOCKS]> = match &refs {
        Refs::Many(Some(blocks)) if blocks.len() > FEW_BLOCKS => files.finders().holding(files, key, blocks, target)?,
        refs => refs.iter().rev().collect(),
    };
    let mut entries = Vec::new();
    for block in blocks {
        entries.clear();
        files.read(fold::owner(key), block, &mut entries)?;
        if let Some(entry) = entries.iter().find(|entry| entry.other == target) {
            return Ok(Some(value(plane.plane(), entry)));
        }
    }
    Err(Fault::damaged("following blocks", 0, format!("edge {follower} → {target} is in memory and in no block")))
}

/// Ordinals that a page of a sweep scans, however few users it wants.
pub(crate) const SWEPT_AT_ONCE: u32 = 4_096;

/// Adds users by ordinal from `from` on, until there are `limit`, or a task has to yield. Returns whether that was the
/// last ordinal. Ordinals of erased users are never reused: a key may have several, of which at most one counts.
pub(crate) fn sweep(state: &State, from: &mut u32, until: u32, limit: usize, users: &mut Vec<User>) -> bool {
    let (keys, count): (SmallVec<[Key; share::CHUNK]>, u32) = {
        let keys = state.keys();
        let some = keys.get(*from as usize..).unwrap_or_default();
        let wanted = share::CHUNK.min(until.saturating_sub(*from) as usize);
        (some.iter().take(wanted).copied().collect(), keys.len() as u32)
    };
    for key in keys {
        if users.len() >= limit {
            return false;
        }
        let ordinal = *from;
        *from += 1;
        // Keys are not looked up: in a large store that would take most of the time.
        users.extend(state.user_at(ordinal, key));
    }
    *from >= count
}
