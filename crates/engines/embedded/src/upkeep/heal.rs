//! Repairs the target's side of edges from the follower's: missing, stray and differing entries, and the count of their
//! list.
//!
//! Repairs go into the delta like any write, without an event, and into blocks with the next checkpoint. After a crash
//! before that, wrong blocks are still wrong, and found again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use entourage_model::{Edge, EdgeValue, Error, Key, Kind, List, Place, Plane, Result, Side};

use crate::{
    Store,
    engine::Engine,
    fault::Fault,
    reads::edges,
    state::{
        ListKey,
        delta::{DeltaValue, Direction},
        plane::StoredPlane,
    },
};
use entourage_store::{EdgeName, Healed};

const PAGE: usize = 4096;
/// Edges of one target healed under one lock, while writers wait.
const AT_ONCE: usize = 256;

impl Store {
    pub(crate) async fn heal(&self, edges: &[EdgeName]) -> Result<Healed> {
        let (engine, edges) = (Arc::clone(&self.engine), edges.to_vec());
        let healed = tokio::task::spawn_blocking(move || heal(&engine, &edges)).await;
        Ok(healed.map_err(|error| Error::internal(error.to_string()))??)
    }
}

fn heal(engine: &Engine, edges: &[EdgeName]) -> Result<Healed, Fault> {
    let mut targets: BTreeMap<(Key, Kind), BTreeSet<Key>> = BTreeMap::new();
    for edge in edges {
        targets.entry((edge.target, edge.kind)).or_default().insert(edge.follower);
    }
    let mut healed = Healed::default();
    for ((target, kind), followers) in targets {
        let followers: Vec<Key> = followers.into_iter().collect();
        for some in followers.chunks(AT_ONCE) {
            let _still = engine.gate.lock();
            heal_target(engine, kind, target, some, &mut healed)?;
        }
    }
    Ok(healed)
}

fn heal_target(engine: &Engine, kind: Kind, target: Key, followers: &[Key], healed: &mut Healed) -> Result<(), Fault> {
    healed.looked += followers.len() as u64;
    let Some(ordinal) = engine.state.ordinal_of_edges(target) else { return Ok(()) };
    let truths: Vec<(Key, Truth)> = followers.iter().map(|&key| (key, truth(engine, kind, key, target))).collect();
    let name = |follower: Key| EdgeName { kind, follower, target };
    let mut mended = BTreeSet::new();
    for &plane in Plane::of_kind(kind) {
        let mut list = walk(engine, List::new(target, plane, Side::Followers), followers)?;
        let mut entries = Vec::new();
        for (follower, truth) in &truths {
            let Truth::Clear { ordinal, value } = *truth else { continue };
            let wanted = value.filter(|value| Plane::of(kind, value.state) == Some(plane));
            let found = list.found.remove(follower).unwrap_or_default();
            if found.iter().map(|edge| edge.value).eq(wanted) {
                continue;
            }
            mended.insert(name(*follower));
            // At one place the last entry counts: the wanted one comes after those to remove.
            let gone = found.iter().map(|edge| (edge.value, false));
            for (value, live) in gone.chain(wanted.map(|value| (value, true))) {
                list.count(&value, live);
                let Some(stored) = StoredPlane::of(kind, &value) else { continue };
                let place = Place { position: value.position, key: *follower };
                entries.push((stored, place, live.then(|| DeltaValue::new(&value, value.version, ordinal))));
            }
        }
        if !entries.is_empty() {
            put(engine, plane, ordinal, &entries, &list);
        }
    }
    healed.mended.extend(mended);
    let unclear = truths.iter().filter(|(_, truth)| matches!(truth, Truth::Unclear));
    healed.unclear.extend(unclear.map(|(follower, _)| name(*follower)));
    Ok(())
}

/// Entries and counts under one lock: readers see both or neither.
fn put(
    engine: &Engine,
    plane: Plane,
    target: u32,
    entries: &[(StoredPlane, Place, Option<DeltaValue>)],
    list: &Walked,
) {
    let mut shard = engine.state.shard(target).write();
    for &(stored, place, value) in entries {
        let key = ListKey::new(stored, Side::Followers, target);
        match value {
            Some(value) => shard.put_edge(key, place, value, false),
            None => shard.take_edge(key, place),
        }
    }
    shard.set_followers(plane, target, list.total, list.quiet);
    drop(shard);
    engine.state.count(entries.len() as u64, 0);
}

/// What the follower's side has of an edge.
enum Truth {
    Clear {
        ordinal: u32,
        value: Option<EdgeValue>,
    },
    /// Row and list disagree, or the list cannot be read: healing from either would be a guess.
    Unclear,
}

fn truth(engine: &Engine, kind: Kind, follower: Key, target: Key) -> Truth {
    let (Some(from), Some(to)) = (engine.state.ordinal_of_edges(follower), engine.state.ordinal_of_edges(target))
    else {
        return Truth::Unclear;
    };
    let mut found: Vec<EdgeValue> = Vec::new();
    for &plane in Plane::of_kind(kind) {
        let Ok(mut list) = walk(engine, List::new(follower, plane, Side::Following), &[target]) else {
            return Truth::Unclear;
        };
        let listed = list.found.remove(&target).unwrap_or_default();
        if !engine.state.is_in_rows(plane, from, to, &listed) {
            return Truth::Unclear;
        }
        found.extend(listed.iter().map(|edge| edge.value));
    }
    match found.as_slice() {
        [] => Truth::Clear { ordinal: from, value: None },
        [value] => Truth::Clear { ordinal: from, value: Some(*value) },
        _ => Truth::Unclear,
    }
}

/// The counts of a whole list, and its edges with the users searched for.
#[derive(Default)]
struct Walked {
    total: u32,
    quiet: u32,
    found: BTreeMap<Key, Vec<Edge>>,
}

impl Walked {
    fn count(&mut self, value: &EdgeValue, up: bool) {
        let step = |count: u32, by: u32| if up { count + by } else { count.saturating_sub(by) };
        (self.total, self.quiet) = (step(self.total, 1), step(self.quiet, u32::from(value.quiet)));
    }
}

fn walk(engine: &Engine, list: List, others: &[Key]) -> Result<Walked, Fault> {
    let wanted: BTreeSet<Key> = others.iter().copied().collect();
    let (mut walked, mut after) = (Walked::default(), None);
    loop {
        let page = edges::scan(&engine.state, &engine.files, list, after, Direction::Down, PAGE)?;
        for edge in page.edges {
            after = Some(list.place(&edge));
            walked.count(&edge.value, true);
            let other = list.other(&edge);
            if wanted.contains(&other) {
                walked.found.entry(other).or_default().push(edge);
            }
        }
        if !page.more {
            return Ok(walked);
        }
    }
}

#[cfg(test)]
mod tests;
