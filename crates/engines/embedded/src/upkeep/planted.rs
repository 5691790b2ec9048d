//! Plants damage as a bug would, for tests of finding and repairing it. Never part of a server.

use entourage_model::{EdgeValue, Key, Kind, Place, Side};

use crate::{
    Store,
    fault::Fault,
    reads::edges,
    state::{ListKey, delta::DeltaValue, plane::StoredPlane},
};

/// What is wrong on the target's side of an edge. Counts stay as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The edge is missing.
    Missing,
    /// An edge that the follower's side does not have.
    Stray(EdgeValue),
    /// The quiet flag differs.
    Flag,
    /// The edge is at another place.
    Place,
}

impl Store {
    /// Returns whether there was something to damage.
    pub fn damage(&self, kind: Kind, follower: Key, target: Key, damage: Damage) -> Result<bool, Fault> {
        let (state, files) = (&self.engine.state, &self.engine.files);
        let _still = self.engine.gate.lock();
        let (Some(from), Some(to)) = (state.ordinal_of_edges(follower), state.ordinal_of_edges(target)) else {
            return Ok(false);
        };
        let truth = edges::get(state, files, kind, from, to)?;
        let mut entries: Vec<(EdgeValue, bool)> = Vec::new();
        match (damage, truth) {
            (Damage::Stray(value), None) => entries.push((value, true)),
            (Damage::Missing, Some(value)) => entries.push((value, false)),
            (Damage::Flag, Some(value)) => {
                entries.extend([(value, false), (EdgeValue { quiet: !value.quiet, ..value }, true)]);
            }
            (Damage::Place, Some(value)) => {
                let position = entourage_model::Version::from_bits(value.position.bits() - 1);
                entries.extend([(value, false), (EdgeValue { position, ..value }, true)]);
            }
            (Damage::Stray(_), Some(_)) | (_, None) => return Ok(false),
        }
        for (value, live) in entries {
            let Some(plane) = StoredPlane::of(kind, &value) else { return Ok(false) };
            let place = Place { position: value.position, key: follower };
            let list = ListKey::new(plane, Side::Followers, to);
            let mut shard = state.shard(to).write();
            match live {
                true => shard.put_edge(list, place, DeltaValue::new(&value, value.version, from), false),
                false => shard.take_edge(list, place),
            }
            drop(shard);
            state.count(1, 0);
        }
        Ok(true)
    }
}
