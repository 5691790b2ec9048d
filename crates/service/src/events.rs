//! Events as services read them: ids instead of keys, and a cursor to go on from.

use entourage_model::{Code, Error, Event, EventBody, EventCursor, Key, Post, Result, Sequence, Space, UserId};

use crate::{Call, Limit, Service, ids::shown_id, import::Tally};

/// How many pages of the store's own events one call reads past; after that the caller goes on from there.
const PRIVATE_PAGES_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    pub cursor: String,
    pub event: Event,
    /// The ends of an edge, a group's owner and member, or a post's author as the first of two; `None` for other
    /// events, and for users that were erased.
    pub follower: Option<UserId>,
    pub target: Option<UserId>,
    /// What an import that ended came to.
    pub import: Option<Tally>,
    /// A post as it was written or replaced.
    pub post: Option<Post>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    pub rows: Vec<EventRow>,
    /// Where to go on, also when nothing more is there yet.
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

impl Service {
    pub async fn events(&self, call: &Call, after: Option<&str>, limit: Limit) -> Result<EventPage> {
        call.must_be_service()?;
        self.catch_up(call).await?;
        let start = match after {
            Some(text) => EventCursor::decode(text, &self.sealer, self.epoch())?.sequence,
            None => Sequence::ZERO,
        };
        let (mut events, mut read_to, mut has_more) = (Vec::new(), start, true);
        for _ in 0..PRIVATE_PAGES_MAX {
            let read = self.log.read(read_to, limit.get() + 1).await;
            let page = read.map_err(|error| self.with_signed_resume(error))?;
            has_more = page.len() > limit.get();
            read_to = page.last().map_or(read_to, |event| event.sequence);
            events.extend(page.into_iter().filter(Event::is_public));
            if events.len() > limit.get() || !has_more {
                break;
            }
        }
        if events.len() > limit.get() {
            has_more = true;
            events.truncate(limit.get());
            read_to = events.last().map_or(read_to, |event| event.sequence);
        }
        let rows = self.rows_of(events).await?;
        let next_cursor = if read_to == start { after.map(str::to_owned) } else { Some(self.event_cursor(read_to)) };
        Ok(EventPage { rows, next_cursor, has_more })
    }

    async fn rows_of(&self, events: Vec<Event>) -> Result<Vec<EventRow>> {
        let ends = |event: &Event| match &event.body {
            EventBody::Edge { follower, target, .. } => [Some(*follower), Some(*target)],
            EventBody::Record { space: Space::Import, .. } => [None, None],
            EventBody::Record { space: Space::Post, owner, .. } => [Some(*owner), None],
            EventBody::Record { owner, id, .. } => [Some(*owner), id.member().map(|(_, member)| member)],
            EventBody::User { .. } => [None, None],
        };
        let mut keys: Vec<Key> = events.iter().flat_map(ends).flatten().collect();
        keys.sort_unstable();
        keys.dedup();
        let users = self.users_by_key(&keys).await?;
        let id_of = |key: Option<Key>| key.and_then(|key| shown_id(key, users.get(&key)));
        let row = |event: Event| {
            let [follower, target] = ends(&event).map(id_of);
            let (import, post) = (Tally::of(&event), post_of(&event));
            EventRow { cursor: self.event_cursor(event.sequence), event, follower, target, import, post }
        };
        Ok(events.into_iter().map(row).collect())
    }

    pub(crate) fn event_cursor(&self, sequence: Sequence) -> String {
        EventCursor { epoch: self.epoch(), sequence }.encode(&self.sealer)
    }

    /// Stores name the sequence to resume from as a number; readers get it as a cursor.
    fn with_signed_resume(&self, error: Error) -> Error {
        match error.resume().map(str::parse) {
            Some(Ok(sequence)) if error.code() == Code::EventsExpired => {
                error.resume_from(self.event_cursor(Sequence(sequence)))
            }
            _ => error,
        }
    }
}

fn post_of(event: &Event) -> Option<Post> {
    match &event.body {
        EventBody::Record { space: Space::Post, after: Some(value), .. } => Post::decode(value).ok(),
        _ => None,
    }
}
