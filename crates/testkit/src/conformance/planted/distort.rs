//! What the bugs do to an outcome before it reaches the graph.

use entourage_model::{Cause, Change, EdgeChange, EdgeValue, Kind, Operation, Outcome, Reply, Sequence, Space, Write};

use super::{
    Bug,
    store::{Inner, Planted},
};

impl Planted {
    pub(super) fn distort(&self, inner: &mut Inner, write: &Write, outcome: &mut Outcome) {
        let version = outcome.version;
        match (self.bug, &write.operation) {
            (Bug::EventForNothing, _) if outcome.changes.is_empty() => {
                if let Some(mut event) = inner.events.last().cloned() {
                    inner.changes += 1;
                    event.sequence = Sequence(inner.changes);
                    inner.events.push(event);
                }
            }
            (Bug::BlocksOneWay, &Operation::Block { target: blocked, .. }) => {
                let theirs = |change: &Change| matches!(change, Change::Edge(edge) if edge.kind == Kind::Follow && edge.follower == blocked);
                outcome.changes.retain(|change| !theirs(change));
            }
            (Bug::QuietMovesPosition, Operation::Follow { .. }) => {
                if let (Some(Change::Edge(edge)), Reply::Edge { value, .. }) =
                    (outcome.changes.first_mut(), &mut outcome.reply)
                {
                    edge.after.position = version;
                    value.position = version;
                }
            }
            (Bug::RepeatMovesPosition, &Operation::Follow { follower, target, .. }) if outcome.changes.is_empty() => {
                if let Reply::Edge { value, .. } = &mut outcome.reply {
                    let before = Some(*value);
                    *value = EdgeValue { position: version, version, ..*value };
                    let change = EdgeChange {
                        kind: Kind::Follow,
                        follower,
                        target,
                        cause: Cause::Follower,
                        before,
                        after: *value,
                    };
                    let silent = Outcome { changes: [Change::Edge(change)].into_iter().collect(), ..outcome.clone() };
                    inner.graph.apply(&silent);
                }
            }
            (Bug::UnblockRestores, &Operation::Unblock { actor, target }) => {
                let both = [(actor, target), (target, actor)];
                if let Some(index) = inner.blocked_follows.iter().position(|pair| both.contains(pair)) {
                    let (follower, target) = inner.blocked_follows.swap_remove(index);
                    let after = EdgeValue::active(version);
                    let change = EdgeChange {
                        kind: Kind::Follow,
                        follower,
                        target,
                        cause: Cause::Follower,
                        before: None,
                        after,
                    };
                    let silent = Outcome { changes: [Change::Edge(change)].into_iter().collect(), ..outcome.clone() };
                    inner.graph.apply(&silent);
                }
            }
            (Bug::MembersOutliveGroups, Operation::PutRecord { value: None, .. }) => {
                let member =
                    |change: &Change| matches!(change, Change::Record(record) if record.space == Space::GroupMember);
                outcome.changes.retain(|change| !member(change));
            }
            (Bug::IndexOutlivesPosts, Operation::PutRecord { value: None, .. }) => {
                let index =
                    |change: &Change| matches!(change, Change::Record(record) if record.space == Space::PostAuthor);
                outcome.changes.retain(|change| !index(change));
            }
            (Bug::ExternalIdsOutlivePosts, Operation::PutRecord { value: None, .. }) => {
                let name =
                    |change: &Change| matches!(change, Change::Record(record) if record.space == Space::PostExternal);
                outcome.changes.retain(|change| !name(change));
            }
            (Bug::MuteEndsPileUp, Operation::Mute { .. })
            | (Bug::MuteEndsOutliveMutes, Operation::Unmute { .. } | Operation::ExpireMute { .. })
            | (Bug::MuteEndsOutliveTheErased, Operation::EraseEdges { .. }) => {
                outcome.changes.retain(|change| !is_mute_end(change, false));
            }
            (Bug::MuteEndsAreLost, _) => outcome.changes.retain(|change| !is_mute_end(change, true)),
            (
                Bug::ImportsMoveToNow,
                Operation::ImportRequest { .. } | Operation::ImportBlock { .. } | Operation::ImportMute { .. },
            ) => {
                if let (Some(Change::Edge(edge)), Reply::Edge { value, changed: true, .. }) =
                    (outcome.changes.first_mut(), &mut outcome.reply)
                {
                    edge.after.position = version;
                    value.position = version;
                }
            }
            _ => {}
        }
    }
}

/// A change of the record of when a mute ends: created, or removed.
fn is_mute_end(change: &Change, comes: bool) -> bool {
    matches!(change, Change::Record(record) if record.id.mute_end().is_some() && record.after.is_some() == comes)
}
