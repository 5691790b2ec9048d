//! What a chunk asks of the store: users that its rows need, then the rows, in the order of the file.

use std::{collections::HashSet, sync::Arc};

use entourage_model::{
    Code, Condition, Key, Kind, Millis, Operation, Overwrite, RecordId, Result, Space, UserPatch, Version, Write,
};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    groups::Groups,
    known::{Known, Presence},
    limits,
    person::Person,
    read::Chunk,
    resume::{Mark, Resumed},
    row::{Entry, Reason, Reject, Row},
    suggested::{self, Suggested},
    tally::{Done, Tally},
};
use crate::{
    Transfer,
    graph::group::{GROUPS_MAX, document},
};

/// What a write is for; the number is the row's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    AddUser,
    /// Makes the user if it is missing, with all that the row says.
    KeepUser,
    /// Changes the user if it was there.
    MergeUser(usize),
    /// What is no user.
    Row(usize),
    /// Removes a suggestion that is over.
    DropSuggestion,
}

pub(super) struct Plan {
    pub(super) chunk: Chunk,
    pub(super) steps: Vec<Step>,
    /// Rows that need no write, because an earlier run did them.
    pub(super) done: Tally,
    /// Accounts that an earlier run made public.
    pub(super) opened: Vec<Key>,

    /// Nothing after this chunk was done by an earlier run.
    pub(super) is_caught_up: bool,
}

pub(super) struct Planner {
    pub(super) transfer: Arc<Transfer>,
    pub(super) known: Known,
    pub(super) groups: Groups,
    pub(super) create_users: bool,
    pub(super) following_max: Option<u64>,
    /// When what has no time of its own came to be.
    pub(super) now: Millis,
    pub(super) resumed: Resumed,
    pub(super) suggested: Suggested,
}

/// What has been decided on for a chunk so far.
#[derive(Default)]
struct Draft {
    writes: Vec<Write>,
    steps: Vec<Step>,
    rejects: Vec<Reject>,
    done: Tally,
    opened: Vec<Key>,
}

impl Planner {
    /// Whether the plan of a chunk depends on what is stored of those before it.
    pub(super) fn needs_all_before(&self, chunk: &Chunk) -> bool {
        self.following_max.is_some() || chunk.rows.iter().any(|row| matches!(row.entry, Entry::Suggestion { .. }))
    }

    pub(super) async fn plan(&mut self, mut chunk: Chunk) -> Result<(Plan, Vec<Write>)> {
        self.known.look_up_names(&self.transfer.context, &chunk.rows).await?;
        let over = match self.following_max {
            Some(cap) => limits::over(&self.transfer.context, &chunk.rows, cap, self.create_users).await?,
            None => HashSet::new(),
        };
        let unknown = self.suggested.look_up(&self.transfer.context, &chunk.rows).await?;
        let mut draft = Draft::default();
        for (owner, id) in self.suggested.take_over() {
            draft.steps.push(Step::DropSuggestion);
            draft.writes.push(suggested::removal(owner, id).into());
        }
        draft.writes.reserve(chunk.rows.len() * 2);
        draft.steps.reserve(chunk.rows.len() * 2);
        self.resumed.pass(chunk.rows.len() as u64);
        for (index, row) in chunk.rows.iter().enumerate() {
            let taken = row.entry.people().any(|person| self.known.presence(person) == Presence::Taken);
            let refused = match () {
                () if row.entry.is_to_self() => Some(row.entry.self_reason()),
                () if taken => Some(Reason::Refused(Code::IdTaken)),
                () if unknown.contains(&index) => Some(Reason::Refused(Code::UserNotFound)),
                () if over.contains(&index) => Some(Reason::Refused(Code::FollowingLimit)),
                () => None,
            };
            let reason = match refused {
                Some(reason) => Some(reason),
                None => self.draft_row(index, row, &mut draft).await?,
            };
            draft.rejects.extend(reason.map(|reason| chunk.reject(row, reason)));
        }
        let Draft { writes, steps, mut rejects, done, opened } = draft;
        chunk.rejects.append(&mut rejects);
        let is_caught_up = self.resumed.is_over();
        Ok((Plan { chunk, steps, done, opened, is_caught_up }, writes))
    }

