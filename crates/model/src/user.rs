//! A user's record and counts.

use serde::{Deserialize, Serialize};

use crate::{Key, Millis, UserId, Version};

/// An account as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub key: Key,
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
    pub private: bool,
    pub hide_lists: bool,
    /// An admin suspended the right to follow.
    #[serde(default)]
    pub follow_suspended: bool,
    pub registered_at: Millis,
    /// The version of its creation: an id created again is a new person with another one.
    pub created: Version,
    pub version: Version,
}

/// The number of edges in each list of a user; quiet ones are part of the totals and also counted separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub followers: u64,
    pub followers_quiet: u64,
    pub following: u64,
    pub following_quiet: u64,
    /// Requests this user has received.
    pub requests: u64,
    /// Requests this user has made.
    pub requested: u64,
}
