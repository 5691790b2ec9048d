//! The operations of a store: a closed list, each atomic by itself, each with its conditions.

use serde::{Deserialize, Serialize};

use crate::{Condition, Fence, FollowLimits, Key, Millis, RecordId, Space, UserId, Version, WorkProgress};

/// Why an edge changed: what distinguishes `follow.cancelled` from `follow.rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The follower's own action.
    Follower = 0,
    /// The target accepted, rejected or removed the follower.
    Target = 1,
    /// A block removed the edge.
    Block = 2,
    /// An import.
    Import = 3,
    /// One of the two was erased.
    Erase = 4,
}

impl Cause {
    pub const ALL: [Self; 5] = [Self::Follower, Self::Target, Self::Block, Self::Import, Self::Erase];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What happens to an existing user, and to a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Overwrite {
    /// Create, or replace name and avatar (`PUT`).
    Replace,
    /// Merge into what exists; unknown users are refused (`PATCH`).
    Merge,
    /// Create if missing, else change nothing (first use with `users.auto_create`).
    Keep,
}

/// Fields of a user; the outer `None` leaves the field alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPatch {
    pub name: Option<Option<Box<str>>>,
    pub avatar_url: Option<Option<Box<str>>>,
    pub private: Option<bool>,
    pub hide_lists: Option<bool>,
    pub registered_at: Option<Millis>,
}

/// One operation of a write. Conditions that must hold under races are part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    PutUser {
        key: Key,
        id: UserId,
        patch: UserPatch,
        overwrite: Overwrite,
    },
    /// `cap` bounds active + pending + parked edges of the follower; `None` is no bound. `quiet: None` keeps the
    /// current value. `park`: a new edge that others would see becomes parked, and so does a quiet one that is to be
    /// seen from now on. Quiet follows are not parked: nobody but the follower sees or counts them.
    Follow {
        follower: Key,
        target: Key,
        quiet: Option<bool>,
        cap: Option<u64>,
        park: bool,
    },
    /// Also cancels a request.
    Unfollow {
        follower: Key,
        target: Key,
    },
    /// The target removes a follower (or a request). A quiet or parked follower is removed, too; unless `sees_quiet`,
    /// the reply is the same as for a user who did not follow.
    RemoveFollower {
        target: Key,
        follower: Key,
        sees_quiet: bool,
    },
    Accept {
        target: Key,
        follower: Key,
    },
    Reject {
        target: Key,
        follower: Key,
    },
    /// Ends the quarantine of a parked edge: accepted it becomes active, or a request on a private account; otherwise
    /// it is dropped.
    Release {
        target: Key,
        follower: Key,
        accept: bool,
    },
    /// Removes follow edges in both directions.
    Block {
        actor: Key,
        target: Key,
    },
    Unblock {
        actor: Key,
        target: Key,
    },
    /// Muting again with another expiry changes it.
    Mute {
        actor: Key,
        target: Key,
        expires_at: Option<Millis>,
    },
    Unmute {
        actor: Key,
        target: Key,
    },
    /// Removes a mute that has ended by `now`; a renewed one stays.
    ExpireMute {
        actor: Key,
        target: Key,
        now: Millis,
    },
    /// An edge from a file: no request, no cap; blocks still refuse it. An existing edge stays as it is.
    Import {
        follower: Key,
        target: Key,
        at: Millis,
        quiet: bool,
    },
    /// A request from a file, for a private account. An existing edge stays as it is.
    ImportRequest {
        follower: Key,
        target: Key,
        at: Millis,
    },
    /// A block from a file: removes follow edges as any block does. An existing one stays as it is.
    ImportBlock {
        actor: Key,
        target: Key,
        at: Millis,
    },
    /// A mute from a file. An existing one stays as it is.
    ImportMute {
        actor: Key,
        target: Key,
        at: Millis,
        expires_at: Option<Millis>,
    },
    /// Suspends the right to follow, or restores it.
    Suspend {
        key: Key,
        suspended: bool,
    },
    /// Writes a record, or removes it (`value` is `None`). `owner` is a user or the server; `cap` bounds the
    /// records of this owner in this space. Members of groups are written with `GroupMember`. Removing a group
    /// removes its members with it, a bounded number in one commit: repeat it while it changes something.
    PutRecord {
        space: Space,
        owner: Key,
        id: RecordId,
        value: Option<Box<[u8]>>,
        condition: Condition,
        cap: Option<u32>,
    },
    /// Writes a new record, whose id is [`RecordId::of_version`] of the commit: a retry gets the same one.
    AddRecord {
        space: Space,
        owner: Key,
        value: Box<[u8]>,
        cap: Option<u32>,
    },
    /// Writes a new post, with the record of its author: its id is [`RecordId::of_version`] of the commit. `PutRecord`
    /// replaces its body and removes it. If this author has a post with that external id, that post is the reply and
    /// nothing is written.
    Post {
        author: Key,
        value: Box<[u8]>,
    },
    /// A post from a file, under its old id, or under a free one in its millisecond. An existing one stays as it is.
    ImportPost {
        author: Key,
        at: Millis,
        id: Option<Version>,
        value: Box<[u8]>,
    },
    /// Puts a user into a group, or takes them out of it.
    GroupMember {
        owner: Key,
        group: RecordId,
        member: Key,
        present: bool,
    },
    /// The user is gone at once, with their records and history; edges and posts stay until they are erased, too. With
    /// `created` only the person created then: a new owner of the id stays.
    Erase {
        key: Key,
        created: Option<Version>,
    },
    /// Removes up to `limit` (at most 1,000) edges of an erased user, or once there are none half as many posts; for
    /// any other user it does nothing.
    EraseEdges {
        key: Key,
        limit: usize,
    },
    /// Changes nothing: only the idempotency key it comes with is kept.
    Nothing,
}

