//! Histories of concurrent writers: requests, when they were made, and replies. [`check`] judges them against the log
//! and the final state, also after a crash, when some got no reply.

mod check;
mod load;
#[cfg(test)]
mod proof;
mod timeline;

use entourage_model::{Code, Error, Key, Kind, Outcome, Sequence, Version};
use serde::{Deserialize, Serialize};

pub use self::{
    check::check,
    load::{Load, Ticks, drive},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Follow,
    FollowQuietly,
    Unfollow,
    Block,
    Unblock,
}

impl Verb {
    pub const ALL: [Self; 5] = [Self::Follow, Self::FollowQuietly, Self::Unfollow, Self::Block, Self::Unblock];

    pub const fn kind(self) -> Kind {
        match self {
            Self::Follow | Self::FollowQuietly | Self::Unfollow => Kind::Follow,
            Self::Block | Self::Unblock => Kind::Block,
        }
    }

    /// Whether the edge exists afterwards.
    pub const fn makes(self) -> bool {
        matches!(self, Self::Follow | Self::FollowQuietly | Self::Block)
    }
}

/// The request: `actor` does it to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Action {
    pub verb: Verb,
    pub actor: Key,
    pub target: Key,
}

impl Action {
    pub const fn link(&self) -> (Kind, Key, Key) {
        (self.verb.kind(), self.actor, self.target)
    }
}

/// The reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Acked. A client that does not learn the version or the watermark leaves them out.
    Ok { changed: bool, version: Option<Version>, watermark: Option<Sequence> },
    /// Refused for good, with this code: it did not happen.
    Fail(String),
    /// Unknown: it may have happened, or may still happen.
    Info,
}

impl Ending {
    /// `numbered`: as in the store's [`entourage_store::Guarantees`].
    pub fn of(result: &Result<Outcome, Error>, numbered: bool) -> Self {
        match result {
            Ok(outcome) => Self::Ok {
                changed: outcome.reply.changed(),
                version: Some(outcome.version),
                watermark: numbered.then_some(outcome.watermark.sequence()),
            },
            Err(error) if error.code().http_status() >= 500 => Self::Info,
            Err(error) => Self::Fail(error.code().as_str().to_owned()),
        }
    }

    pub(super) fn is_refusal(&self, code: Code) -> bool {
        matches!(self, Self::Fail(text) if text == code.as_str())
    }
}

/// One request of one client. Ticks are of one counter that all clients share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub client: usize,
    pub action: Action,
    pub invoked: u64,
    /// `None` without a reply.
    pub completed: Option<u64>,
    pub ending: Ending,
}
