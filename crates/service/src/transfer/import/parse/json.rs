//! A line of NDJSON: an object that says in `type` what it is, or an edge or a user without it.

use std::borrow::Cow;

use entourage_model::{KeyHasher, Millis, UserPatch};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{NO_SCORE, Written, group, score, scored, user};
use crate::import::{
    columns::Subject,
    person::Person,
    row::{Entry, Reason},
    time::Times,
};

/// Fields that are not asked for are passed over: exports of other systems have more of them.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, rename = "type")]
    subject: Option<Cow<'a, str>>,
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
    #[serde(borrow)]
    requester: Option<Word<'a>>,
    #[serde(borrow)]
    blocker: Option<Word<'a>>,
    #[serde(borrow)]
    blocked: Option<Word<'a>>,
    #[serde(borrow)]
    muter: Option<Word<'a>>,
    #[serde(borrow)]
    muted: Option<Word<'a>>,
    #[serde(borrow)]
    expires_at: Option<Word<'a>>,
    #[serde(borrow)]
    owner: Option<Word<'a>>,
    #[serde(borrow)]
    group: Option<Word<'a>>,
    #[serde(borrow)]
    member: Option<Word<'a>>,
    #[serde(borrow)]
    author: Option<Word<'a>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    external_id: Option<Word<'a>>,
    #[serde(borrow)]
    edited_at: Option<Word<'a>>,
    #[serde(borrow, alias = "user_id")]
    user: Option<Word<'a>>,
    #[serde(borrow, alias = "suggested_id")]
    suggested: Option<Word<'a>>,
    #[serde(borrow)]
    score: Option<Word<'a>>,
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
    fn text(&self) -> Result<Cow<'_, str>, Reason> {
        match self {
            Self::Whole(number) => Ok(number.to_string().into()),
            Self::Number(_) => Err(Reason::InvalidId),
            Self::Text(text) => Ok(text.as_ref().into()),
        }
    }

    fn score(&self) -> Result<u64, Reason> {
        match self {
            Self::Whole(number) => scored(*number as f64),
            Self::Number(number) => scored(*number),
            Self::Text(text) => score(text),
        }
    }

    fn past(&self, times: Times) -> Result<Millis, Reason> {
        match self {
            Self::Whole(number) => times.past_number(*number as f64),
            Self::Number(number) => times.past_number(*number),
            Self::Text(text) => times.past(text.as_bytes()),
        }
    }

    fn end(&self, times: Times) -> Result<Millis, Reason> {
        match self {
            Self::Whole(number) => times.end_number(*number as f64),
            Self::Number(number) => times.end_number(*number),
            Self::Text(text) => times.end(text.as_bytes()),
        }
    }
}

pub(super) fn parse(line: &[u8], keys: &KeyHasher, times: Times) -> Result<Entry, Reason> {
    let text = std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)?;
    let object: Object<'_> = serde_json::from_str(text).map_err(|_| Reason::InvalidJson)?;
    let subject = object.subject()?;
    let person = |word: &Option<Word<'_>>| -> Result<Person, Reason> {
        Person::parse(word.as_ref().ok_or(Reason::MissingColumns)?.text()?.as_bytes(), keys)
    };
    let past = |word: &Option<Word<'_>>| word.as_ref().map(|word| word.past(times)).transpose();
    let text = |word: &Option<Word<'_>>| -> Result<Option<String>, Reason> {
        word.as_ref().map(|word| word.text().map(Cow::into_owned)).transpose()
    };
    let at = past(&object.created_at)?;
    match subject {
        Subject::Follow => {
            let (follower, target) = (person(&object.follower)?, person(&object.target)?);
            Ok(Entry::Edge { follower, target, at, quiet: object.quiet.unwrap_or(false) })
        }
        Subject::Request => {
            let (follower, target) = (person(&object.requester)?, person(&object.target)?);
            Ok(Entry::Request { follower, target, at })
        }
        Subject::Block => {
            let (actor, target) = (person(&object.blocker)?, person(&object.blocked)?);
            Ok(Entry::Block { actor, target, at })
        }
        Subject::Mute => {
            let (actor, target) = (person(&object.muter)?, person(&object.muted)?);
            let expires_at = object.expires_at.as_ref().map(|word| word.end(times)).transpose()?;
            Ok(Entry::Mute { actor, target, at, expires_at })
        }
        Subject::Group => {
            let name = object.name.as_ref().and_then(Option::as_deref).ok_or(Reason::MissingColumns)?;
            group(person(&object.owner)?, text(&object.id)?.as_deref(), name, at, times)
        }
        Subject::GroupMember => {
            let (owner, member) = (person(&object.owner)?, person(&object.member)?);
            let group = text(&object.group)?.ok_or(Reason::MissingColumns)?.into();
            Ok(Entry::Member { owner, group, member })
        }
        Subject::Post => {
            let (id, external_id) = (text(&object.id)?, text(&object.external_id)?);
            let written = Written {
                id: id.as_deref(),
                at,
                edited_at: past(&object.edited_at)?,
                external_id: external_id.as_deref(),
                body: object.body.ok_or(Reason::MissingColumns)?.get(),
            };
            written.entry(person(&object.author)?, times)
        }
        Subject::Suggestion => {
            let (user, suggested) = (person(&object.user)?, person(&object.suggested)?);
            let score = object.score.as_ref().map_or(Ok(NO_SCORE), Word::score)?;
            Ok(Entry::Suggestion { user, suggested, score })
        }
        Subject::User => {
            let id = person(&object.id)?;
            let patch = UserPatch {
                registered_at: past(&object.registered_at)?,
                name: object.name,
                avatar_url: object.avatar_url,
                private: object.private,
                hide_lists: object.hide_lists,
            };
            user(id, patch)
        }
    }
}

impl Object<'_> {
    fn subject(&self) -> Result<Subject, Reason> {
        match self.subject.as_deref() {
            None if self.follower.is_some() && self.target.is_some() => Ok(Subject::Follow),
            None if self.user.is_some() && self.suggested.is_some() => Ok(Subject::Suggestion),
            None => Ok(Subject::User),
            Some(name) => Subject::named(name).ok_or(Reason::UnknownType),
        }
    }
}
