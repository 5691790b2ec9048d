//! What is beside the graph, from the rules alone: records, groups, history, suspension, and the erasure of a user.

use entourage_model::{
    Cause, Change, Code, Condition, EdgeValue, Ended, Error, ExternalId, GROUP_MEMBERS_MAX, Key, Kind, Operation,
    Outcome, Record, RecordId, Space, State, User, Version,
};

use super::{Effect, Entry, Expected, Link, Reference, Subject, Told};

fn nothing(told: Told) -> Expected {
    Expected { told, effects: Vec::new() }
}

impl Reference {
    pub(super) fn expect_beyond(&self, operation: &Operation) -> Result<Expected, Code> {
        match *operation {
            Operation::Suspend { key, suspended } => {
                let user = self.users.get(&key).ok_or(Code::UserNotFound)?;
                if user.follow_suspended == suspended {
                    return Ok(nothing(Told::User { created: false }));
                }
                let user = Box::new(User { follow_suspended: suspended, ..user.clone() });
                let event = if suspended { "user.suspended" } else { "user.restored" };
                let effects = vec![Effect::User { event, user }];
                Ok(Expected { told: Told::User { created: false }, effects })
            }
            Operation::Erase { key, .. } => {
                let Some(user) = self.users.get(&key) else { return Ok(nothing(Told::Gone)) };
                let mut effects = vec![Effect::Erase { key, id: user.id.clone() }];
                let about = RecordId::of_key(key);
                let server = self.server(key);
                if self.record(Space::Fanout, server, &about).is_some() {
                    effects.push(removed(Space::Fanout, server, about.clone()));
                }
                if user.id.as_str() != key.to_string() {
                    let id = user.id.as_str().as_bytes().into();
                    effects.extend(written(Space::Erased, server, about, true, id).effects);
                }
                Ok(Expected { told: Told::Gone, effects })
            }
            Operation::PutRecord { space, owner, ref id, ref value, condition, cap } => {
                self.put_record(space, owner, id, value.as_deref(), condition, cap)
            }
            Operation::GroupMember { owner, ref group, member, present } => self.member(owner, group, member, present),
            _ => unreachable!("the graph's own operations are expected elsewhere"),
        }
    }

    fn put_record(
        &self,
        space: Space,
        owner: Key,
        id: &RecordId,
        value: Option<&[u8]>,
        condition: Condition,
        cap: Option<u32>,
    ) -> Result<Expected, Code> {
        let is_elsewhere = || id.as_bytes().len() != 8 || id.key().map(|key| self.server(key)) != Some(owner);
        let forbidden = match space {
            Space::GroupMember | Space::PostAuthor | Space::PostExternal => true,
            Space::Group => id.as_bytes().len() > 23,
            Space::Fanout => is_elsewhere(),
            Space::Erased => is_elsewhere() || value.is_some(),
            _ => false,
        };
        if forbidden {
            return Err(Code::InvalidRequest);
        }
        if !owner.is_server() {
            self.known(owner)?;
        }
        let about_nobody = || id.key().is_none_or(|key| !self.users.contains_key(&key));
        if space == Space::Fanout && value.is_some() && about_nobody() {
            return Err(Code::UserNotFound);
        }
        if space == Space::Erased && id.key().is_some_and(|key| self.is_unfinished(key)) {
            return Err(Code::RequestInProgress);
        }
        let known = self.record(space, owner, id);
        let holds = match condition {
            Condition::Any => true,
            Condition::Absent => known.is_none(),
            Condition::Version(version) => known.is_some_and(|record| record.version == version),
        };
        if !holds {
            return Err(Code::RequestInProgress);
        }
        let members = match space {
            Space::Group => self.members(owner, id),
            _ => Vec::new(),
        };
        let Some(value) = value else {
            if let (Space::Post, Some(post)) = (space, known) {
                let mut effects = self.post_removed(owner, id);
                effects.extend(name_of(&post.value).map(|name| removed(Space::PostExternal, owner, name)));
                return Ok(Expected { told: Told::Gone, effects });
            }
            let mut effects: Vec<Effect> = known.iter().map(|_| removed(space, owner, id.clone())).collect();
            effects.extend(members.into_iter().take(1_000).map(|id| removed(Space::GroupMember, owner, id)));
            return Ok(Expected { told: Told::Gone, effects });
        };
        let is_renamed = |post: &Record| name_of(&post.value) != name_of(value);
        if value.len() > 65_536 || (space == Space::Post && known.is_none_or(is_renamed)) {
            return Err(Code::InvalidRequest);
        }
        if known.is_some_and(|record| *record.value == *value) {
            return Ok(nothing(Told::Record { list: (space, owner), id: id.clone(), created: false }));
        }
        if known.is_none() && cap.is_some_and(|cap| self.list_records(space, owner).len() >= cap as usize) {
            return Err(if space == Space::Group { Code::GroupLimit } else { Code::InvalidRequest });
        }
        if known.is_none() && !members.is_empty() {
            return Err(Code::RequestInProgress);
        }
        Ok(written(space, owner, id.clone(), known.is_none(), value.into()))
    }

