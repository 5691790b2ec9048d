//! Users that surely exist, so that an edge need not ask for its two ends each time.

use std::collections::HashMap;

use entourage_model::{Key, Result, UserId};
use xxhash_rust::xxh3::xxh3_64;

use super::{person::Person, row::Row};
use crate::Context;

/// Past this many the memory of them starts anew: asking again is cheap, growing without bound is not.
const KNOWN_MAX: usize = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Exists,
    Unknown,
    /// The key is another id's.
    Taken,
}

#[derive(Default)]
pub(super) struct Known(HashMap<Key, u64>);

impl Known {
    pub(super) fn presence(&self, person: &Person) -> Presence {
        match self.0.get(&person.key) {
            None => Presence::Unknown,
            Some(mark) if *mark == person.mark() => Presence::Exists,
            Some(_) => Presence::Taken,
        }
    }

    pub(super) fn add(&mut self, person: &Person) {
        self.insert(person.key, person.mark());
    }

    fn insert(&mut self, key: Key, mark: u64) {
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        self.0.insert(key, mark);
    }

    /// Looks up the names of these rows that were not met before. Numbers are their own keys: nobody else can have one.
    pub(super) async fn look_up_names(&mut self, context: &Context, rows: &[Row]) -> Result<()> {
        let mut keys = Vec::new();
        let mut ask = |person: &Person| {
            if person.name.is_some() && !self.0.contains_key(&person.key) {
                keys.push(person.key);
            }
        };
        for row in rows {
            row.entry.people().for_each(&mut ask);
        }
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        for user in context.store.get_users(&keys).await?.into_iter().flatten() {
            self.insert(user.key, mark(&user.id));
        }
        Ok(())
    }
}

fn mark(id: &UserId) -> u64 {
    xxh3_64(id.as_str().as_bytes())
}
