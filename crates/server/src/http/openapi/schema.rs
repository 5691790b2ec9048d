//! Schemas of values that many bodies share. `#[schemars(with = "…")]` names them where the code has text or a type of
//! the model.
#![allow(dead_code, reason = "these types are described, never made")]

use std::borrow::Cow;

use entourage_service::{AVATAR_URL_MAX_BYTES, GROUP_NAME_MAX_CHARS, NAME_MAX_BYTES};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! values {
    ($($(#[$doc:meta])* $name:ident $schema:tt;)*) => {$(
        $(#[$doc])*
        pub(in crate::http) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

values! {
    /// A user's id.
    Id {
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
        "description": "A user's id, the application's own: 1 to 128 bytes of UTF-8 without control characters",
        "examples": ["alice", "42"],
    };
    /// What a user is called.
    Name {
        "type": "string",
        "maxLength": NAME_MAX_BYTES,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$",
        "description": "What people call the user; bytes are counted, and there are no control characters",
        "examples": ["Alice"],
    };
    /// A group's name.
    GroupName {
        "type": "string",
        "minLength": 1,
        "maxLength": GROUP_NAME_MAX_CHARS,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
        "description": "What a user calls the group; no control characters",
        "examples": ["Friends"],
    };
    /// Where a user's picture is.
    AvatarUrl {
        "type": "string",
        "maxLength": AVATAR_URL_MAX_BYTES,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$",
        "description": "Where the user's picture is; bytes are counted, and there are no control characters",
        "examples": ["https://example.org/alice.png"],
    };
    /// A version or an id that is one.
    Version {
        "type": "string",
        "pattern": "^[0-9]{1,19}$",
        "description": "When it was written, as a number that only grows; text because it is beyond what JSON numbers \
                        keep exactly",
        "examples": ["3548741492736"],
    };
    /// RFC 3339.
    Time {
        "type": "string",
        "format": "date-time",
        "description": "RFC 3339, UTC, milliseconds",
        "examples": ["2026-01-02T03:04:05.678Z"],
    };
    /// Where a list goes on.
    Cursor {
        "type": "string",
        "description": "Opaque; `next_cursor` of the page before. Good for the same list seen by the same viewer only",
    };
    /// How many rows.
    PageLimit {
        "type": "integer",
        "minimum": 1,
        "maximum": 200,
        "default": 50,
        "description": "Rows of a page at most; it may have fewer and still have a next one",
    };
    /// How many rows of a feed.
    FeedLimit {
        "type": "integer",
        "minimum": 1,
        "maximum": 200,
        "default": 20,
        "description": "Posts of a page at most",
    };
    /// How many suggestions.
    SuggestionLimit {
        "type": "integer",
        "minimum": 1,
        "maximum": entourage_service::SUGGESTIONS_MAX,
        "default": entourage_service::SUGGESTIONS_MAX,
        "description": "Suggestions at most",
    };
    /// What orders friends of friends.
    Ranker {
        "type": "string",
        "enum": entourage_service::RankerName::ALL.map(entourage_service::RankerName::as_str),
        "description": "`common`: by how many of those whom the user follows follow somebody, then by Jaccard. \
                        `adamic_adar`: those who follow few count more. `recent`: those whom the user followed lately \
                        count more",
    };
    /// What a post says.
    PostBody {
        "type": "object",
        "additionalProperties": true,
        "description": "Any JSON object of at most 10,240 bytes, which comes back byte for byte as it was sent",
        "examples": [{ "text": "Hello" }],
    };
    /// The application's own name of a post.
    ExternalId {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
        "description": "The application's own name of a post, unique for its author: 1 to 255 bytes of UTF-8 without control characters",
        "examples": ["status-4711"],
    };
    /// How an author's posts travel.
    FanoutMode {
        "type": "string",
        "enum": ["auto", "push", "pull"],
        "description": "`auto`: by the number of followers; `push`: into inboxes; `pull`: read from the author",
    };
    /// Why a post is in a feed, or is not.
    Because {
        "type": "string",
        "enum": entourage_service::Because::ALL.map(entourage_service::Because::as_str),
        "description": "`pushed`: it is in the inbox. `pulled`: read from its author. `queued`: on its way into the \
                        inbox, shown all the same. `below_floor`: older than the inbox reaches back. `no_inbox`: the \
                        reader has none. `own`: the reader wrote it",
    };
    /// The state of an edge.
    State {
        "type": "string",
        "enum": entourage_model::State::ALL.map(entourage_model::State::as_str),
        "description": "`pending`: asked, not accepted; `parked`: in quarantine; `removed`: history only",
    };
}