/// Recognises a retry: hashes made by the front from (credential, actor, method, path, key) and from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    pub scope: [u8; 16],
    pub request: u64,
}

/// An operation on its way into a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub operation: Operation,
    pub idempotency: Option<IdempotencyKey>,
    /// The commit's version exceeds it.
    pub floor: Version,
    /// A server record in [`Space::Job`] that counts, in this very commit, the edges and posts it changes: in the
    /// bucket of [`Operation::home`].
    pub tally: Option<RecordId>,
    /// Limits of new follows; without them there is no limit but the cap. Other operations have none.
    pub limits: Option<FollowLimits>,
    /// The lease under which a worker writes. Boxed, as few writes have one.
    pub fence: Option<Box<Fence>>,
    pub progress: Option<Box<WorkProgress>>,
}

impl From<Operation> for Write {
    fn from(operation: Operation) -> Self {
        Self {
            operation,
            idempotency: None,
            floor: Version::ZERO,
            tally: None,
            limits: None,
            fence: None,
            progress: None,
        }
    }
}

impl Operation {
    /// The user in whose home it is decided: the owner of the edge or record it changes.
    pub fn home(&self) -> Key {
        match *self {
            // The follower owns the edge.
            Self::RemoveFollower { follower, .. }
            | Self::Accept { follower, .. }
            | Self::Reject { follower, .. }
            | Self::Release { follower, .. } => follower,
            // A server record about one user.
            Self::PutRecord { space, owner, ref id, .. } if owner.is_server() => {
                let about = match space {
                    Space::Fanout | Space::Erased => id.key(),
                    Space::Job => id.mute_end().map(|(_, actor, _)| actor),
                    _ => None,
                };
                about.unwrap_or(owner)
            }
            ref other => other.parties().0,
        }
    }

    /// The user whose own data this changes, and the other one.
    pub const fn parties(&self) -> (Key, Option<Key>) {
        match *self {
            Self::PutUser { key, .. }
            | Self::Suspend { key, .. }
            | Self::PutRecord { owner: key, .. }
            | Self::AddRecord { owner: key, .. }
            | Self::Post { author: key, .. }
            | Self::ImportPost { author: key, .. }
            | Self::Erase { key, .. }
            | Self::EraseEdges { key, .. } => (key, None),
            Self::Nothing => (Key::SERVER, None),
            Self::GroupMember { owner, member, .. } => (owner, Some(member)),
            Self::Follow { follower, target, .. }
            | Self::Unfollow { follower, target }
            | Self::Import { follower, target, .. }
            | Self::ImportRequest { follower, target, .. } => (follower, Some(target)),
            Self::RemoveFollower { target, follower, .. }
            | Self::Release { target, follower, .. }
            | Self::Accept { target, follower }
            | Self::Reject { target, follower } => (target, Some(follower)),
            Self::Block { actor, target }
            | Self::Unblock { actor, target }
            | Self::Mute { actor, target, .. }
            | Self::Unmute { actor, target }
            | Self::ExpireMute { actor, target, .. }
            | Self::ImportBlock { actor, target, .. }
            | Self::ImportMute { actor, target, .. } => (actor, Some(target)),
        }
    }
}
