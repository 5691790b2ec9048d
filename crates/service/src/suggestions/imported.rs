//! Suggestions that files brought: a record for each, owned by the user whom it is for.

use std::{cmp::Reverse, sync::Arc};

use async_trait::async_trait;
use entourage_model::{Key, Millis, Record, Result, Space, Version};
use entourage_store::StoreExt as _;

use super::source::{Asked, Candidate, Evidence, People, Source};
use crate::Context;

/// How many are kept for one user.
pub const IMPORTED_MAX: usize = 200;

/// One of them, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImportedEntry {
    key: Key,
    /// Ordered as the file's numbers are.
    score: u64,
    /// When it was imported.
    pub(crate) at: Millis,
    version: Version,
}

/// A finite number as one that orders as it does.
pub(crate) const fn ordered_score(score: f64) -> u64 {
    // One zero, not two.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

pub(crate) fn encode(score: u64, at: Millis) -> Box<[u8]> {
    [score, at.since_2000()].map(u64::to_be_bytes).concat().into_boxed_slice()
}

impl ImportedEntry {
    pub(crate) fn decode(record: &Record) -> Option<Self> {
        let (score, at) = record.value.split_first_chunk::<8>()?;
        let at = Millis::from_since_2000(u64::from_be_bytes(at.try_into().ok()?));
        Some(Self { key: record.id.key()?, score: u64::from_be_bytes(*score), at, version: record.version })
    }
}

pub(super) struct Imported {
    pub(super) context: Arc<Context>,
}

#[async_trait]
impl Source for Imported {
    /// The greatest score first, then the lesser key.
    async fn candidates(&self, asked: &Asked, limit: usize, _: &mut People) -> Result<Vec<Candidate>> {
        let records = self.context.store.scan_records(Space::Suggested, asked.viewer, None, IMPORTED_MAX).await?;
        let since = self.context.imported_since();
        let mut entries: Vec<ImportedEntry> =
            records.iter().filter_map(ImportedEntry::decode).filter(|entry| entry.at > since).collect();
        let keys: Vec<Key> = entries.iter().map(|entry| entry.key).collect();
        let users = self.context.users_by_key(&keys).await?;
        // An id that was created since is somebody else.
        entries.retain(|entry| users.get(&entry.key).is_some_and(|user| user.created <= entry.version));
        entries.sort_unstable_by_key(|entry| (Reverse(entry.score), entry.key));
        let candidate =
            |entry: &ImportedEntry| Candidate { key: entry.key, weight: entry.score, evidence: Evidence::Imported };
        Ok(entries.iter().take(limit).map(candidate).collect())
    }
}

impl Context {
    /// What was imported before this is over.
    pub(crate) fn imported_since(&self) -> Millis {
        let ttl = u64::try_from(self.rules.suggestions.ttl.as_millis()).unwrap_or(u64::MAX);
        Millis::from_since_2000(self.clock.now().since_2000().saturating_sub(ttl))
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::RecordId;

    use super::*;

    #[test]
    fn scores_order_as_numbers_do() {
        let scores = [f64::MIN, -2.5, -0.1, 0.0, 1e-9, 0.5, 3.0, f64::MAX];
        assert!(scores.map(ordered_score).is_sorted_by(|one, next| one < next));
        assert_eq!(ordered_score(-0.0), ordered_score(0.0));
    }

    #[test]
    fn entries_read_back() {
        let (version, at) = (Version::from_bits(7), Millis::from_since_2000(9));
        let record = |value: &[u8]| Record { id: RecordId::of_key(Key(-3)), version, value: value.into() };
        let value = encode(ordered_score(0.25), at);
        let entry = ImportedEntry { key: Key(-3), score: ordered_score(0.25), at, version };
        assert_eq!(ImportedEntry::decode(&record(&value)), Some(entry));
        assert_eq!(ImportedEntry::decode(&record(&value[..15])), None);
    }
}