    /// Why it is left out, if it is.
    async fn draft_row(&mut self, index: usize, row: &Row, draft: &mut Draft) -> Result<Option<Reason>> {
        if let Entry::User { person, patch } = &row.entry {
            self.draft_user(index, row, person, patch, draft);
            return Ok(None);
        }
        let Some((operation, mark)) = self.operation(&row.entry).await? else {
            return Ok(Some(Reason::Refused(Code::GroupNotFound)));
        };
        for person in row.entry.people() {
            // A file of suggestions may be older than an erasure.
            if matches!(row.entry, Entry::Suggestion { .. }) {
                break;
            }
            if self.create_users && self.resumed.take_added(person.key) {
                self.known.add(person);
                draft.done.users_added += 1;
            } else if self.create_users && self.known.presence(person) == Presence::Unknown {
                self.known.add(person);
                draft.steps.push(Step::AddUser);
                draft.writes.push(put(person, &UserPatch::default(), Overwrite::Keep));
            }
        }
        match self.resumed.take(&mark) {
            Some(done) => {
                draft.done.count(&row.entry, done);
            }
            None => {
                draft.steps.push(Step::Row(index));
                draft.writes.push(operation.into());
            }
        }
        Ok(None)
    }

    fn draft_user(&mut self, index: usize, row: &Row, person: &Person, patch: &UserPatch, draft: &mut Draft) {
        self.known.add(person);
        if let Some(done) = self.resumed.take_row(person.key, patch) {
            if done == Done::Updated {
                draft.opened.extend(row.entry.opens());
            }
            draft.done.count(&row.entry, done);
            return;
        }
        draft.steps.extend([Step::KeepUser, Step::MergeUser(index)]);
        draft.writes.extend([Overwrite::Keep, Overwrite::Merge].map(|how| put(person, patch, how)));
    }

    /// What a row that is no user asks for, and how it is recognised in the events; `None` when there is no such group.
    async fn operation(&mut self, entry: &Entry) -> Result<Option<(Operation, Mark)>> {
        let time = |at: &Option<Millis>| at.unwrap_or(self.now);
        Ok(Some(match entry {
            Entry::Edge { follower, target, at, quiet } => {
                let (follower, target, at, quiet) = (follower.key, target.key, time(at), *quiet);
                let mark = Mark::Edge(Kind::Follow, follower, target);
                (Operation::Import { follower, target, at, quiet }, mark)
            }
            Entry::Request { follower, target, at } => {
                let (follower, target, at) = (follower.key, target.key, time(at));
                let mark = Mark::Edge(Kind::Follow, follower, target);
                (Operation::ImportRequest { follower, target, at }, mark)
            }
            Entry::Block { actor, target, at } => {
                let (actor, target, at) = (actor.key, target.key, time(at));
                (Operation::ImportBlock { actor, target, at }, Mark::Edge(Kind::Block, actor, target))
            }
            Entry::Mute { actor, target, at, expires_at } => {
                let (actor, target, at, expires_at) = (actor.key, target.key, time(at), *expires_at);
                let mark = Mark::Edge(Kind::Mute, actor, target);
                (Operation::ImportMute { actor, target, at, expires_at }, mark)
            }
            Entry::Group { owner, id, name, at } => {
                let (space, owner, version) = (Space::Group, owner.key, id.unwrap_or_else(|| id_of(name, time(at))));
                self.groups.add(owner, version, name);
                let (id, value) = (RecordId::of_version(version), Some(document(name)?));
                let mark = Mark::Record(space, owner, id.clone());
                let (condition, cap) = (Condition::Any, Some(GROUPS_MAX));
                (Operation::PutRecord { space, owner, id, value, condition, cap }, mark)
            }
            Entry::Member { owner, group, member } => {
                let (owner, member) = (owner.key, member.key);
                let Some(group) = self.groups.find(&self.transfer.context, owner, group).await? else {
                    return Ok(None);
                };
                let group = RecordId::of_version(group);
                let Some(id) = RecordId::of_member(&group, member) else { return Ok(None) };
                let mark = Mark::Record(Space::GroupMember, owner, id);
                (Operation::GroupMember { owner, group, member, present: true }, mark)
            }
            Entry::Post { author, id, at, value } => {
                let (author, at, value) = (author.key, time(at), value.clone());
                let mark = Mark::Post(author, at, xxh3_64(&value));
                (Operation::ImportPost { author, at, id: *id, value }, mark)
            }
            Entry::Suggestion { user, suggested: other, score } => {
                let mark = Mark::Record(Space::Suggested, user.key, RecordId::of_key(other.key));
                (suggested::operation(user.key, other.key, *score, self.now), mark)
            }
            Entry::User { .. } => return Ok(None),
        }))
    }
}

/// The id of a group that had none: the same for the same name and time, so that the same file makes the same groups.
fn id_of(name: &str, at: Millis) -> Version {
    let first = Version::of_millis(at).bits();
    let room = Version::of_millis(Millis::from_since_2000(1)).bits();
    Version::from_bits(first + xxh3_64(name.as_bytes()) % room)
}

fn put(person: &Person, patch: &UserPatch, overwrite: Overwrite) -> Write {
    Operation::PutUser { key: person.key, id: person.id(), patch: patch.clone(), overwrite }.into()
}