    fn member(&self, owner: Key, group: &RecordId, member: Key, present: bool) -> Result<Expected, Code> {
        self.known(owner)?;
        self.record(Space::Group, owner, group).ok_or(Code::GroupNotFound)?;
        let id = RecordId::of_member(group, member).ok_or(Code::GroupNotFound)?;
        let known = self.record(Space::GroupMember, owner, &id);
        if !present {
            let effects = known.iter().map(|_| removed(Space::GroupMember, owner, id.clone())).collect();
            return Ok(Expected { told: Told::Gone, effects });
        }
        let value = self.users.get(&member).ok_or(Code::UserNotFound)?.created.bits().to_be_bytes();
        if known.is_some_and(|record| *record.value == value) {
            return Ok(nothing(Told::Record { list: (Space::GroupMember, owner), id, created: false }));
        }
        let follow = |a, b| self.links.get(&(Kind::Follow, a, b)).filter(|edge| edge.state == State::Active);
        if follow(owner, member).is_none() && follow(member, owner).is_none_or(|edge| edge.quiet) {
            return Err(Code::InvalidRequest);
        }
        if known.is_none() && self.members(owner, group).len() as u64 >= GROUP_MEMBERS_MAX {
            return Err(Code::GroupLimit);
        }
        Ok(written(Space::GroupMember, owner, id, known.is_none(), Box::new(value)))
    }

    fn members(&self, owner: Key, group: &RecordId) -> Vec<RecordId> {
        let all = self.list_records(Space::GroupMember, owner).into_iter().map(|record| record.id);
        all.filter(|id| id.member().is_some_and(|(of, _)| of == *group)).collect()
    }

    pub(super) fn publish(&self, author: Key, value: &[u8], version: Version) -> Result<Expected, Code> {
        self.known(author)?;
        if value.len() > 65_536 {
            return Err(Code::InvalidRequest);
        }
        Ok(match self.named(author, value) {
            Some(id) => nothing(Told::Post { author, id, created: false }),
            None => self.written_post(author, version, value),
        })
    }

    /// The post of this author with the same external id.
    pub(super) fn named(&self, author: Key, value: &[u8]) -> Option<Version> {
        let name = name_of(value)?;
        let posts = self.list_records(Space::Post, author);
        posts.iter().find(|post| name_of(&post.value).as_ref() == Some(&name))?.id.version()
    }

    pub(super) fn written_post(&self, author: Key, id: Version, value: &[u8]) -> Expected {
        let post = written(Space::Post, author, RecordId::of_version(id), true, value.into());
        let index = written(Space::PostAuthor, self.server(author), index_of(id), true, author.0.to_be_bytes().into());
        let named = |name| written(Space::PostExternal, author, name, true, id.bits().to_be_bytes().into()).effects;
        let named = name_of(value).map(named).unwrap_or_default();
        let effects = post.effects.into_iter().chain(index.effects).chain(named).collect();
        Expected { told: Told::Post { author, id, created: true }, effects }
    }

