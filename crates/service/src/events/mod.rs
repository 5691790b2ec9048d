//! Events as services read them: ids instead of keys, nothing that an erased person said of themselves, and a cursor to
//! go on from.

mod stream;
mod stream_hub;

use std::sync::Arc;

use entourage_model::{
    Code, Error, Event, EventBody, EventCursor, EventPositions, Key, Post, RecordId, Result, Space, User, UserId,
    Version,
};
use entourage_store::{StoreExt as _, Whose};
use hashbrown::HashMap;

pub use self::stream::EventStream;
pub(crate) use self::stream_hub::{Hint, Hints, Listening, StreamHub};
use crate::{Call, CaseSummary, Context, Limit, graph::group, ids::shown_id, import::Tally};

/// How many pages of the store's own events one call reads past; after that the caller goes on from there.
const PRIVATE_PAGES_MAX: usize = 50;
/// How often a reader without a cursor begins anew because the oldest events went meanwhile.
const BEGINNINGS_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    pub cursor: String,
    /// Without name, picture, body or group name of users who were erased since.
    pub event: Event,
    /// The user; the ends of an edge, a group's owner and member, or a post's author as the first of two. `None` where
    /// there is none, and for users whom an earlier version of this program erased.
    pub follower: Option<UserId>,
    pub target: Option<UserId>,
    /// What an import that ended came to.
    pub import: Option<Tally>,
    /// A post as it was written or replaced.
    pub post: Option<Post>,
    /// The name of a group: as it was written, or, where a member came or went, as it is now.
    pub group: Option<Box<str>>,
    /// What a case of suspected abuse is about; the event's ends are its first actor and its first target.
    pub case: Option<CaseSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    pub rows: Vec<EventRow>,
    /// Where to go on, also when nothing more is there yet.
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

/// Events that readers are shown, each with how far the log was read with it.
struct Found {
    shown: Vec<(EventPositions, Event)>,
    read_to: EventPositions,
    /// More may follow.
    has_more: bool,
}

/// Reads and streams of events.
pub struct Events {
    context: Arc<Context>,
}

impl Events {
    pub(crate) const fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// Without a cursor from the oldest event that is kept.
    pub async fn events(&self, call: &Call, after: Option<&str>, limit: Limit) -> Result<EventPage> {
        call.must_be_service()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        if let Some(text) = after {
            let start = self.context.event_positions(text)?;
            let found = self.public_events(start.clone(), limit).await;
            let Found { shown, read_to, has_more } = found.map_err(|error| self.with_resume_cursor(error))?;
            let next_cursor = Some(if read_to == start { text.to_owned() } else { self.context.event_cursor(read_to) });
            return Ok(EventPage { rows: self.rows_of(shown).await?, next_cursor, has_more });
        }
        let mut start = self.context.first_events();
        for _ in 0..BEGINNINGS_MAX {
            match self.public_events(start, limit).await {
                Err(error) if error.code() == Code::EventsExpired => start = kept_after(&error).ok_or(error)?,
                other => {
                    let Found { shown, read_to, has_more } = other?;
                    let next_cursor =
                        (read_to != self.context.first_events()).then(|| self.context.event_cursor(read_to));
                    return Ok(EventPage { rows: self.rows_of(shown).await?, next_cursor, has_more });
                }
            }
        }
        Err(Error::unavailable("the oldest events are being dropped; try again"))
    }

    /// The next events that readers are shown.
    async fn public_events(&self, start: EventPositions, limit: Limit) -> Result<Found> {
        let (mut shown, mut read_to, mut has_more) = (Vec::new(), start, true);
        for _ in 0..PRIVATE_PAGES_MAX {
            let page = self.context.store.events_since(&mut read_to, limit.get() + 1).await?;
            has_more = page.len() > limit.get();
            for (partition, event) in page {
                read_to.advance(partition, event.sequence);
                if event.is_public() {
                    shown.push((read_to.clone(), event));
                }
            }
            if shown.len() > limit.get() || !has_more {
                break;
            }
        }
        if shown.len() > limit.get() {
            has_more = true;
            shown.truncate(limit.get());
            read_to = shown.last().map_or(read_to, |(position, _)| position.clone());
        }
        Ok(Found { shown, read_to, has_more })
    }

    async fn rows_of(&self, shown: Vec<(EventPositions, Event)>) -> Result<Vec<EventRow>> {
        let events: Vec<&Event> = shown.iter().map(|(_, event)| event).collect();
        let people = self.people_of(&events).await?;
        let groups = self.group_names(&events).await?;
        let row = |(read_to, mut event): (EventPositions, Event)| {
            people.redact(&mut event);
            let [follower, target] = ends(&event).map(|key| key.and_then(|key| people.id(key, event.version)));
            let (import, post) = (Tally::of(&event), post_of(&event));
            let group = match group_of(&event) {
                Some(GroupName::Written(name)) => name,
                Some(GroupName::Of(group)) => groups.get(&group).cloned(),
                None => None,
            };
            let (cursor, case) = (self.context.event_cursor(read_to), CaseSummary::of(&event));
            EventRow { cursor, event, follower, target, import, post, group, case }
        };
        Ok(shown.into_iter().map(row).collect())
    }

