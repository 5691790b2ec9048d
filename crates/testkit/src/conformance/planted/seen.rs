//! What a buggy commit reads.

use entourage_model::{
    Buckets, Edge, EdgeValue, IdempotencyRecord, Key, Kind, Millis, Moments, Operation, Quota, Record, RecordId, Space,
    User, Version, View,
};

use super::Bug;
use entourage_memory::Graph;

/// The graph as a buggy commit sees it.
pub(super) struct Seen<'a> {
    pub(super) graph: &'a Graph,
    pub(super) blocked: Option<bool>,
    pub(super) load: Option<u64>,
    pub(super) edge: Option<Option<EdgeValue>>,
    pub(super) quota: Option<Quota>,
    pub(super) keys: bool,
    pub(super) requests: bool,
    pub(super) bug: Bug,
    /// The edge a mute would change.
    pub(super) operation: &'a Operation,
}

impl View for Seen<'_> {
    fn buckets(&self) -> Buckets {
        self.graph.buckets()
    }

    fn user_exists(&self, key: Key) -> bool {
        self.graph.user_exists(key)
    }

    fn is_private(&self, key: Key) -> bool {
        self.graph.is_private(key)
    }

    fn is_suspended(&self, key: Key) -> bool {
        self.bug != Bug::SuspensionIsForShow && self.graph.is_suspended(key)
    }

    fn user(&self, key: Key) -> Option<User> {
        self.graph.user(key)
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        match self.blocked {
            Some(looked) if kind == Kind::Block => looked,
            _ => self.graph.has_edge(kind, follower, target),
        }
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        match self.edge {
            Some(looked) if kind == Kind::Follow => looked,
            _ => self.muted_as_asked(self.graph.edge(kind, follower, target)),
        }
    }

    fn following_load(&self, follower: Key) -> u64 {
        let current = match self.requests {
            true => self.graph.following_load(follower),
            false => self.graph.counts(follower).map_or(0, |counts| counts.following),
        };
        self.load.unwrap_or(current)
    }

    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        if self.keys { self.graph.idempotency(scope, now) } else { None }
    }

    fn quota(&self, actor: Key) -> Quota {
        self.quota.clone().unwrap_or_else(|| self.graph.quota(actor))
    }

    fn ends(&self, follower: Key, target: Key) -> Moments {
        match self.bug {
            Bug::ForgetsFlips => Moments::default(),
            Bug::ErasingIsAFlip => {
                let ends = self.graph.history(follower, None, Version::ZERO).filter(|ended| ended.target == target);
                let mut times: Vec<Millis> = ends.map(|ended| ended.ended.millis()).collect();
                times.reverse();
                Moments::of_ends(times)
            }
            _ => self.graph.ends(follower, target),
        }
    }

    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        if self.bug == Bug::ForgetsExternalIds && space == Space::PostExternal {
            return None;
        }
        self.graph.record(space, owner, id)
    }

    fn record_count(&self, space: Space, owner: Key) -> u64 {
        self.graph.record_count(space, owner)
    }

    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        if self.bug == Bug::PostsOutliveAuthors && space == Space::Post {
            return Vec::new();
        }
        self.graph.records(space, owner, prefix, limit)
    }

    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge> {
        let mut edges = self.graph.edges_of(key, usize::MAX);
        match (self.bug, self.operation) {
            (Bug::RecreatesTooSoon, Operation::PutUser { .. }) => return Vec::new(),
            (Bug::ErasesOneDirection, Operation::EraseEdges { .. }) => edges.retain(|edge| edge.follower == key),
            _ => {}
        }
        edges.truncate(limit);
        edges
    }
}

impl Seen<'_> {
    fn muted_as_asked(&self, edge: Option<EdgeValue>) -> Option<EdgeValue> {
        match (self.bug, self.operation) {
            (Bug::MutesKeepTheirEnd, Operation::Mute { expires_at, .. }) => {
                edge.map(|value| EdgeValue { expires: expires_at.map(entourage_model::Expiry::at), ..value })
            }
            _ => edge,
        }
    }
}
