//! Records in plain ordered maps. Removals leave tombstones, so that outcomes may come in any order.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use entourage_model::{Key, Record, RecordChange, RecordId, Space, Version};

type Kept = (Version, Option<Box<[u8]>>);
type Entries = BTreeMap<RecordId, Kept>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Documents {
    lists: BTreeMap<(Key, Space), Entries>,
    counts: HashMap<(Key, Space), u64>,
}

impl Documents {
    pub(super) fn apply(&mut self, change: &RecordChange, version: Version) {
        let list = (change.owner, change.space);
        let entries = self.lists.entry(list).or_default();
        let known = entries.get(&change.id);
        if known.is_some_and(|(known, _)| *known >= version) {
            return;
        }
        let was = known.is_some_and(|(_, value)| value.is_some());
        entries.insert(change.id.clone(), (version, change.after.clone()));
        let count = self.counts.get(&list).copied().unwrap_or_default();
        self.set_count(list, count + u64::from(change.after.is_some()) - u64::from(was));
    }

    fn set_count(&mut self, list: (Key, Space), count: u64) {
        if count == 0 {
            self.counts.remove(&list);
        } else {
            self.counts.insert(list, count);
        }
    }

    /// Drops everything of an owner up to `version`, except the posts, which go one by one.
    pub(super) fn forget(&mut self, owner: Key, version: Version) {
        for space in Space::ALL.into_iter().filter(|space| *space != Space::Post) {
            let list = (owner, space);
            let Some(entries) = self.lists.get_mut(&list) else { continue };
            entries.retain(|_, (known, _)| *known > version);
            let left = entries.values().filter(|(_, value)| value.is_some()).count();
            if entries.is_empty() {
                self.lists.remove(&list);
            }
            self.set_count(list, left as u64);
        }
    }

    pub(crate) fn get(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        let (version, value) = self.lists.get(&(owner, space))?.get(id)?;
        Some(Record { id: id.clone(), version: *version, value: value.clone()? })
    }

    pub(crate) fn count(&self, space: Space, owner: Key) -> u64 {
        self.counts.get(&(owner, space)).copied().unwrap_or_default()
    }

    pub(crate) fn scan(&self, space: Space, owner: Key, after: Option<&[u8]>) -> impl Iterator<Item = Record> {
        // No id exceeds the maximum length: whatever is above a longer bound is above its prefix of that length.
        let after = after.map(|after| &after[..after.len().min(RecordId::MAX_BYTES)]);
        let after = after.and_then(|after| RecordId::new(after).ok());
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.lists.get(&(owner, space)).map(|entries| entries.range((from, Bound::Unbounded)));
        let record = |(id, (version, value)): (&RecordId, &Kept)| {
            Some(Record { id: id.clone(), version: *version, value: value.clone()? })
        };
        entries.into_iter().flatten().filter_map(record)
    }

    /// Every list with its stored count and its actual number of records.
    pub(crate) fn lists(&self) -> impl Iterator<Item = ((Key, Space), u64, u64)> {
        self.lists.iter().map(|(&list, entries)| {
            let listed = entries.values().filter(|(_, value)| value.is_some()).count() as u64;
            (list, self.counts.get(&list).copied().unwrap_or_default(), listed)
        })
    }
}
