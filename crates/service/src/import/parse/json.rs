//! A line of NDJSON: an object that is an edge, or a user.

use std::borrow::Cow;

use entourage_model::{KeyHasher, Millis, UserPatch};
use serde::{Deserialize, Deserializer};

use super::user;
use crate::import::{
    person::Person,
    row::{Entry, Reason},
    time::Times,
};

/// Fields that are not asked for are passed over: exports of other systems have more of them.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, alias = "follower_id")]
    follower: Option<Word<'a>>,
    #[serde(borrow, alias = "target_id", alias = "followee_id")]
    target: Option<Word<'a>>,
    #[serde(borrow)]
    created_at: Option<Word<'a>>,
    quiet: Option<bool>,
    #[serde(borrow)]
    id: Option<Word<'a>>,
    #[serde(default, deserialize_with = "clearable")]
    name: Option<Option<Box<str>>>,
    #[serde(default, deserialize_with = "clearable")]
    avatar_url: Option<Option<Box<str>>>,
    private: Option<bool>,
    hide_lists: Option<bool>,
    #[serde(borrow)]
    registered_at: Option<Word<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word<'a> {
    Whole(i64),
    Number(f64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

/// `null` clears a field; one that is not there says nothing of it.
fn clearable<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<Box<str>>>, D::Error> {
    Option::deserialize(input).map(Some)
}

impl Word<'_> {
    fn person(&self, keys: &KeyHasher) -> Result<Person, Reason> {
        match self {
            Self::Whole(number) => Person::parse(number.to_string().as_bytes(), keys),
            Self::Number(_) => Err(Reason::InvalidId),
            Self::Text(text) => Person::parse(text.as_bytes(), keys),
        }
    }

    fn time(&self, times: Times) -> Result<Millis, Reason> {
        match self {
            Self::Whole(number) => times.past_number(*number as f64),
            Self::Number(number) => times.past_number(*number),
            Self::Text(text) => times.past(text.as_bytes()),
        }
    }
}

pub(super) fn parse(line: &[u8], keys: &KeyHasher, times: Times) -> Result<Entry, Reason> {
    let text = std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)?;
    let object: Object<'_> = serde_json::from_str(text).map_err(|_| Reason::InvalidJson)?;
    let time = |word: &Option<Word<'_>>| word.as_ref().map(|word| word.time(times)).transpose();
    if let (Some(follower), Some(target)) = (&object.follower, &object.target) {
        return Ok(Entry::Edge {
            follower: follower.person(keys)?,
            target: target.person(keys)?,
            at: time(&object.created_at)?,
            quiet: object.quiet.unwrap_or(false),
        });
    }
    let id = object.id.as_ref().ok_or(Reason::MissingColumns)?;
    let patch = UserPatch {
        name: object.name,
        avatar_url: object.avatar_url,
        private: object.private,
        hide_lists: object.hide_lists,
        registered_at: time(&object.registered_at)?,
    };
    user(id.person(keys)?, patch)
}
