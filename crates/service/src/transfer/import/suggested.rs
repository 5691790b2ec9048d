//! What lines of suggestions need besides their own write: who is there, and room where earlier ones are over.

use std::collections::HashSet;

use entourage_model::{Condition, Key, Millis, Operation, RecordId, Result, Space};
use entourage_store::StoreExt as _;

use super::row::{Entry, Row};
use crate::{
    Context,
    suggestions::{
        IMPORTED_MAX,
        imported::{self, ImportedEntry},
    },
};

/// Past this many the memory of them starts anew.
const USERS_MAX: usize = 1_000_000;

#[derive(Default)]
pub(super) struct Suggested {
    /// Users whose earlier suggestions were looked at.
    seen: HashSet<Key>,
    over: Vec<(Key, RecordId)>,
}

impl Suggested {
    /// Which rows suggest somebody who is not there. What is over of the users of the others is to be taken.
    pub(super) async fn look_up(&mut self, context: &Context, rows: &[Row]) -> Result<HashSet<usize>> {
        let mut wanted = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if let Entry::Suggestion { user, suggested, .. } = &row.entry {
                wanted.push((index, suggested));
                if self.seen.len() >= USERS_MAX {
                    self.seen.clear();
                }
                if self.seen.insert(user.key) {
                    self.look_for_over(context, user.key).await?;
                }
            }
        }
        let keys: Vec<Key> = wanted.iter().map(|(_, person)| person.key).collect::<HashSet<_>>().into_iter().collect();
        let users = context.users_by_key(&keys).await?;
        let is_there = |key: Key, id: &entourage_model::UserId| users.get(&key).is_some_and(|user| user.id == *id);
        Ok(wanted.iter().filter(|(_, person)| !is_there(person.key, &person.id())).map(|(index, _)| *index).collect())
    }

    async fn look_for_over(&mut self, context: &Context, user: Key) -> Result<()> {
        let since = context.imported_since();
        for record in context.store.scan_records(Space::Suggested, user, None, IMPORTED_MAX).await? {
            if ImportedEntry::decode(&record).is_none_or(|entry| entry.at <= since) {
                self.over.push((user, record.id));
            }
        }
        Ok(())
    }

    pub(super) fn take_over(&mut self) -> Vec<(Key, RecordId)> {
        std::mem::take(&mut self.over)
    }
}

pub(super) fn operation(user: Key, suggested: Key, score: u64, at: Millis) -> Operation {
    Operation::PutRecord {
        space: Space::Suggested,
        owner: user,
        id: RecordId::of_key(suggested),
        value: Some(imported::encode(score, at)),
        condition: Condition::Any,
        cap: u32::try_from(IMPORTED_MAX).ok(),
    }
}

pub(super) fn removal(owner: Key, id: RecordId) -> Operation {
    Operation::PutRecord { space: Space::Suggested, owner, id, value: None, condition: Condition::Any, cap: None }
}
