//! One line as it was understood, or why it was not.

use std::ops::Range;

use entourage_model::{Code, Millis, UserPatch};

use super::person::Person;

/// How much of a line a reject keeps.
const TEXT_MAX_BYTES: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Edge { follower: Person, target: Person, at: Option<Millis>, quiet: bool },
    User { person: Person, patch: Box<UserPatch> },
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) line: u64,
    /// Its place in the text of the chunk.
    pub(super) text: Range<usize>,
    pub(super) entry: Entry,
}

/// Why a line was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reason {
    LineTooLong,
    NotUtf8,
    BrokenQuotes,
    MissingColumns,
    TooManyColumns,
    InvalidJson,
    InvalidId,
    InvalidTime,
    TimeBefore2000,
    TimeInFuture,
    InvalidFlag,
    InvalidName,
    InvalidAvatarUrl,
    /// What was erased under this id is not all gone yet.
    BeingErased,
    /// What the rules or the store said.
    Refused(Code),
}

impl Reason {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::LineTooLong => "line_too_long",
            Self::NotUtf8 => "not_utf8",
            Self::BrokenQuotes => "broken_quotes",
            Self::MissingColumns => "missing_columns",
            Self::TooManyColumns => "too_many_columns",
            Self::InvalidJson => "invalid_json",
            Self::InvalidId => "invalid_id",
            Self::InvalidTime => "invalid_time",
            Self::TimeBefore2000 => "time_before_2000",
            Self::TimeInFuture => "time_in_future",
            Self::InvalidFlag => "invalid_flag",
            Self::InvalidName => "invalid_name",
            Self::InvalidAvatarUrl => "invalid_avatar_url",
            Self::BeingErased => "being_erased",
            Self::Refused(code) => code.as_str(),
        }
    }
}

/// A line that was left out, as much of it as helps to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reject {
    pub(super) line: u64,
    pub(super) reason: Reason,
    pub(super) text: String,
}

impl Reject {
    pub(super) fn new(line: u64, reason: Reason, text: &[u8]) -> Self {
        let kept = text.get(..TEXT_MAX_BYTES).unwrap_or(text);
        Self { line, reason, text: String::from_utf8_lossy(kept).into_owned() }
    }
}
