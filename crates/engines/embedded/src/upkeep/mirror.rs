//! Compares both sides of recently written edges, without blocking writers.

use std::sync::Arc;

use entourage_model::{EdgeChange, EdgeValue, Error, Kind, Place, Position, Result, Sequence, Side};
use hashbrown::HashSet;

use crate::{
    Store,
    engine::Engine,
    fault::Fault,
    reads::{edges, events},
    state::{ListKey, plane::StoredPlane},
};
use entourage_store::{ChangedEdges, EdgeName};

impl Store {
    pub(crate) async fn changed_edges(&self, after: Sequence, limit: usize) -> Result<ChangedEdges> {
        let engine = Arc::clone(&self.engine);
        let changed = tokio::task::spawn_blocking(move || events::edges(&engine, after, limit)).await;
        changed.map_err(|error| Error::internal(error.to_string()))?
    }

    pub(crate) async fn differing(&self, mut changes: Vec<EdgeChange>) -> Result<Vec<EdgeChange>> {
        let engine = Arc::clone(&self.engine);
        let differing = tokio::task::spawn_blocking(move || {
            let mut known = HashSet::new();
            // Unreadable edges count as different: healing reads them again and reports the fault.
            changes.retain(|change| known.insert(traces(change)) && differs(&engine, change).unwrap_or(true));
            changes
        });
        differing.await.map_err(|error| Error::internal(error.to_string()))
    }
}

/// Where an edge is listed.
type Standing = (StoredPlane, Position);

fn standing(kind: Kind, value: EdgeValue) -> Option<Standing> {
    Some((StoredPlane::of(kind, &value)?, value.position))
}

/// An edge, and where a change may have left an entry on the target's side.
fn traces(change: &EdgeChange) -> (EdgeName, [Option<Standing>; 2]) {
    let values = [change.before, Some(change.after)];
    (change.into(), values.map(|value| value.and_then(|value| standing(change.kind, value))))
}

/// Whether the two sides differ where the change or the current edge is listed.
fn differs(engine: &Engine, change: &EdgeChange) -> Result<bool, Fault> {
    let (state, files) = (&engine.state, &engine.files);
    let ordinal = |key| state.ordinal_of_edges(key);
    let (Some(follower), Some(target)) = (ordinal(change.follower), ordinal(change.target)) else { return Ok(false) };
    let truth = edges::get(state, files, change.kind, follower, target)?;
    let stands = |value: EdgeValue| standing(change.kind, value);
    let (_, left) = traces(change);
    for (plane, position) in left.into_iter().chain([truth.and_then(stands)]).flatten() {
        let wanted = truth.filter(|value| stands(*value) == Some((plane, position)));
        let list = ListKey::new(plane, Side::Followers, target);
        if edges::at(state, files, list, Place { position, key: change.follower })? != wanted {
            return Ok(true);
        }
    }
    Ok(false)
}
