//! A graph written from the rules alone: hash maps, sorting on demand, no decision code of the product. It predicts the
//! outcome of every write and the result of every read. Versions are taken from the store, after a check.

mod fences;
mod imported;
mod limits;
mod records;

use std::collections::{BTreeMap, HashMap};

use entourage_model::{
    Buckets, Cause, Change, Code, Counts, Edge, EdgeValue, Ended, Error, Event, EventBody, Expiry, Key, Kind, List,
    Millis, Operation, Outcome, Overwrite, Place, Record, RecordId, Reply, Sequence, Side, Space, State, User, UserId,
    UserPatch, Version, Write,
};

use super::settled;
use entourage_store::{Derived, Guarantees};

type Link = (Kind, Key, Key);

#[derive(Clone, Debug, Default)]
pub struct Reference {
    users: HashMap<Key, User>,
    /// Live edges only.
    links: HashMap<Link, EdgeValue>,
    /// The version of the last write to an edge, removals included.
    touched: HashMap<Link, Version>,
    receipts: HashMap<[u8; 16], (u64, Reply)>,
    records: HashMap<(Space, Key), BTreeMap<RecordId, Record>>,
    /// The author of every post, past ones included.
    posts: BTreeMap<Version, Key>,
    /// The history of each follower, oldest first.
    past: HashMap<Key, Vec<Ended>>,
    /// The quota state of each actor.
    used: HashMap<Key, limits::Used>,
    log: Vec<Entry>,
    derived: Derived,
    buckets: Option<Buckets>,
}

/// An expected event, without its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub version: Version,
    pub subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Link { link: Link, before: Option<State>, after: Option<State>, quiet: bool, expires: Option<Expiry> },
    User(Box<User>),
    Erased(Key, Option<UserId>),
    Record { space: Space, owner: Key, id: RecordId, existed: bool, after: Option<Box<[u8]>> },
}

impl Entry {
    pub fn of(event: &Event) -> Self {
        let subject = match &event.body {
            &EventBody::Edge { kind, follower, target, before, after, quiet, expires, .. } => {
                Subject::Link { link: (kind, follower, target), before, after, quiet, expires }
            }
            EventBody::User { after: Some(after), .. } => Subject::User(after.clone()),
            EventBody::User { key, after: None, erased, .. } => Subject::Erased(*key, erased.clone()),
            EventBody::Record { space, owner, id, existed, after } => {
                let (id, after) = (id.clone(), after.clone());
                Subject::Record { space: *space, owner: *owner, id, existed: *existed, after }
            }
        };
        Self { name: event.name(), version: event.version, subject }
    }
}

