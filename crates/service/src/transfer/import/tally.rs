//! The outcome of the lines of a file: every line is counted exactly once.

use std::collections::BTreeMap;

use entourage_model::{Error, Event, EventBody, Result, Space};
use serde::{Deserialize, Serialize};

use super::row::Entry;

/// What a line came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Created,
    Updated,
    Unchanged,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Lines with content, headers and comments left out: the sum of everything below but `users_added`. Of an undirected
    /// file each line is two edges.
    pub lines: u64,
    pub edges_created: u64,
    pub edges_unchanged: u64,
    pub users_created: u64,
    pub users_updated: u64,
    pub users_unchanged: u64,
    pub requests_created: u64,
    pub requests_unchanged: u64,
    pub blocks_created: u64,
    pub blocks_unchanged: u64,
    pub mutes_created: u64,
    pub mutes_unchanged: u64,
    pub groups_created: u64,
    pub groups_updated: u64,
    pub groups_unchanged: u64,
    pub members_created: u64,
    pub members_unchanged: u64,
    pub posts_created: u64,
    pub posts_unchanged: u64,
    pub suggestions_created: u64,
    pub suggestions_updated: u64,
    pub suggestions_unchanged: u64,
    pub rejected: u64,
    pub rejected_by_reason: BTreeMap<String, u64>,
    /// Users nobody described, made because a line names them.
    pub users_added: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (own, others) in self.accepted().into_iter().zip(other.accepted()) {
            *own += *others;
        }
        self.lines += other.lines;
        self.rejected += other.rejected;
        self.users_added += other.users_added;
        for (reason, count) in other.rejected_by_reason {
            *self.rejected_by_reason.entry(reason).or_default() += count;
        }
    }

    /// All lines that were not rejected.
    fn accepted(&mut self) -> [&mut u64; 21] {
        [
            &mut self.edges_created,
            &mut self.edges_unchanged,
            &mut self.users_created,
            &mut self.users_updated,
            &mut self.users_unchanged,
            &mut self.requests_created,
            &mut self.requests_unchanged,
            &mut self.blocks_created,
            &mut self.blocks_unchanged,
            &mut self.mutes_created,
            &mut self.mutes_unchanged,
            &mut self.groups_created,
            &mut self.groups_updated,
            &mut self.groups_unchanged,
            &mut self.members_created,
            &mut self.members_unchanged,
            &mut self.posts_created,
            &mut self.posts_unchanged,
            &mut self.suggestions_created,
            &mut self.suggestions_updated,
            &mut self.suggestions_unchanged,
        ]
    }

    pub(super) fn count(&mut self, entry: &Entry, done: Done) {
        let is_new = done == Done::Created;
        let count = match entry {
            Entry::Edge { .. } if is_new => &mut self.edges_created,
            Entry::Edge { .. } => &mut self.edges_unchanged,
            Entry::Request { .. } if is_new => &mut self.requests_created,
            Entry::Request { .. } => &mut self.requests_unchanged,
            Entry::Block { .. } if is_new => &mut self.blocks_created,
            Entry::Block { .. } => &mut self.blocks_unchanged,
            Entry::Mute { .. } if is_new => &mut self.mutes_created,
            Entry::Mute { .. } => &mut self.mutes_unchanged,
            Entry::Member { .. } if is_new => &mut self.members_created,
            Entry::Member { .. } => &mut self.members_unchanged,
            Entry::Post { .. } if is_new => &mut self.posts_created,
            Entry::Post { .. } => &mut self.posts_unchanged,
            Entry::Suggestion { .. } => match done {
                Done::Created => &mut self.suggestions_created,
                Done::Updated => &mut self.suggestions_updated,
                Done::Unchanged => &mut self.suggestions_unchanged,
            },
            Entry::Group { .. } => match done {
                Done::Created => &mut self.groups_created,
                Done::Updated => &mut self.groups_updated,
                Done::Unchanged => &mut self.groups_unchanged,
            },
            Entry::User { .. } => match done {
                Done::Created => &mut self.users_created,
                Done::Updated => &mut self.users_updated,
                Done::Unchanged => &mut self.users_unchanged,
            },
        };
        *count += 1;
    }

    /// What an import came to, as the event of its end tells it.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match &event.body {
            EventBody::Record { space: Space::Import, after: Some(value), .. } => serde_json::from_slice(value).ok(),
            _ => None,
        }
    }

    pub(super) fn to_record(&self) -> Result<Box<[u8]>> {
        let bytes = serde_json::to_vec(self).map_err(|_| Error::internal("a tally cannot be written"))?;
        Ok(bytes.into_boxed_slice())
    }

    pub fn is_all_rejected(&self) -> bool {
        self.rejected > 0 && self.clone().accepted().into_iter().all(|count| *count == 0)
    }

    pub(super) fn reject(&mut self, reason: &'static str) {
        self.rejected += 1;
        match self.rejected_by_reason.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.rejected_by_reason.insert(reason.to_owned(), 1)),
        }
    }
}
