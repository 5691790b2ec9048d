//! The outcome of an operation: the reply, the changes, and what a retry needs.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{
    Code, EdgeChange, EdgeValue, Error, IdempotencyKey, Key, QuotaChange, RecordChange, Sequence, User, UserId,
    Version, Watermark,
};

/// A user after the change (`None`: erased).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserChange {
    pub key: Key,
    pub existed: bool,
    pub after: Option<Box<User>>,
    /// The right to follow was suspended or restored, and nothing else changed.
    #[serde(default)]
    pub is_suspension: bool,
    /// The id of an erased user: the user's record was the only other place that led from the key to it.
    #[serde(default)]
    pub erased: Option<UserId>,
}

impl UserChange {
    pub const fn put(key: Key, existed: bool, after: Box<User>) -> Self {
        Self { key, existed, after: Some(after), is_suspension: false, erased: None }
    }
}

/// One change; each has a sequence number and an event of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Edge(EdgeChange),
    User(UserChange),
    Record(RecordChange),
}

impl Change {
    /// The owner in whose home it lies: an edge with its follower, a record with its owner.
    pub const fn owner(&self) -> Key {
        match self {
            Self::Edge(edge) => edge.follower,
            Self::User(user) => user.key,
            Self::Record(record) => record.owner,
        }
    }

    /// Whether readers of events see it.
    pub const fn is_public(&self) -> bool {
        match self {
            Self::Record(record) => record.space.is_public(),
            Self::Edge(_) | Self::User(_) => true,
        }
    }
}

/// The reply to the caller, short enough to be kept with an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The user exists as requested.
    User { created: bool, changed: bool },
    /// The edge is now `value`; `created` when this write made it, `changed` when it made any difference.
    Edge { value: EdgeValue, created: bool, changed: bool },
    /// The edge, the record or the user is gone; `changed` when there was one.
    Gone { changed: bool },
    /// The record exists as of `version`. Replies kept by an earlier version do not say whose it is.
    Record {
        version: Version,
        created: bool,
        changed: bool,
        #[serde(default)]
        owner: Option<Key>,
    },
    /// How many edges or posts of an erased user this write removed, and whether any are left.
    EdgesErased { removed: u32, left: bool },
}

impl Reply {
    pub const fn changed(&self) -> bool {
        match *self {
            Self::User { changed, .. }
            | Self::Edge { changed, .. }
            | Self::Gone { changed }
            | Self::Record { changed, .. } => changed,
            Self::EdgesErased { removed, .. } => removed > 0,
        }
    }
}

/// The decision on an operation, before it has a place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub reply: Reply,
    pub changes: SmallVec<[Change; 1]>,
}

/// Kept for a day with the key of a request, in the commit of its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    pub key: IdempotencyKey,
    pub version: Version,
    pub reply: Reply,
}

/// A committed operation. `apply` needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// A reader who has seen the store's log up to here has seen all of this outcome. Where the log counts changes one
    /// by one this is the sequence of the last change, or of the last one before when there is none.
    pub watermark: Watermark,
    pub version: Version,
    pub reply: Reply,
    pub changes: SmallVec<[Change; 1]>,
    /// Boxed: few writes have one, and outcomes are moved by the thousand.
    pub idempotency: Option<Box<IdempotencyRecord>>,
    /// What the write used of its actor's quota: no event, and no sequence of its own. Only with changes: it is in the
    /// log with them.
    #[serde(default)]
    pub quota: Option<QuotaChange>,
    /// The reply is that of an earlier request with the same key.
    pub replayed: bool,
}

impl Outcome {
    /// The changes with their sequences, in a log that counts changes one by one.
    pub fn numbered_changes(&self) -> impl Iterator<Item = (Sequence, &Change)> {
        let before = self.watermark.sequence().0 - self.changes.len() as u64;
        self.changes.iter().enumerate().map(move |(index, change)| (Sequence(before + 1 + index as u64), change))
    }

    /// The changes grouped by the owner in whose home they lie, in order of first appearance. Where a home has several
    /// owners, it keeps the changes of all of them.
    pub fn changes_by_owner(&self) -> Vec<(Key, Vec<&Change>)> {
        let mut groups: Vec<(Key, Vec<&Change>)> = Vec::new();
        let mut places: HashMap<Key, usize> = HashMap::new();
        for change in &self.changes {
            let place = *places.entry(change.owner()).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, changes)) => changes.push(change),
                None => groups.push((change.owner(), vec![change])),
            }
        }
        groups
    }

    /// The greatest version of its changes, over all homes: whatever comes after this outcome exceeds it.
    pub fn newest(&self) -> Version {
        let edges = self.changes.iter().filter_map(|change| match change {
            Change::Edge(edge) => Some(edge.after.version),
            Change::User(_) | Change::Record(_) => None,
        });
        edges.fold(self.version, Version::max)
    }

    /// Whether the commit has anything to write.
    pub fn is_logged(&self) -> bool {
        !self.changes.is_empty() || (self.idempotency.is_some() && !self.replayed)
    }
}

/// Why an operation was refused inside the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    SelfFollow,
    SelfBlock,
    SelfMute,
    UserNotFound,
    ActorNotFound,
    Blocked,
    FollowingLimit,
    QuietPrivate,
    IdTaken,
    IdempotencyMismatch,
    NoSuchRequest,
    NotParked,
    FollowSuspended,
    BeingErased,
    GroupNotFound,
    GroupLimit,
    GroupMemberLimit,
    GroupBeingRemoved,
    NotConnected,
    NotPrivate,
    PostIdTaken,
    PostTimeFull,
    RecordLimit,
    RecordTooLarge,
    RecordNotWritable,
    RecordChanged,
    CoolingDown { wait: Duration },
    ChallengeRequired,
    RateLimited { wait: Duration },
    Fenced,
}

