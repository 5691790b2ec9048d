//! What the decision on a write reads, so that it can be loaded for many writes at once.

use entourage_model::{
    CHUNK_MAX, ExternalId, GROUP_MEMBERS_MAX, Key, Millis, Operation, Overwrite, POSTS_AT_ONCE_MAX, RecordId, Space,
    Version, Write, post_id_prefix,
};
use entourage_store::retention;

use super::lock;

/// A record by its name.
pub(super) type RecordName = (Space, Key, RecordId);
/// The beginning of a list of records: those whose ids begin with some bytes.
pub(super) type ListName = (Space, Key, Box<[u8]>);

/// When follows between two users ended since then, the newest ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedEnds {
    pub(super) follower: Key,
    pub(super) target: Key,
    pub(super) since: Version,
    pub(super) limit: u32,
}

#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) users: Vec<Key>,
    /// All edges between two users, in both directions.
    pub(super) pair: Option<(Key, Key)>,
    /// How many a user follows.
    pub(super) load: Option<Key>,
    pub(super) ends: Option<WantedEnds>,
    pub(super) scope: Option<[u8; 16]>,
    pub(super) records: Vec<RecordName>,
    /// How many records an owner has.
    pub(super) count: Option<(Space, Key)>,
    pub(super) list: Option<(ListName, usize)>,
    /// Edges of a key without a user, at most this many.
    pub(super) edges_of: Option<(Key, usize)>,
    pub(super) erased: Option<Key>,
}

/// Whether a write is decided by itself: it reads or changes lists of which the batch knows only the beginning.
pub(super) fn is_alone(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Erase { .. }
            | Operation::EraseEdges { .. }
            | Operation::ImportPost { .. }
            | Operation::GroupMember { .. }
            | Operation::PutRecord { space: Space::Group | Space::Erased, .. }
    )
}

impl Wants {
    pub(super) fn of(write: &Write) -> Self {
        let (actor, other) = write.operation.parties();
        let mut wants = Self { users: vec![actor], ..Self::default() };
        wants.users.extend(other.or_else(|| lock::subject(&write.operation)).filter(|key| *key != actor));
        wants.pair = other.map(|other| (actor, other));
        wants.scope = write.idempotency.map(|key| key.scope);
        wants.add_follow(write);
        wants.add_records(&write.operation);
        let lease = write.fence.iter().map(|fence| fence.lease.record_id());
        for id in lease.chain(write.progress.iter().map(|progress| &progress.id)).chain(&write.tally) {
            wants.records.push((Space::Job, Key::SERVER, id.clone()));
        }
        wants.edges_of = match write.operation {
            Operation::EraseEdges { key, limit } => Some((key, limit.min(CHUNK_MAX) + 1)),
            Operation::PutUser { key, overwrite: Overwrite::Replace | Overwrite::Keep, .. } => Some((key, 1)),
            Operation::PutRecord { space: Space::Erased, ref id, .. } => id.key().map(|key| (key, 1)),
            _ => None,
        };
        if let Operation::PutUser { key, .. } = write.operation {
            wants.erased = Some(key);
        }
        wants
    }

    fn add_follow(&mut self, write: &Write) {
        let Operation::Follow { follower, target, cap, .. } = write.operation else { return };
        self.load = cap.map(|_| follower);
        let Some(limits) = write.limits.filter(|limits| limits.flips_per_day > 0) else { return };
        let a_day_ago = limits.now.since_2000().saturating_sub(retention::DAY_MILLIS);
        let since = Version::of_millis(Millis::from_since_2000(a_day_ago));
        self.ends = Some(WantedEnds { follower, target, since, limit: limits.flips_per_day });
    }

    fn add_records(&mut self, operation: &Operation) {
        match operation {
            Operation::PutRecord { space, owner, id, value, cap, .. } => {
                self.records.push((*space, *owner, id.clone()));
                self.count = cap.map(|_| (*space, *owner));
                if let (Space::Erased, Some(key)) = (space, id.key()) {
                    self.list = Some(posts(key, 1));
                }
                if *space == Space::Group {
                    let limit = if value.is_some() { 1 } else { CHUNK_MAX };
                    self.list = Some(((Space::GroupMember, *owner, RecordId::member_prefix(id)), limit));
                }
            }
            // Later than the author's last one, whichever server wrote that.
            Operation::Post { author, value } => {
                self.list = Some(posts(*author, 1));
                self.records.extend(named(*author, value));
            }
            Operation::ImportPost { author, at, id, value } => {
                self.records.extend(named(*author, value));
                if id.is_none() {
                    let name = (Space::Post, *author, post_id_prefix(*at));
                    self.list = Some((name, POSTS_AT_ONCE_MAX));
                }
            }
            Operation::Erase { key, .. } => {
                let about = |space| (space, Key::SERVER, RecordId::of_key(*key));
                self.records.extend([Space::Fanout, Space::Erased].map(about));
            }
            Operation::EraseEdges { key, limit } => {
                self.list = Some(posts(*key, (*limit).min(CHUNK_MAX).div_ceil(2) + 1));
                self.records.push((Space::Erased, Key::SERVER, RecordId::of_key(*key)));
            }
            Operation::PutUser { key, overwrite: Overwrite::Replace | Overwrite::Keep, .. } => {
                self.list = Some(posts(*key, 1));
            }
            Operation::AddRecord { space, owner, cap: Some(_), .. } => self.count = Some((*space, *owner)),
            Operation::GroupMember { owner, group, member, present } => {
                let Some(id) = RecordId::of_member(group, *member) else { return };
                self.records.push((Space::Group, *owner, group.clone()));
                self.records.push((Space::GroupMember, *owner, id));
                if *present {
                    self.count = Some((Space::GroupMember, *owner));
                }
            }
            _ => {}
        }
    }

    /// The members of a group, once its owner has as many as one group may have.
    pub(super) fn members(&self, operation: &Operation, count: u64) -> Option<(ListName, usize)> {
        let Operation::GroupMember { owner, group, .. } = operation else { return None };
        let name = (Space::GroupMember, *owner, RecordId::member_prefix(group));
        (count >= GROUP_MEMBERS_MAX).then_some((name, GROUP_MEMBERS_MAX as usize))
    }
}

fn posts(author: Key, limit: usize) -> (ListName, usize) {
    ((Space::Post, author, Box::default()), limit)
}

/// The record of the external id that the value of a post has.
fn named(author: Key, value: &[u8]) -> Option<RecordName> {
    Some((Space::PostExternal, author, ExternalId::of_post(value)?.record_id()))
}
