//! What became of the lines of a file: every line is counted exactly once.

use std::collections::BTreeMap;

use entourage_model::{Error, Event, EventBody, Result, Space};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Lines with content, headers and comments left out: the sum of everything below but `users_added`. Of an undirected
    /// file each line is two edges.
    pub lines: u64,
    pub edges_created: u64,
    pub edges_unchanged: u64,
    pub users_created: u64,
    pub users_updated: u64,
    pub users_unchanged: u64,
    pub rejected: u64,
    pub rejected_by_reason: BTreeMap<String, u64>,
    /// Users nobody described, made because an edge names them.
    pub users_added: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.edges_created += other.edges_created;
        self.edges_unchanged += other.edges_unchanged;
        self.users_created += other.users_created;
        self.users_updated += other.users_updated;
        self.users_unchanged += other.users_unchanged;
        self.rejected += other.rejected;
        self.users_added += other.users_added;
        for (reason, count) in &other.rejected_by_reason {
            *self.rejected_by_reason.entry(reason.clone()).or_default() += count;
        }
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
        let users = self.users_created + self.users_updated + self.users_unchanged;
        self.rejected > 0 && self.edges_created + self.edges_unchanged + users == 0
    }

    pub(super) fn reject(&mut self, reason: &'static str) {
        self.rejected += 1;
        match self.rejected_by_reason.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.rejected_by_reason.insert(reason.to_owned(), 1)),
        }
    }
}
