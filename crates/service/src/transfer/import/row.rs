//! One line as it was understood, or why it was not.

use std::ops::Range;

use entourage_model::{Code, Key, Millis, UserPatch, Version};

use super::person::Person;

/// How much of a line a reject keeps.
const TEXT_MAX_BYTES: usize = 1_000;

/// Times are `None` where the line has none: then it is as old as the import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Edge {
        follower: Person,
        target: Person,
        at: Option<Millis>,
        quiet: bool,
    },
    Request {
        follower: Person,
        target: Person,
        at: Option<Millis>,
    },
    Block {
        actor: Person,
        target: Person,
        at: Option<Millis>,
    },
    Mute {
        actor: Person,
        target: Person,
        at: Option<Millis>,
        expires_at: Option<Millis>,
    },
    User {
        person: Person,
        patch: Box<UserPatch>,
    },
    /// With the id that it had, or none.
    Group {
        owner: Person,
        id: Option<Version>,
        name: Box<str>,
        at: Option<Millis>,
    },
    /// `group` is the id or the name of one of the owner's.
    Member {
        owner: Person,
        group: Box<str>,
        member: Person,
    },
    Post {
        author: Person,
        id: Option<Version>,
        at: Option<Millis>,
        /// As it is stored.
        value: Box<[u8]>,
    },
    /// `score` orders as the number of the line does.
    Suggestion {
        user: Person,
        suggested: Person,
        score: u64,
    },
}

impl Entry {
    /// Whom the line names.
    pub(super) fn people(&self) -> impl Iterator<Item = &Person> {
        let (one, other) = match self {
            Self::Edge { follower, target, .. } | Self::Request { follower, target, .. } => (follower, Some(target)),
            Self::Block { actor, target, .. } | Self::Mute { actor, target, .. } => (actor, Some(target)),
            Self::Member { owner, member, .. } => (owner, Some(member)),
            Self::User { person, .. } => (person, None),
            Self::Group { owner, .. } => (owner, None),
            Self::Post { author, .. } => (author, None),
            Self::Suggestion { user, suggested, .. } => (user, Some(suggested)),
        };
        [Some(one), other].into_iter().flatten()
    }

    /// The follow or the request that this would make.
    pub(super) fn follow(&self) -> Option<(Key, Key)> {
        match self {
            Self::Edge { follower, target, .. } | Self::Request { follower, target, .. } => {
                Some((follower.key, target.key))
            }
            _ => None,
        }
    }

    /// Whether both ends are one.
    pub(super) fn is_to_self(&self) -> bool {
        match self {
            Self::Edge { follower: one, target: other, .. }
            | Self::Request { follower: one, target: other, .. }
            | Self::Block { actor: one, target: other, .. }
            | Self::Mute { actor: one, target: other, .. }
            | Self::Suggestion { user: one, suggested: other, .. } => one.key == other.key,
            _ => false,
        }
    }

    /// What is said of that.
    pub(super) const fn self_reason(&self) -> Reason {
        match self {
            Self::Mute { .. } => Reason::SelfMute,
            Self::Suggestion { .. } => Reason::SelfSuggestion,
            Self::Block { .. } => Reason::Refused(Code::SelfBlock),
            _ => Reason::Refused(Code::SelfFollow),
        }
    }

    /// The account that this may have made public.
    pub(super) fn opens(&self) -> Option<Key> {
        match self {
            Self::User { person, patch } if patch.private == Some(false) => Some(person.key),
            _ => None,
        }
    }

    /// Why the rules refuse it, where a code says too little.
    pub(super) const fn refused(&self, code: Code) -> Reason {
        match (self, code) {
            (Self::Request { .. }, Code::InvalidRequest) => Reason::NotPrivate,
            (Self::Member { .. }, Code::InvalidRequest) => Reason::NotConnected,
            (Self::Post { .. }, Code::InvalidRequest) => Reason::NoFreeId,
            (Self::Suggestion { .. }, Code::InvalidRequest) => Reason::TooManySuggestions,
            (Self::Group { .. }, Code::RequestInProgress) => Reason::BeingErased,
            _ => Reason::Refused(code),
        }
    }
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
    InvalidBody,
    InvalidExternalId,
    UnknownType,
    /// A mute that ends before it begins.
    AlreadyOver,
    SelfMute,
    SelfSuggestion,
    InvalidScore,
    /// The user has as many as are kept for one.
    TooManySuggestions,
    NotPrivate,
    NotConnected,
    NoFreeId,
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
            Self::InvalidBody => "invalid_body",
            Self::InvalidExternalId => "invalid_external_id",
            Self::UnknownType => "unknown_type",
            Self::AlreadyOver => "already_over",
            Self::SelfMute => "self_mute",
            Self::SelfSuggestion => "self_suggestion",
            Self::InvalidScore => "invalid_score",
            Self::TooManySuggestions => "too_many_suggestions",
            Self::NotPrivate => "not_private",
            Self::NotConnected => "not_connected",
            Self::NoFreeId => "no_free_id",
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
