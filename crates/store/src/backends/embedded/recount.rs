//! Sets the counts of lists right: what memory counts beside the lists, from the lists themselves.

use std::sync::Arc;

use entourage_model::{Error, Key, List, Plane, Result, Side};

use super::{Store, engine::Engine, fault::Fault, read};
use crate::Recounted;

const PAGE: usize = 4096;

/// What a walk through one list found.
#[derive(Default)]
struct Walked {
    total: u32,
    quiet: u32,
    /// The ordinals of the other ends, ascending.
    others: Vec<u32>,
}

impl Store {
    pub(super) async fn recount(&self, user: Option<Key>) -> Result<Recounted> {
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
        // One user at a time: writers wait for no more than that.
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
    if engine.state.shard(ordinal).read().lists(plane, ordinal).is_none() {
        return Ok(0);
    }
    let following = walk(engine, List { user, plane, side: Side::Following })?;
    let followers = walk(engine, List { user, plane, side: Side::Followers })?;
    let mut shard = engine.state.shard(ordinal).write();
    let Some(lists) = shard.lists_mut(plane, ordinal) else { return Ok(0) };
    let mut corrected = 0;
    if (lists.followers_total, lists.quiet(Side::Followers)) != (followers.total, followers.quiet) {
        lists.followers_total = followers.total;
        lists.set_quiet(Side::Followers, followers.quiet);
        corrected += 1;
    }
    // The count of this side is the length of its row.
    if lists.quiet(Side::Following) != following.quiet || *lists.row != *following.others {
        lists.set_quiet(Side::Following, following.quiet);
        lists.row = following.others.into();
        corrected += 1;
    }
    Ok(corrected)
}

fn walk(engine: &Engine, list: List) -> Result<Walked, Fault> {
    let (mut walked, mut after) = (Walked::default(), None);
    loop {
        let page = read::scan(&engine.state, &engine.files, list, after, PAGE)?;
        for edge in &page.edges {
            after = Some(list.place(edge));
            walked.total += 1;
            walked.quiet += u32::from(edge.value.quiet);
            if list.side == Side::Following {
                walked.others.extend(engine.state.ordinal_of_edges(edge.target));
            }
        }
        if !page.more {
            walked.others.sort_unstable();
            return Ok(walked);
        }
    }
}
