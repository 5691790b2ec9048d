//! What an import that was cut off had done after its last note. Its lines come again; the events tell which of them are
//! done, and as what they are to be counted, so that nothing is written twice and the account stays exact.

use std::collections::{HashMap, VecDeque};

use entourage_model::{
    Cause, Code, EventBody, EventPositions, Key, Kind, Millis, Post, RecordId, Result, Space, User, UserPatch,
};
use entourage_store::{Store, StoreExt as _};
use xxhash_rust::xxh3::xxh3_64;

use super::tally::Done;

const EVENTS_AT_ONCE: usize = 1_000;
/// More than an import can do between two notes. What has not been met by then was done by somebody else.
const LINES_MAX: u64 = 1_000_000;

/// What a row made, as an event tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Edge(Kind, Key, Key),
    Record(Space, Key, RecordId),
    /// By author, time and a hash of what is stored: the line does not know its id.
    Post(Key, Millis, u64),
}

#[derive(Debug, Default)]
pub(super) struct Resumed {
    rows: HashMap<Mark, Done>,
    /// The state of each user, oldest first, and whether it existed before.
    users: HashMap<Key, VecDeque<(bool, Box<User>)>>,
    lines: u64,
    /// The newest event that was looked at.
    pub(super) last: Option<EventPositions>,
}

impl Resumed {
    /// Everything imported after `noted`. Where events are already gone, lines that come again count as unchanged.
    pub(super) async fn since(store: &dyn Store, noted: EventPositions) -> Result<Self> {
        let (mut last, mut resumed) = (noted.clone(), Self::default());
        loop {
            let events = match store.events_since(&mut last, EVENTS_AT_ONCE).await {
                Err(error) if error.code() == Code::EventsExpired => {
                    return Ok(Self { last: Some(noted), ..Self::default() });
                }
                other => other?,
            };
            if events.is_empty() {
                return Ok(Self { last: Some(last), ..resumed });
            }
            for (partition, event) in events {
                last.advance(partition, event.sequence);
                resumed.note(event.body);
            }
        }
    }

    fn note(&mut self, event: EventBody) {
        let done = |existed: bool| if existed { Done::Updated } else { Done::Created };
        match event {
            EventBody::Edge { kind, follower, target, cause: Cause::Import, .. } => {
                self.rows.insert(Mark::Edge(kind, follower, target), Done::Created);
            }
            EventBody::Record { space: Space::Post, owner, id, existed: false, after: Some(value), .. }
                if Post::is_imported(&value) =>
            {
                let mark = id.version().map(|id| Mark::Post(owner, id.millis(), xxh3_64(&value)));
                self.rows.extend(mark.map(|mark| (mark, Done::Created)));
            }
            EventBody::Record {
                space: space @ (Space::Group | Space::GroupMember),
                owner,
                id,
                existed,
                after: Some(_),
                ..
            } => {
                self.rows.insert(Mark::Record(space, owner, id), done(existed));
            }
            EventBody::User { key, existed, after: Some(user), is_suspension: false, .. } => {
                self.users.entry(key).or_default().push_back((existed, user));
            }
            _ => {}
        }
    }

    /// Whether every line that was done has come resumed. Until then there are no new notes: the old one and the events
    /// since then say more than a new one could.
    pub(super) fn is_over(&self) -> bool {
        self.rows.is_empty() && self.users.is_empty()
    }

    /// Called with the rows of each chunk: at some point what is left is somebody else's.
    pub(super) fn pass(&mut self, rows: u64) {
        self.lines += rows;
        if self.lines > LINES_MAX {
            *self = Self::default();
        }
    }

    /// What a row that is no user had come to; `None` when it was not reached, or had changed nothing.
    pub(super) fn take(&mut self, mark: &Mark) -> Option<Done> {
        if self.rows.is_empty() { None } else { self.rows.remove(mark) }
    }

    /// Whether this user was made because a line names them.
    pub(super) fn take_added(&mut self, key: Key) -> bool {
        let is_added = self.users.get(&key).and_then(VecDeque::front).is_some_and(|(existed, _)| !existed);
        is_added && self.take_user(key).is_some()
    }

    /// What a row had come to; `None` when it was not reached.
    pub(super) fn take_row(&mut self, key: Key, patch: &UserPatch) -> Option<Done> {
        let (existed, user) = self.users.get(&key)?.front()?;
        // Only what changed something has an event: a row that is not the next one had changed nothing.
        if !says(user, patch) {
            return Some(Done::Unchanged);
        }
        let done = if *existed { Done::Updated } else { Done::Created };
        self.take_user(key).map(|_| done)
    }

    fn take_user(&mut self, key: Key) -> Option<(bool, Box<User>)> {
        let queue = self.users.get_mut(&key)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.users.remove(&key);
        }
        first
    }
}

fn says(user: &User, patch: &UserPatch) -> bool {
    let UserPatch { name, avatar_url, private, hide_lists, registered_at } = patch;
    name.as_ref().is_none_or(|name| *name == user.name)
        && avatar_url.as_ref().is_none_or(|avatar_url| *avatar_url == user.avatar_url)
        && private.is_none_or(|private| private == user.private)
        && hide_lists.is_none_or(|hide_lists| hide_lists == user.hide_lists)
        && registered_at.is_none_or(|registered_at| registered_at == user.registered_at)
}