impl Refusal {
    pub const fn code(self) -> Code {
        match self {
            Self::SelfFollow => Code::SelfFollow,
            Self::SelfBlock => Code::SelfBlock,
            Self::UserNotFound => Code::UserNotFound,
            Self::ActorNotFound => Code::ActorNotFound,
            Self::Blocked => Code::Blocked,
            Self::FollowingLimit => Code::FollowingLimit,
            Self::QuietPrivate => Code::QuietPrivate,
            Self::IdTaken | Self::PostIdTaken => Code::IdTaken,
            Self::IdempotencyMismatch => Code::IdempotencyMismatch,
            Self::NoSuchRequest | Self::NotParked => Code::NotFound,
            Self::FollowSuspended => Code::FollowSuspended,
            Self::BeingErased | Self::GroupBeingRemoved | Self::RecordChanged => Code::RequestInProgress,
            Self::GroupNotFound => Code::GroupNotFound,
            Self::GroupLimit | Self::GroupMemberLimit => Code::GroupLimit,
            Self::CoolingDown { .. } => Code::CoolingDown,
            Self::ChallengeRequired => Code::ChallengeRequired,
            Self::RateLimited { .. } => Code::RateLimited,
            Self::Fenced => Code::Fenced,
            Self::SelfMute
            | Self::NotConnected
            | Self::NotPrivate
            | Self::PostTimeFull
            | Self::RecordLimit
            | Self::RecordTooLarge
            | Self::RecordNotWritable => Code::InvalidRequest,
        }
    }

    const fn detail(self) -> &'static str {
        match self {
            Self::SelfFollow => "follower and target are the same user",
            Self::SelfBlock => "actor and target are the same user",
            Self::SelfMute => "nobody can mute themselves: the two ids are the same user",
            Self::UserNotFound => "no user with this id; create it with PUT /api/v1/users/{id}",
            Self::ActorNotFound => "the acting user was never created; create it with PUT /api/v1/users/{id}",
            Self::Blocked => "one of the two users blocks the other",
            Self::FollowingLimit => "the follower has reached limits.following_max",
            Self::QuietPrivate => "a private account sees its followers, so it cannot be followed quietly",
            Self::IdTaken => "another id has the same key; choose a different id",
            Self::IdempotencyMismatch => "this Idempotency-Key was used for another body; use a new key",
            Self::NoSuchRequest => "there is no follow request between these users",
            Self::NotParked => "there is no parked follow between these users",
            Self::FollowSuspended => "an administrator has suspended this account's right to follow",
            Self::BeingErased => "this id is being erased; try again shortly",
            Self::GroupNotFound => "the owner has no group with this id",
            Self::GroupLimit => "the owner has as many groups as one may have",
            Self::GroupMemberLimit => "a group has at most 10,000 members",
            Self::GroupBeingRemoved => "members of an earlier group with this id are being removed; try again shortly",
            Self::NotConnected => "a member of a group follows its owner or is followed by them",
            Self::NotPrivate => "an account that is not private has no requests",
            Self::PostIdTaken => "another author's post has this id",
            Self::PostTimeFull => "there is no free id for a post of this time",
            Self::RecordLimit => "the owner has as many records of this kind as one may have",
            Self::RecordTooLarge => "a record has at most 65,536 bytes",
            Self::RecordNotWritable => "no record can be written under this id",
            Self::RecordChanged => "the record was changed meanwhile; read it again",
            Self::CoolingDown { .. } => "this follow was made and ended too often within a day",
            Self::ChallengeRequired => {
                "after so many follows in an hour the header Entourage-Challenge must prove a solved challenge"
            }
            Self::RateLimited { .. } => "this user follows too fast",
            Self::Fenced => "another worker has taken this work over, at a greater epoch",
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let error = Self::new(refusal.code(), refusal.detail());
        match refusal {
            Refusal::CoolingDown { wait } | Refusal::RateLimited { wait } => error.retry_after(wait),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::{Cause, Kind, RecordId, Space};

    #[test]
    fn changes_are_grouped_by_the_owner_in_whose_home_they_lie() {
        let edge = |follower, target| {
            let (kind, cause, after) = (Kind::Follow, Cause::Block, EdgeValue::active(Version::from_bits(7)));
            Change::Edge(EdgeChange { kind, follower: Key(follower), target: Key(target), cause, before: None, after })
        };
        let record = |owner| {
            let (space, id, after) = (Space::Job, RecordId::new(b"x").unwrap(), Some(Box::default()));
            Change::Record(RecordChange { space, owner, id, before: None, after })
        };
        let user =
            Change::User(UserChange { key: Key(2), existed: true, after: None, is_suspension: false, erased: None });
        let changes: SmallVec<[Change; 1]> =
            smallvec![edge(1, 2), edge(2, 1), record(Key::SERVER), user, edge(1, 3), record(Key(1))];
        let outcome = Outcome {
            watermark: Watermark::at(Sequence(6)),
            version: Version::from_bits(7),
            reply: Reply::Gone { changed: true },
            changes: changes.clone(),
            idempotency: None,
            quota: None,
            replayed: false,
        };
        let all = |places: &[usize]| places.iter().map(|place| &changes[*place]).collect::<Vec<_>>();
        let expected = vec![(Key(1), all(&[0, 4, 5])), (Key(2), all(&[1, 3])), (Key::SERVER, all(&[2]))];
        assert_eq!(outcome.changes_by_owner(), expected);
    }
}
