//! What can be asked of a store: a closed list, each atomic by itself, each with its conditions.

use serde::{Deserialize, Serialize};

use crate::{Key, Millis, UserId, Version};

/// Why an edge changed: what tells `follow.cancelled` from `follow.rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The follower's own doing.
    Follower = 0,
    /// The target accepted, rejected or removed the follower.
    Target = 1,
    /// A block took the edge away.
    Block = 2,
    /// A file brought it.
    Import = 3,
    /// One of the two was erased.
    Erase = 4,
}

/// What happens to a user that exists, and to one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Overwrite {
    /// Create, or replace name and avatar (`PUT`).
    Replace,
    /// Merge into what exists; unknown users are refused (`PATCH`).
    Merge,
    /// Create if missing, else change nothing (first use with `users.auto_create`).
    Keep,
}

/// Fields of a user; the outer `None` says nothing of the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPatch {
    pub name: Option<Option<Box<str>>>,
    pub avatar_url: Option<Option<Box<str>>>,
    pub private: Option<bool>,
    pub hide_lists: Option<bool>,
    pub registered_at: Option<Millis>,
}

/// One operation of the write verb. Conditions that must hold under races travel with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    PutUser {
        key: Key,
        id: UserId,
        patch: UserPatch,
        overwrite: Overwrite,
    },
    /// `cap` bounds active + pending + parked edges of the follower; `None` is no bound.
    Follow {
        follower: Key,
        target: Key,
        quiet: bool,
        cap: Option<u64>,
    },
    /// Also cancels a request.
    Unfollow {
        follower: Key,
        target: Key,
    },
    /// The target takes a follower (or a request) away.
    RemoveFollower {
        target: Key,
        follower: Key,
    },
    Accept {
        target: Key,
        follower: Key,
    },
    Reject {
        target: Key,
        follower: Key,
    },
    /// Takes follow edges away in both directions.
    Block {
        actor: Key,
        target: Key,
    },
    Unblock {
        actor: Key,
        target: Key,
    },
    Mute {
        actor: Key,
        target: Key,
    },
    Unmute {
        actor: Key,
        target: Key,
    },
    /// An edge from a file: no request, no cap; blocks still refuse it. An existing edge stays as it is.
    Import {
        follower: Key,
        target: Key,
        at: Millis,
        quiet: bool,
    },
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
    /// The commit's version will be greater.
    pub floor: Version,
}

impl From<Operation> for Write {
    fn from(operation: Operation) -> Self {
        Self { operation, idempotency: None, floor: Version::ZERO }
    }
}

impl Operation {
    /// The user whose own things this changes, and the other one.
    pub const fn parties(&self) -> (Key, Option<Key>) {
        match *self {
            Self::PutUser { key, .. } => (key, None),
            Self::Follow { follower, target, .. }
            | Self::Unfollow { follower, target }
            | Self::Import { follower, target, .. } => (follower, Some(target)),
            Self::RemoveFollower { target, follower }
            | Self::Accept { target, follower }
            | Self::Reject { target, follower } => (target, Some(follower)),
            Self::Block { actor, target }
            | Self::Unblock { actor, target }
            | Self::Mute { actor, target }
            | Self::Unmute { actor, target } => (actor, Some(target)),
        }
    }
}