    async fn people_of(&self, events: &[&Event]) -> Result<People> {
        let mut keys: Vec<Key> = events.iter().flat_map(|event| ends(event)).flatten().collect();
        keys.sort_unstable();
        keys.dedup();
        let users = self.context.users_by_key(&keys).await?;
        // An id that is a number is its own key; others may have gone, or belong to another user by now.
        let buckets = self.context.store.guarantees().buckets;
        let named: Vec<(Key, RecordId)> =
            keys.iter().filter(|key| **key < Key(0)).map(|key| (buckets.of(*key), RecordId::of_key(*key))).collect();
        let mut erased = HashMap::new();
        for record in self.context.store.get_records(Space::Erased, &named).await?.into_iter().flatten() {
            let id = std::str::from_utf8(&record.value).ok().and_then(|text| UserId::try_from(text).ok());
            erased.extend(record.id.key().zip(id));
        }
        Ok(People { users, erased })
    }

    /// Names of the groups whose members came or went, as they are now.
    async fn group_names(&self, events: &[&Event]) -> Result<HashMap<(Key, RecordId), Box<str>>> {
        let mut wanted: Vec<(Key, RecordId)> = Vec::new();
        for event in events {
            if let Some(GroupName::Of(group)) = group_of(event)
                && !wanted.contains(&group)
            {
                wanted.push(group);
            }
        }
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.context.store.get_records(Space::Group, &wanted).await?;
        let named = |(group, record): ((Key, RecordId), Option<entourage_model::Record>)| {
            Some((group, group::name_in(&record?.value)?))
        };
        Ok(wanted.into_iter().zip(found).filter_map(named).collect())
    }

    /// Stores name the positions to resume from; readers get a cursor.
    fn with_resume_cursor(&self, error: Error) -> Error {
        match kept_after(&error) {
            Some(positions) if error.code() == Code::EventsExpired => {
                error.resume_from(self.context.event_cursor(positions))
            }
            _ => error,
        }
    }
}

impl Context {
    pub(crate) fn event_cursor(&self, positions: EventPositions) -> String {
        EventCursor { epoch: self.epoch(), positions }.encode(&self.sealer)
    }

    pub(crate) fn event_positions(&self, cursor: &str) -> Result<EventPositions> {
        let partitions = self.store.guarantees().partitions;
        Ok(EventCursor::decode(cursor, &self.sealer, self.epoch(), partitions)?.positions)
    }

    /// Before every event there ever was.
    fn first_events(&self) -> EventPositions {
        EventPositions::start(self.store.lineage(), self.store.guarantees().partitions)
    }

    /// The version of the oldest event that is kept, `None` when none is.
    pub(crate) async fn oldest_event(&self) -> Result<Option<Version>> {
        let read = match self.store.events_since(&mut self.first_events(), 1).await {
            Err(error) if error.code() == Code::EventsExpired => {
                self.store.events_since(&mut kept_after(&error).ok_or(error)?, 1).await
            }
            other => other,
        };
        Ok(read?.first().map(|(_, event)| event.version))
    }
}

fn kept_after(error: &Error) -> Option<EventPositions> {
    EventPositions::from_text(error.resume()?)
}

/// Whom an event is about.
fn ends(event: &Event) -> [Option<Key>; 2] {
    match &event.body {
        EventBody::Edge { follower, target, .. } => [Some(*follower), Some(*target)],
        EventBody::User { key, .. } => [Some(*key), None],
        EventBody::Record { space: Space::Import, .. } => [None, None],
        EventBody::Record { space: Space::Post, owner, .. } => [Some(*owner), None],
        EventBody::Record { space: Space::Case, .. } => CaseSummary::of(event).map_or([None, None], |case| case.ends),
        EventBody::Record { owner, id, .. } => [Some(*owner), id.member().map(|(_, member)| member)],
    }
}

/// Those whom some events name, as they are now.
struct People {
    users: HashMap<Key, User>,
    erased: HashMap<Key, UserId>,
}

impl People {
    /// The user who had this key at that version. An id that was created again is another person.
    fn user_at(&self, key: Key, version: Version) -> Option<&User> {
        self.users.get(&key).filter(|user| user.created <= version)
    }

    fn id(&self, key: Key, version: Version) -> Option<UserId> {
        let there = self.user_at(key, version).map(|user| user.id.clone());
        there.or_else(|| self.erased.get(&key).cloned()).or_else(|| shown_id(key, self.users.get(&key)))
    }

    /// Takes away what somebody who is erased by now said: events name ids and are for good, this is not.
    fn redact(&self, event: &mut Event) {
        let version = event.version;
        match &mut event.body {
            EventBody::User { key, after: Some(user), .. } if self.user_at(*key, version).is_none() => {
                (user.name, user.avatar_url) = (None, None);
            }
            EventBody::Record { space: Space::Post | Space::Group, owner, after: Some(value), .. }
                if self.user_at(*owner, version).is_none() =>
            {
                *value = Box::default();
            }
            _ => {}
        }
    }
}

fn post_of(event: &Event) -> Option<Post> {
    match &event.body {
        EventBody::Record { space: Space::Post, after: Some(value), .. } => Post::decode(value).ok(),
        _ => None,
    }
}

enum GroupName {
    Written(Option<Box<str>>),
    Of((Key, RecordId)),
}

fn group_of(event: &Event) -> Option<GroupName> {
    match &event.body {
        EventBody::Record { space: Space::Group, after, .. } => {
            Some(GroupName::Written(after.as_deref().and_then(group::name_in)))
        }
        EventBody::Record { space: Space::GroupMember, owner, id, .. } => {
            id.member().map(|(group, _)| GroupName::Of((*owner, group)))
        }
        _ => None,
    }
}
