//! What a decision reads: the home of the user whose data it changes, and what was read of other homes just before.

use std::collections::BTreeMap;

use entourage_model::{
    Buckets, Edge, EdgeValue, IdempotencyRecord, Key, Kind, List, Moments, Plane, Quota, Record, RecordId, Side, Space,
    User, Version, View,
};
use smallvec::SmallVec;

use super::home::Home;

/// What was read of other homes.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub users: SmallVec<[(Key, Option<User>); 1]>,
    /// An edge in the opposite direction.
    pub edges: Vec<((Key, Key), Option<EdgeValue>)>,
    /// The outcome of an earlier request with this key in another home.
    pub reply: Option<IdempotencyRecord>,
    /// What is to be erased, as it was found first.
    pub found: Option<Vec<Edge>>,
    /// The authors of some posts.
    pub authors: BTreeMap<RecordId, Record>,
}

impl Others {
    pub fn of_user(key: Key, user: Option<User>) -> Self {
        Self { users: SmallVec::from_iter([(key, user)]), ..Self::default() }
    }

    /// The outer `None`: it was not read.
    pub fn user(&self, key: Key) -> Option<Option<&User>> {
        self.users.iter().find(|(known, _)| *known == key).map(|(_, user)| user.as_ref())
    }
}

pub struct Look<'a> {
    pub home: &'a Home,
    pub at: Key,
    pub others: &'a Others,
}

impl View for Look<'_> {
    fn buckets(&self) -> Buckets {
        self.home.buckets
    }

    fn user_exists(&self, key: Key) -> bool {
        self.others.user(key).map_or_else(|| self.home.has_user(key), |user| user.is_some())
    }

    fn is_private(&self, key: Key) -> bool {
        self.user(key).is_some_and(|user| user.private)
    }

    fn is_suspended(&self, key: Key) -> bool {
        self.home.out.is_suspended(key)
    }

    fn user(&self, key: Key) -> Option<User> {
        self.others.user(key).map_or_else(|| self.home.out.user(key), |user| user.cloned())
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        self.edge(kind, follower, target).is_some()
    }

    /// Only the deciding user's data is stable; for others there is what was read before.
    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        if follower == self.at {
            let edge = self.home.out.edge(kind, follower, target)?;
            // The target may be another person by now.
            let created = self.others.user(target).flatten().map(|user| user.created);
            return created.is_none_or(|created| self.home.means((kind, follower, target), created)).then_some(edge);
        }
        if kind == Kind::Block && target == self.at {
            return self.home.inbound.has(kind, follower, target);
        }
        let read = self.others.edges.iter().find(|(pair, _)| kind == Kind::Follow && *pair == (follower, target));
        read.and_then(|(_, edge)| *edge)
    }

    fn following_load(&self, follower: Key) -> u64 {
        self.home.out.following_load(follower)
    }

    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        self.home.out.idempotency(scope, now).or(self.others.reply)
    }

    fn quota(&self, actor: Key) -> Quota {
        self.home.out.quota(actor)
    }

    fn ends(&self, follower: Key, target: Key) -> Moments {
        self.home.out.ends(follower, target)
    }

    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        // The end of another user's mute is theirs, also where both live here.
        if space == Space::Job && id.mute_end().is_some_and(|(_, actor, _)| actor != self.at) {
            return None;
        }
        let own = self.home.out.record(space, owner, id);
        own.or_else(|| self.others.authors.get(id).filter(|_| space == Space::PostAuthor).cloned())
    }

    fn record_count(&self, space: Space, owner: Key) -> u64 {
        self.home.out.record_count(space, owner)
    }

    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        self.home.out.records(space, owner, prefix, limit)
    }

    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge> {
        if let Some(found) = &self.others.found {
            // The user's own edges as they are now: only those are stable.
            let now = |edge: &Edge| match edge.follower == self.at {
                true => self.home.out.edge(edge.kind, edge.follower, edge.target).map(|value| Edge { value, ..*edge }),
                false => Some(*edge),
            };
            return found.iter().filter_map(now).take(limit).collect();
        }
        let lists = Plane::ALL.map(|plane| List::new(key, plane, Side::Following));
        let own = lists.iter().flat_map(|list| self.home.out.scan_up(*list, None, limit).edges);
        let mut edges: Vec<Edge> = own.take(limit).collect();
        edges.extend(self.home.inbound.edges_to(key, limit - edges.len()));
        edges
    }
}