/// What a write must do. An edge's `None` is its end.
enum Effect {
    Link { event: &'static str, link: Link, cause: Cause, becomes: Option<Becomes> },
    User { event: &'static str, user: Box<User> },
    Erase { key: Key, id: UserId },
    Record { event: &'static str, space: Space, owner: Key, id: RecordId, value: Option<Box<[u8]>> },
}

struct Becomes {
    state: State,
    quiet: bool,
    accepted: bool,
    expires: Option<Expiry>,
    /// `None`: the version of the write.
    position: Option<Version>,
}

impl Becomes {
    const ACTIVE: Self = Self { state: State::Active, quiet: false, accepted: false, expires: None, position: None };
}

enum Told {
    User {
        created: bool,
    },
    Link {
        link: Link,
        created: bool,
    },
    Gone,
    /// As if nothing had been there.
    NothingGone,
    Record {
        list: (Space, Key),
        id: RecordId,
        created: bool,
    },
    Post {
        author: Key,
        id: Version,
        created: bool,
    },
    EdgesErased {
        removed: u32,
        left: bool,
    },
}

struct Expected {
    told: Told,
    effects: Vec<Effect>,
}

impl Reference {
    /// For a store with these guarantees.
    pub fn of(guarantees: &Guarantees) -> Self {
        Self { derived: guarantees.derived, buckets: Some(guarantees.buckets), ..Self::default() }
    }

    /// Applies the next write with the store's outcome, or says what that should have been.
    pub fn step(&mut self, write: &Write, result: &Result<Outcome, Error>) -> Result<(), String> {
        if self.is_fenced(write) {
            return refused(Code::Fenced, result);
        }
        let receipt = write.idempotency.and_then(|key| Some((key.request, *self.receipts.get(&key.scope)?)));
        match receipt {
            Some((request, (first, reply))) if request == first => {
                let outcome = result.as_ref().map_err(|error| format!("a retry must replay, not {error}"))?;
                if outcome.replayed && outcome.reply == reply && outcome.changes.is_empty() {
                    return Ok(());
                }
                return Err(format!("a retry must replay {reply:?}, not {outcome:?}"));
            }
            Some(_) => return refused(Code::IdempotencyMismatch, result),
            None => {}
        }
        let expected = match write.operation {
            Operation::EraseEdges { key, limit } => Ok(self.erase_edges(key, limit, result)?),
            Operation::Post { author, ref value } => {
                let version = result.as_ref().map_or(Version::ZERO, |outcome| outcome.version);
                self.publish(author, value, version)
            }
            Operation::ImportPost { author, at, id, ref value } => self.import_post(author, at, id, value, result),
            ref operation => self.expect(operation),
        };
        let expected = self.within_limits(write, expected).map(|expected| self.with_ends(expected));
        match expected.and_then(|expected| Ok((expected, self.work(write)?))) {
            Err(code) => refused(code, result),
            Ok((expected, work)) => match result {
                Ok(outcome) => {
                    self.use_up(write, &expected);
                    self.take(write, expected, work, outcome)
                }
                Err(error) => Err(format!("nothing forbids this write, yet: {error}")),
            },
        }
    }

    fn take(&mut self, write: &Write, expected: Expected, work: Vec<Effect>, outcome: &Outcome) -> Result<(), String> {
        let changed = !expected.effects.is_empty();
        let effects: Vec<Effect> = expected.effects.into_iter().chain(work).collect();
        if outcome.replayed || outcome.changes.len() != effects.len() {
            return Err(format!("{} changes must come of it, not {outcome:?}", effects.len()));
        }
        if changed && outcome.version <= write.floor {
            return Err(format!("version {} is not above the floor {}", outcome.version, write.floor));
        }
        for ((effect, change), version) in
            effects.into_iter().zip(&outcome.changes).zip(settled::versions(outcome, self.derived))
        {
            let entry = self.apply(effect, version)?;
            let seen = Entry::of(&Event::of(Sequence::ZERO, version, change));
            if seen != entry {
                return Err(format!("the change must be {entry:?}, not {seen:?}"));
            }
            if let Change::Edge(edge) = change
                && let Some(live) = self.links.get(&(edge.kind, edge.follower, edge.target))
                && *live != edge.after
            {
                return Err(format!("the edge must become {live:?}, not {:?}", edge.after));
            }
            self.log.push(entry);
        }
        let reply = match expected.told {
            Told::User { created } => Reply::User { created, changed },
            Told::Gone => Reply::Gone { changed },
            Told::NothingGone => Reply::Gone { changed: false },
            Told::Link { link, created } => {
                let value = *self.links.get(&link).ok_or("the edge must stand")?;
                Reply::Edge { value, created, changed }
            }
            Told::Record { list, id, created } => {
                let record = self.records.get(&list).and_then(|list| list.get(&id)).ok_or("the record must stand")?;
                Reply::Record { version: record.version, created, changed, owner: Some(list.1) }
            }
            Told::Post { author, id, created } => Reply::Record { version: id, created, changed, owner: Some(author) },
            Told::EdgesErased { removed, left } => Reply::EdgesErased { removed, left },
        };
        if outcome.reply != reply {
            return Err(format!("the reply must be {reply:?}, not {:?}", outcome.reply));
        }
        if let Some(key) = write.idempotency {
            self.receipts.insert(key.scope, (key.request, reply));
        }
        Ok(())
    }

    fn apply(&mut self, effect: Effect, version: Version) -> Result<Entry, String> {
        match effect {
            Effect::User { event, mut user } => {
                if self.users.get(&user.key).is_some_and(|known| known.version >= version) {
                    return Err(format!("version {version} does not exceed that of user {}", user.key));
                }
                user.version = version;
                if user.created == Version::ZERO {
                    user.created = version;
                    if user.registered_at == Millis::default() {
                        user.registered_at = version.millis();
                    }
                }
                self.users.insert(user.key, (*user).clone());
                Ok(Entry { name: event, version, subject: Subject::User(user) })
            }
            Effect::Erase { key, id } => {
                self.forget(key);
                Ok(Entry { name: "user.erased", version, subject: Subject::Erased(key, Some(id)) })
            }
            Effect::Record { event, space, owner, id, value } => {
                Ok(self.apply_record(event, space, owner, id, value, version))
            }
            Effect::Link { event, link, cause, becomes } => {
                if self.touched.insert(link, version).is_some_and(|last| last >= version) {
                    return Err(format!("version {version} does not exceed the last one of {link:?}"));
                }
                let before = self.links.remove(&link);
                let mut quiet = before.is_some_and(|value| value.quiet);
                let mut ends = before.and_then(|value| value.expires);
                let after = becomes.as_ref().map(|becomes| becomes.state);
                match (becomes, before) {
                    (Some(Becomes { state, quiet: flag, accepted, expires, position }), _) => {
                        (quiet, ends) = (flag, expires);
                        // Nothing is newer than the write that brings it.
                        let position = position.unwrap_or(version).min(version);
                        self.links.insert(link, EdgeValue { state, quiet, accepted, expires, version, position });
                    }
                    (None, Some(before)) => self.remember(link, before, version, cause),
                    (None, None) => {}
                }
                let before = before.map(|value| value.state);
                Ok(Entry { name: event, version, subject: Subject::Link { link, before, after, quiet, expires: ends } })
            }
        }
    }

    fn expect(&self, operation: &Operation) -> Result<Expected, Code> {
        match *operation {
            Operation::PutUser { key, ref id, ref patch, overwrite } => self.put(key, id, patch, overwrite),
            Operation::Follow { follower, target, quiet, cap, park } => self.follow(follower, target, quiet, cap, park),
            Operation::Unfollow { follower, target } => {
                self.known(follower)?;
                Ok(self.end((Kind::Follow, follower, target), "follow.cancelled", Cause::Follower))
            }
            Operation::RemoveFollower { target, follower, sees_quiet } => {
                self.known(target)?;
                let link = (Kind::Follow, follower, target);
                let expected = self.end(link, "follow.rejected", Cause::Target);
                let is_secret = |value: &EdgeValue| value.quiet || value.state == State::Parked;
                let is_hidden = !sees_quiet && self.links.get(&link).is_some_and(is_secret);
                Ok(if is_hidden { Expected { told: Told::NothingGone, ..expected } } else { expected })
            }
            Operation::Accept { target, follower } => self.accept(target, follower),
            Operation::Reject { target, follower } => {
                self.known(target)?;
                let link = (Kind::Follow, follower, target);
                match self.links.get(&link) {
                    Some(value) if value.state == State::Pending => {
                        Ok(self.end(link, "follow.rejected", Cause::Target))
                    }
                    _ => Err(Code::NotFound),
                }
            }
            Operation::Release { target, follower, accept } => self.release(target, follower, accept),
            Operation::Block { actor, target } => {
                let mut expected = self.mark((Kind::Block, actor, target), "block.created", None)?;
                if !expected.effects.is_empty() {
                    for link in [(Kind::Follow, actor, target), (Kind::Follow, target, actor)] {
                        expected.effects.extend(self.end(link, "follow.rejected", Cause::Block).effects);
                    }
                }
                Ok(expected)
            }
            Operation::Mute { actor, target, expires_at } => {
                self.mark((Kind::Mute, actor, target), "mute.created", expires_at.map(Expiry::at))
            }
            Operation::Unblock { actor, target } => {
                self.known(actor)?;
                Ok(self.end((Kind::Block, actor, target), "block.removed", Cause::Follower))
            }
            Operation::Unmute { actor, target } => {
                self.known(actor)?;
                Ok(self.end((Kind::Mute, actor, target), "mute.removed", Cause::Follower))
            }
            Operation::Import { follower, target, at, quiet } => {
                self.may_follow(follower, target)?;
                let link = (Kind::Follow, follower, target);
                if self.links.contains_key(&link) {
                    return Ok(Expected { told: Told::Link { link, created: false }, effects: Vec::new() });
                }
                let position = Some(Version::of_millis(at));
                Ok(begin(link, "follow.created", true, Becomes { quiet, position, ..Becomes::ACTIVE }))
            }
            Operation::ImportRequest { .. } | Operation::ImportBlock { .. } | Operation::ImportMute { .. } => {
                self.expect_imported(operation)
            }
            ref beyond => self.expect_beyond(beyond),
        }
    }

    fn known(&self, actor: Key) -> Result<(), Code> {
        self.users.get(&actor).map(|_| ()).ok_or(Code::ActorNotFound)
    }

    fn may_follow(&self, follower: Key, target: Key) -> Result<(), Code> {
        if follower == target {
            return Err(Code::SelfFollow);
        }
        self.known(follower)?;
        self.users.get(&target).ok_or(Code::UserNotFound)?;
        let blocks = |by, whom| self.links.contains_key(&(Kind::Block, by, whom));
        if blocks(follower, target) || blocks(target, follower) { Err(Code::Blocked) } else { Ok(()) }
    }

    fn follow(
        &self,
        follower: Key,
        target: Key,
        quiet: Option<bool>,
        cap: Option<u64>,
        park: bool,
    ) -> Result<Expected, Code> {
        self.may_follow(follower, target)?;
        if self.users.get(&follower).is_some_and(|user| user.follow_suspended) {
            return Err(Code::FollowSuspended);
        }
        let link = (Kind::Follow, follower, target);
        let private = self.users.get(&target).is_some_and(|user| user.private);
        match self.links.get(&link) {
            Some(value) if quiet == Some(true) && (private || value.state != State::Active) => Err(Code::QuietPrivate),
            Some(value) if quiet.is_none_or(|quiet| value.quiet == quiet) => {
                Ok(Expected { told: Told::Link { link, created: false }, effects: Vec::new() })
            }
            Some(value) if park && value.quiet => {
                Ok(begin(link, "follow.parked", false, Becomes { state: State::Parked, ..Becomes::ACTIVE }))
            }
            Some(value) if private && value.state == State::Active => {
                let asks = Becomes { state: State::Pending, ..Becomes::ACTIVE };
                Ok(begin(link, "follow.requested", false, asks))
            }
            Some(value) => {
                let (state, accepted, position) = (value.state, value.accepted, Some(value.position));
                let becomes = Becomes { state, quiet: !value.quiet, accepted, position, ..Becomes::ACTIVE };
                Ok(begin(link, "follow.updated", false, becomes))
            }
            None if quiet == Some(true) && private => Err(Code::QuietPrivate),
            None => {
                let quiet = quiet == Some(true);
                let load = self.links.keys().filter(|(kind, from, _)| *kind == Kind::Follow && *from == follower);
                if cap.is_some_and(|cap| load.count() as u64 >= cap) {
                    return Err(Code::FollowingLimit);
                }
                let (state, event) = match private {
                    _ if park && !quiet => (State::Parked, "follow.parked"),
                    true => (State::Pending, "follow.requested"),
                    false => (State::Active, "follow.created"),
                };
                Ok(begin(link, event, true, Becomes { state, quiet, ..Becomes::ACTIVE }))
            }
        }
    }

    fn accept(&self, target: Key, follower: Key) -> Result<Expected, Code> {
        self.known(target)?;
        let link = (Kind::Follow, follower, target);
        let value = self.links.get(&link).ok_or(Code::NotFound)?;
        if value.state == State::Active {
            let again = Expected { told: Told::Link { link, created: false }, effects: Vec::new() };
            return if value.quiet { Err(Code::NotFound) } else { Ok(again) };
        }
        if value.state == State::Parked {
            return Err(Code::NotFound);
        }
        let active = Becomes { quiet: value.quiet, accepted: true, ..Becomes::ACTIVE };
        Ok(begin(link, "follow.accepted", false, active))
    }

    fn release(&self, target: Key, follower: Key, accept: bool) -> Result<Expected, Code> {
        let user = self.users.get(&target).ok_or(Code::UserNotFound)?;
        let link = (Kind::Follow, follower, target);
        if self.links.get(&link).is_none_or(|value| value.state != State::Parked) {
            return Err(Code::NotFound);
        }
        Ok(match (accept, user.private) {
            (false, _) => self.end(link, "follow.rejected", Cause::Target),
            (true, true) => {
                begin(link, "follow.requested", false, Becomes { state: State::Pending, ..Becomes::ACTIVE })
            }
            (true, false) => begin(link, "follow.accepted", false, Becomes::ACTIVE),
        })
    }

    fn may_mark(&self, kind: Kind, actor: Key, target: Key) -> Result<(), Code> {
        if actor == target {
            return Err(if kind == Kind::Mute { Code::InvalidRequest } else { Code::SelfBlock });
        }
        self.known(actor)?;
        self.users.get(&target).map(|_| ()).ok_or(Code::UserNotFound)
    }

    fn mark(&self, link: Link, event: &'static str, expires: Option<Expiry>) -> Result<Expected, Code> {
        let (kind, actor, target) = link;
        self.may_mark(kind, actor, target)?;
        match self.links.get(&link) {
            Some(value) if value.expires == expires => {
                Ok(Expected { told: Told::Link { link, created: false }, effects: Vec::new() })
            }
            Some(value) => {
                let position = Some(value.position);
                Ok(begin(link, "mute.updated", false, Becomes { expires, position, ..Becomes::ACTIVE }))
            }
            None => Ok(begin(link, event, true, Becomes { expires, ..Becomes::ACTIVE })),
        }
    }

    /// `of_request` is the event's name when a request ends.
    fn end(&self, link: Link, of_request: &'static str, cause: Cause) -> Expected {
        let effects = self.links.get(&link).map(|value| {
            let event =
                if link.0 == Kind::Follow && value.state == State::Active { "follow.removed" } else { of_request };
            Effect::Link { event, link, cause, becomes: None }
        });
        Expected { told: Told::Gone, effects: effects.into_iter().collect() }
    }

    fn put(&self, key: Key, id: &UserId, patch: &UserPatch, overwrite: Overwrite) -> Result<Expected, Code> {
        let known = self.users.get(&key);
        if known.is_some_and(|user| user.id != *id) {
            return Err(Code::IdTaken);
        }
        let being_erased = self.is_unfinished(key);
        let nothing = Expected { told: Told::User { created: false }, effects: Vec::new() };
        match (known, overwrite) {
            (None, Overwrite::Merge) => return Err(Code::UserNotFound),
            _ if being_erased => return Err(Code::RequestInProgress),
            (Some(_), Overwrite::Keep) => return Ok(nothing),
            _ => {}
        }
        let blank = User {
            key,
            id: id.clone(),
            name: None,
            avatar_url: None,
            private: false,
            hide_lists: false,
            follow_suspended: false,
            registered_at: Millis::default(),
            created: Version::ZERO,
            version: Version::ZERO,
        };
        let base = known.cloned().unwrap_or(blank);
        let replaced = overwrite == Overwrite::Replace;
        let text = |given: &Option<Option<Box<str>>>, old: &Option<Box<str>>| match given {
            Some(value) => value.clone(),
            None if replaced => None,
            None => old.clone(),
        };
        let user = User {
            name: text(&patch.name, &base.name),
            avatar_url: text(&patch.avatar_url, &base.avatar_url),
            private: patch.private.unwrap_or(base.private),
            hide_lists: patch.hide_lists.unwrap_or(base.hide_lists),
            registered_at: patch.registered_at.unwrap_or(base.registered_at),
            ..base
        };
        if known == Some(&user) {
            return Ok(nothing);
        }
        let (created, event) = if known.is_some() { (false, "user.updated") } else { (true, "user.created") };
        Ok(Expected { told: Told::User { created }, effects: vec![Effect::User { event, user: Box::new(user) }] })
    }

    /// The list, newest first.
    pub fn list(&self, list: List) -> Vec<Edge> {
        let mut edges: Vec<Edge> = self
            .links
            .iter()
            .map(|(&(kind, follower, target), &value)| Edge { kind, follower, target, value })
            .filter(|edge| edge.kind == list.plane.kind() && edge.value.state == list.plane.state())
            .filter(|edge| list.shows(edge.value.quiet))
            .filter(|edge| list.user == if list.side == Side::Following { edge.follower } else { edge.target })
            .collect();
        let place = |edge: &Edge| {
            let key = if list.side == Side::Following { edge.target } else { edge.follower };
            Place { position: edge.value.position, key }
        };
        edges.sort_by_key(|edge| std::cmp::Reverse(place(edge)));
        edges
    }

    pub fn counts(&self, user: Key) -> Option<Counts> {
        self.users.get(&user)?;
        let mut counts = Counts::default();
        for (&(kind, follower, target), value) in &self.links {
            let quiet = u64::from(value.quiet);
            match (kind, value.state) {
                (Kind::Follow, State::Active) if target == user => {
                    counts.followers += 1;
                    counts.followers_quiet += quiet;
                }
                (Kind::Follow, State::Active) if follower == user => {
                    counts.following += 1;
                    counts.following_quiet += quiet;
                }
                (Kind::Follow, State::Pending) if target == user => counts.requests += 1,
                (Kind::Follow, State::Pending) if follower == user => counts.requested += 1,
                _ => {}
            }
        }
        Some(counts)
    }

    pub fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        self.links.get(&(kind, follower, target)).copied()
    }

    pub fn user(&self, key: Key) -> Option<&User> {
        self.users.get(&key)
    }

    /// Every event so far, oldest first.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }
}

fn begin(link: Link, event: &'static str, created: bool, becomes: Becomes) -> Expected {
    let effects = vec![Effect::Link { event, link, cause: Cause::Follower, becomes: Some(becomes) }];
    Expected { told: Told::Link { link, created }, effects }
}

fn refused(code: Code, result: &Result<Outcome, Error>) -> Result<(), String> {
    match result {
        Err(error) if error.code() == code => Ok(()),
        other => Err(format!("{} must refuse this, not {other:?}", code.as_str())),
    }
}
