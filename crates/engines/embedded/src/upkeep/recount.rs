//! Corrects the counts in memory from the lists themselves.

use std::sync::Arc;

use entourage_model::{Error, Key, List, Plane, Result, Side};

use crate::{
    Store,
    engine::Engine,
    fault::Fault,
    reads::edges,
    state::{delta::Direction, plane::StoredPlane},
};
use entourage_store::Recounted;

const PAGE: usize = 4096;

#[derive(Default)]
struct Walked {
    total: u32,
    quiet: u32,
    /// Ordinals of the other ends, ascending.
    others: Vec<u32>,
    /// Those of quiet edges.
    quiet_others: Vec<u32>,
}

impl Store {
    pub(crate) async fn recount(&self, user: Option<Key>) -> Result<Recounted> {
        let engine = Arc::clone(&self.engine);
        let recounted = tokio::task::spawn_blocking(move || recount(&engine, user)).await;
        Ok(recounted.map_err(|error| Error::internal(error.to_string()))??)
    }
}

fn recount(engine: &Engine, user: Option<Key>) -> Result<Recounted, Fault> {
    let mut keys = user.map_or_else(|| engine.state.keys().to_vec(), |user| vec![user]);
    keys.sort_unstable();
    keys.dedup();
    let mut recounted = Recounted::default();
    for key in keys {
        // Locked for one user at a time: writers wait.
        let _still = engine.gate.lock();
        let Some(ordinal) = engine.state.ordinal_of_edges(key) else { continue };
        recounted.users += 1;
        for plane in Plane::ALL {
            recounted.corrected += correct(engine, key, ordinal, plane)?;
        }
    }
    Ok(recounted)
}

fn correct(engine: &Engine, user: Key, ordinal: u32, plane: Plane) -> Result<u64, Fault> {
    let has_lists = |stored: &StoredPlane| engine.state.shard(ordinal).read().lists(*stored, ordinal).is_some();
    if !StoredPlane::of_list(List::new(user, plane, Side::Following)).iter().any(has_lists) {
        return Ok(0);
    }
    let following = walk(engine, List::new(user, plane, Side::Following))?;
    let followers = walk(engine, List::new(user, plane, Side::Followers))?;
    let mut shard = engine.state.shard(ordinal).write();
    let mut corrected = 0;
    let counted = shard.totals(plane, Side::Followers, ordinal);
    if counted != (u64::from(followers.total), u64::from(followers.quiet)) {
        shard.set_followers(plane, ordinal, followers.total, followers.quiet);
        corrected += 1;
    }
    // On this side the counts are the lengths of the rows.
    let quiet = (plane == Plane::Follow).then_some((StoredPlane::Quiet, following.quiet_others));
    let mut is_off = false;
    for (stored, others) in [(StoredPlane::from(plane), following.others)].into_iter().chain(quiet) {
        if shard.lists(stored, ordinal).map_or(&[][..], |lists| &lists.row) != others.as_slice()
            && let Some(lists) = shard.lists_mut(stored, ordinal)
        {
            lists.row = others.into();
            is_off = true;
        }
    }
    Ok(corrected + u64::from(is_off))
}

fn walk(engine: &Engine, list: List) -> Result<Walked, Fault> {
    let (mut walked, mut after) = (Walked::default(), None);
    loop {
        let page = edges::scan(&engine.state, &engine.files, list, after, Direction::Down, PAGE)?;
        for edge in &page.edges {
            after = Some(list.place(edge));
            walked.total += 1;
            walked.quiet += u32::from(edge.value.quiet);
            if list.side == Side::Following {
                let other = engine.state.ordinal_of_edges(edge.target);
                walked.others.extend(other);
                walked.quiet_others.extend(other.filter(|_| edge.value.quiet));
            }
        }
        if !page.more {
            walked.others.sort_unstable();
            walked.quiet_others.sort_unstable();
            return Ok(walked);
        }
    }
}