    /// Which edges go first is up to the store; they must be live ones of this key, and as many as requested.
    pub(super) fn erase_edges(
        &self,
        key: Key,
        limit: usize,
        result: &Result<Outcome, Error>,
    ) -> Result<Expected, String> {
        let outcome = result.as_ref().map_err(|error| format!("edges of the dead can be erased, yet: {error}"))?;
        let mut left: Vec<Link> = match self.users.contains_key(&key) {
            true => Vec::new(),
            false => self.links.keys().copied().filter(|(_, from, to)| [*from, *to].contains(&key)).collect(),
        };
        if left.is_empty() {
            return self.erase_posts(key, limit, outcome);
        }
        let limit = limit.min(1_000);
        // A mute that ends has a record, so half as many edges may go in one commit.
        let ends = left.iter().any(|link| self.links.get(link).is_some_and(|value| value.expires.is_some()));
        let (expected, fewer) = (left.len().min(limit), left.len().min(limit.div_ceil(2)));
        let mut effects = Vec::new();
        for change in &outcome.changes {
            let edge = match change {
                Change::Edge(edge) => edge,
                Change::Record(record) if matches!(record.space, Space::Erased | Space::Job) => continue,
                _ => return Err(format!("{change:?} is no edge")),
            };
            let link = (edge.kind, edge.follower, edge.target);
            let at = left.iter().position(|known| *known == link).ok_or_else(|| format!("{link:?} is not to erase"))?;
            left.swap_remove(at);
            let of_other = match edge.kind {
                Kind::Follow => "follow.cancelled",
                Kind::Block => "block.removed",
                Kind::Mute => "mute.removed",
            };
            effects.extend(self.end(link, of_other, Cause::Erase).effects);
        }
        if effects.len() != expected && !(ends && effects.len() == fewer) {
            return Err(format!("{expected} edges must be erased, not {}", effects.len()));
        }
        let (removed, left) =
            (effects.len() as u32, !left.is_empty() || !self.list_records(Space::Post, key).is_empty());
        effects.extend(self.id_again(key, removed, left));
        Ok(Expected { told: Told::EdgesErased { removed, left }, effects })
    }

    /// The record of when a mute ends comes and goes with the mute.
    pub(super) fn with_ends(&self, mut expected: Expected) -> Expected {
        let mut records = Vec::new();
        for effect in &expected.effects {
            let Effect::Link { link: link @ (Kind::Mute, actor, target), becomes, .. } = effect else { continue };
            let before = self.links.get(link).and_then(|value| value.expires);
            let after = becomes.as_ref().and_then(|becomes| becomes.expires);
            if before == after {
                continue;
            }
            let id = |at| RecordId::of_mute_end(at, *actor, *target);
            let server = self.server(*actor);
            let stands = |id: &RecordId| self.record(Space::Job, server, id).is_some();
            records.extend(before.map(id).filter(|id| stands(id)).map(|id| removed(Space::Job, server, id)));
            let made = after.map(id).filter(|id| !stands(id));
            records
                .extend(made.into_iter().flat_map(|id| written(Space::Job, server, id, true, Box::default()).effects));
        }
        expected.effects.extend(records);
        expected
    }

    /// The id of the erased, written once more with the last removal.
    fn id_again(&self, key: Key, removed: u32, left: bool) -> Option<Effect> {
        let id = RecordId::of_key(key);
        let server = self.server(key);
        let known = self.record(Space::Erased, server, &id).filter(|_| removed > 0 && !left)?;
        written(Space::Erased, server, id, false, known.value.clone()).effects.pop()
    }

    pub(super) fn is_unfinished(&self, key: Key) -> bool {
        let has_links = || self.links.keys().any(|(_, from, to)| [*from, *to].contains(&key));
        !self.users.contains_key(&key) && (has_links() || !self.list_records(Space::Post, key).is_empty())
    }

    /// The same with posts, half as many of them: each has the record of its author.
    fn erase_posts(&self, key: Key, limit: usize, outcome: &Outcome) -> Result<Expected, String> {
        let mut left = match self.users.contains_key(&key) {
            true => Vec::new(),
            false => self.list_records(Space::Post, key),
        };
        let expected = left.len().min(limit.min(1_000).div_ceil(2));
        let mut effects = Vec::new();
        for change in &outcome.changes {
            let Change::Record(record) = change else { return Err(format!("{change:?} is no post")) };
            if matches!(record.space, Space::PostAuthor | Space::Erased) {
                continue;
            }
            let at = left.iter().position(|known| known.id == record.id && record.space == Space::Post);
            left.swap_remove(at.ok_or_else(|| format!("{record:?} is not to erase"))?);
            effects.extend(self.post_removed(key, &record.id));
        }
        if effects.len() != expected * 2 {
            return Err(format!("{expected} posts must be erased, not {}", effects.len() / 2));
        }
        let (removed, left) = (expected as u32, !left.is_empty());
        effects.extend(self.id_again(key, removed, left));
        Ok(Expected { told: Told::EdgesErased { removed, left }, effects })
    }

    pub(super) fn forget(&mut self, key: Key) {
        self.users.remove(&key);
        self.past.remove(&key);
        self.used.remove(&key);
        self.records.retain(|(space, owner), _| *owner != key || *space == Space::Post);
    }

