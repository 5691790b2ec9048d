//! Limits of one client, by name here or in the settings.

use std::time::Duration;

use crate::Connections;

/// Before `AUTH`: enough for `HELLO` with all options.
const ARGUMENTS_BEFORE_AUTH: usize = 16;
const BULK_BYTES_BEFORE_AUTH: usize = 512;
const COMMAND_BYTES_BEFORE_AUTH: usize = 4 << 10;
/// One command with all its arguments.
const COMMAND_BYTES: usize = 1 << 20;
/// A line of an inline command.
const INLINE_BYTES: usize = 64 << 10;

/// The first and the largest read buffer while commands are short.
pub(super) const READ_BYTES: usize = 16 << 10;
pub(super) const READ_BYTES_MAX: usize = 64 << 10;
/// Replies beyond this are sent before the next command is parsed.
pub(super) const OUTPUT_BYTES: usize = 256 << 10;
/// The largest single write: longer replies are sent in pieces.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// Bytes of commands and of replies that cost a connection one unit of its [share](entourage_store::share). A command
/// that is answered by itself costs one more.
pub(super) const COMMAND_BYTES_A_UNIT: usize = 1 << 10;
pub(super) const REPLY_BYTES_A_UNIT: usize = 16 << 10;
/// Commands of one `MULTI`, and their bytes.
pub(super) const TRANSACTION_COMMANDS: usize = 10_000;
pub(super) const TRANSACTION_BYTES: usize = 1 << 20;
/// Rows of one reply, and the highest rank.
pub(super) const ROWS_MAX: usize = 10_000;

/// From connecting to `AUTH`, where it is required.
pub(super) const AUTH_SECONDS: u64 = 8;
/// From the first byte of a command to its last.
pub(super) const COMMAND_SECONDS: u64 = 10;
/// How long a client may not read.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much and how long input is drained after the last reply.
pub(super) const LINGER_BYTES: usize = 4 << 20;
pub(super) const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// The deadline of a reply.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    pub connections: Connections,
    /// `None` is forever.
    pub idle: Option<Duration>,
    /// Of one command, its name included.
    pub arguments: usize,
    pub bulk_bytes: usize,
    pub feed_member: FeedMember,
}

/// What names a post in `feed:{u}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMember {
    Id,
    /// The external id, if a post has one.
    ExternalId,
}

impl Default for RespLimits {
    fn default() -> Self {
        Self {
            connections: Connections { max: 10_000, per_address: Some(256) },
            idle: Some(Duration::from_secs(600)),
            arguments: 1_024,
            bulk_bytes: 16 << 10,
            feed_member: FeedMember::Id,
        }
    }
}

/// What the parser lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) arguments: usize,
    pub(super) bulk: usize,
    pub(super) command: usize,
    pub(super) inline: usize,
}

impl RespLimits {
    pub(super) fn bounds(&self, authenticated: bool) -> Bounds {
        if authenticated {
            return Bounds {
                arguments: self.arguments,
                bulk: self.bulk_bytes,
                command: COMMAND_BYTES,
                inline: INLINE_BYTES,
            };
        }
        Bounds {
            arguments: self.arguments.min(ARGUMENTS_BEFORE_AUTH),
            bulk: self.bulk_bytes.min(BULK_BYTES_BEFORE_AUTH),
            command: COMMAND_BYTES_BEFORE_AUTH,
            inline: COMMAND_BYTES_BEFORE_AUTH,
        }
    }
}
