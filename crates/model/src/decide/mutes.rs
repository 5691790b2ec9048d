//! The record of when a mute ends: created, changed and removed with the mute, in the same commit.

use smallvec::SmallVec;

use super::View;
use crate::{Change, Decision, EdgeChange, Expiry, Kind, RecordChange, RecordId, Space};

/// Adds the changes to the records of the ends of mutes, after all other changes.
pub(super) fn follow_ends(view: &impl View, decision: &mut Decision) {
    let ends = |change: &Change| match change {
        Change::Edge(edge) if edge.kind == Kind::Mute => Some((ending(edge), edge.follower, edge.target)),
        _ => None,
    };
    let mut records: SmallVec<[Change; 2]> = SmallVec::new();
    for ((before, after), actor, target) in decision.changes.iter().filter_map(ends) {
        if before == after {
            continue;
        }
        let mut put = |at: Option<Expiry>, is_there: bool| {
            let Some(id) = at.map(|at| RecordId::of_mute_end(at, actor, target)) else { return };
            let (space, owner) = (Space::Job, view.buckets().of(actor));
            let known = view.record(space, owner, &id).map(|record| record.version);
            if known.is_some() != is_there {
                let after = is_there.then(Box::default);
                records.push(Change::Record(RecordChange { space, owner, id, before: known, after }));
            }
        };
        put(before, false);
        put(after, true);
    }
    decision.changes.extend(records);
}

/// The old end and the new end.
fn ending(edge: &EdgeChange) -> (Option<Expiry>, Option<Expiry>) {
    let before = edge.before.and_then(|value| value.expires);
    (before, edge.after.expires.filter(|_| edge.after.is_live()))
}