    pub(super) fn apply_record(
        &mut self,
        event: &'static str,
        space: Space,
        owner: Key,
        id: RecordId,
        value: Option<Box<[u8]>>,
        version: Version,
    ) -> Entry {
        if event == "post.created" {
            self.posts.extend(id.version().map(|post| (post, owner)));
        }
        let list = self.records.entry((space, owner)).or_default();
        let existed = match &value {
            Some(value) => list.insert(id.clone(), Record { id: id.clone(), version, value: value.clone() }),
            None => list.remove(&id),
        };
        // A non-public event says only that there is something.
        let after = value.map(|value| if event == "record.changed" { Box::default() } else { value });
        let subject = Subject::Record { space, owner, id, existed: existed.is_some(), after };
        Entry { name: event, version, subject }
    }

    /// An edge of an erased user leaves that user no history.
    pub(super) fn remember(&mut self, link: Link, before: EdgeValue, ended: Version, cause: Cause) {
        let (kind, follower, target) = link;
        if kind != Kind::Follow || !self.users.contains_key(&follower) {
            return;
        }
        let EdgeValue { state, quiet, accepted, position, .. } = before;
        self.past.entry(follower).or_default().push(Ended { target, state, quiet, accepted, position, ended, cause });
    }

    pub fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<&Record> {
        self.records.get(&(space, owner))?.get(id)
    }

    /// By id.
    pub fn list_records(&self, space: Space, owner: Key) -> Vec<Record> {
        self.records.get(&(space, owner)).map(|list| list.values().cloned().collect()).unwrap_or_default()
    }

    /// Where the author of each post is found, or was.
    pub fn indexes(&self) -> Vec<(Key, RecordId)> {
        self.posts.iter().map(|(post, author)| (self.server(*author), index_of(*post))).collect()
    }

    /// The author of the post with this id.
    pub(super) fn whose(&self, post: Version) -> Option<&Record> {
        self.record(Space::PostAuthor, self.server(*self.posts.get(&post)?), &index_of(post))
    }

    /// The owner of what the server keeps about a user.
    pub(super) fn server(&self, about: Key) -> Key {
        self.buckets.map_or(Key::SERVER, |buckets| buckets.of(about))
    }

    fn post_removed(&self, author: Key, id: &RecordId) -> Vec<Effect> {
        let index = id.version().map(|post| removed(Space::PostAuthor, self.server(author), index_of(post)));
        [removed(Space::Post, author, id.clone())].into_iter().chain(index).collect()
    }

    /// Newest first.
    pub fn history(&self, follower: Key) -> Vec<Ended> {
        let mut past = self.past.get(&follower).cloned().unwrap_or_default();
        past.sort_by_key(|ended| std::cmp::Reverse(ended.ended));
        past
    }
}

fn name_of(value: &[u8]) -> Option<RecordId> {
    ExternalId::of_post(value).map(|name| name.record_id())
}

const fn event(space: Space, created: bool, there: bool) -> &'static str {
    match (space, created, there) {
        (Space::Group, true, _) => "group.created",
        (Space::Group, false, true) => "group.updated",
        (Space::Group, false, false) => "group.removed",
        (Space::GroupMember, _, true) => "group.member_added",
        (Space::GroupMember, _, false) => "group.member_removed",
        (Space::Import, ..) => "import.finished",
        (Space::Post, true, _) => "post.created",
        (Space::Post, false, true) => "post.updated",
        (Space::Post, false, false) => "post.deleted",
        // Random values carry no mark of a case that is closed.
        (Space::Case, true, _) => "abuse.opened",
        (Space::Case, false, true) => "abuse.updated",
        (Space::Case, false, false) => "abuse.removed",
        _ => "record.changed",
    }
}

fn removed(space: Space, owner: Key, id: RecordId) -> Effect {
    Effect::Record { event: event(space, false, false), space, owner, id, value: None }
}

pub(super) fn index_of(post: Version) -> RecordId {
    RecordId::new(&post.bits().to_be_bytes()).expect("eight bytes are an id")
}

pub(super) fn work(server: Key, id: RecordId, value: Option<Box<[u8]>>) -> Option<Effect> {
    match value {
        Some(value) => written(Space::Job, server, id, true, value).effects.pop(),
        None => Some(removed(Space::Job, server, id)),
    }
}

fn written(space: Space, owner: Key, id: RecordId, created: bool, value: Box<[u8]>) -> Expected {
    let told = Told::Record { list: (space, owner), id: id.clone(), created };
    let effects = vec![Effect::Record { event: event(space, created, true), space, owner, id, value: Some(value) }];
    Expected { told, effects }
}
