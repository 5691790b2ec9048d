//! Counters in the store: one record for each chunk of viewers, so that a crash in the middle leaves whole ones.

use std::collections::HashSet;

use entourage_model::{
    Code, Condition, Error, Key, Millis, Operation, RECORD_MAX_BYTES, Record, RecordId, Reply, Result, Space, User,
};
use entourage_store::StoreExt as _;

use super::{
    Signals,
    counters::{Chunk, Counter},
};

const FORMAT: u8 = 1;
/// How many chunks are saved between two looks at what else there is to do.
const CHUNKS_AT_ONCE: usize = 64;
const PAGE: usize = 100;
/// How often a chunk is tried again that another server has saved meanwhile.
const TRIES: usize = 5;

/// Chunks under way: what is left of them when saving ends early is saved the next time.
struct Unsaved<'a> {
    signals: &'a Signals,
    numbers: Vec<u16>,
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        let mut counters = self.signals.counters.lock();
        self.numbers.iter().for_each(|number| counters.mark_changed(*number));
    }
}

fn record_id(chunk: u16) -> Result<RecordId> {
    RecordId::new(&chunk.to_be_bytes())
}

/// As many viewers as a record holds.
fn encode(chunk: &Chunk) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    for (viewer, counters) in chunk {
        let length = size_of::<i64>() + 1 + counters.len() * (size_of::<i64>() + size_of::<f64>() + size_of::<u32>());
        if bytes.len() + length > RECORD_MAX_BYTES {
            continue;
        }
        bytes.extend_from_slice(&viewer.0.to_be_bytes());
        // At most 100.
        bytes.push(u8::try_from(counters.len()).unwrap_or(u8::MAX));
        for Counter { viewed, level, last } in counters.iter().take(usize::from(u8::MAX)) {
            bytes.extend_from_slice(&viewed.0.to_be_bytes());
            bytes.extend_from_slice(&level.to_be_bytes());
            bytes.extend_from_slice(&last.to_be_bytes());
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Chunk> {
    let (&format, mut rest) = bytes.split_first()?;
    if format != FORMAT {
        return None;
    }
    let mut chunk = Chunk::new();
    while !rest.is_empty() {
        let (viewer, tail) = rest.split_first_chunk::<8>()?;
        let (&length, mut tail) = tail.split_first()?;
        let mut counters = Vec::with_capacity(usize::from(length));
        for _ in 0..length {
            let (viewed, next) = tail.split_first_chunk::<8>()?;
            let (level, next) = next.split_first_chunk::<8>()?;
            let (last, next) = next.split_first_chunk::<4>()?;
            tail = next;
            let (viewed, level) = (Key(i64::from_be_bytes(*viewed)), f64::from_be_bytes(*level));
            counters.push(Counter { viewed, level, last: u32::from_be_bytes(*last) });
        }
        chunk.push((Key(i64::from_be_bytes(*viewer)), counters));
        rest = tail;
    }
    Some(chunk)
}

impl Signals {
    /// Adds what was saved to what has come since the start.
    pub(super) async fn load(&self) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let page = self.context.store.scan_records(Space::Signal, Key::SERVER, from, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for record in &page {
                if self.known.lock().get(&record.id) == Some(&record.version) {
                    continue;
                }
                let known = self.of_living(readable(record)).await?;
                let mut counters = self.counters.lock();
                for (viewer, own) in known {
                    for counter in own {
                        counters.put(viewer, counter, f64::max);
                    }
                }
                counters.show();
                self.known.lock().insert(record.id.clone(), record.version);
            }
        }
    }

    /// Saves, and learns what other servers of the store have saved; how many chunks were saved.
    pub(crate) async fn exchange(&self) -> Result<u64> {
        let saved = self.save().await?;
        if !self.context.store.guarantees().is_alone() {
            self.load().await?;
        }
        Ok(saved)
    }

    /// Saves what has changed since the last time; how many chunks that was.
    pub(crate) async fn save(&self) -> Result<u64> {
        // One after the other: who saves last has everything.
        let _saving = self.saving.lock().await;
        let is_alone = self.context.store.guarantees().is_alone();
        {
            let mut counters = self.counters.lock();
            counters.clean(self.context.clock.now());
            counters.show();
        }
        let mut saved = 0;
        loop {
            let chunks = self.counters.lock().take_changed(CHUNKS_AT_ONCE);
            if chunks.is_empty() {
                return Ok(saved);
            }
            let numbers = chunks.iter().map(|(number, _)| *number).collect();
            let mut unsaved = Unsaved { signals: self, numbers };
            for (number, chunk) in chunks {
                self.save_chunk(number, &chunk, is_alone).await?;
                unsaved.numbers.retain(|known| *known != number);
                saved += 1;
            }
        }
    }

    /// With what other servers of the store have saved, which this one then has as well.
    async fn save_chunk(&self, number: u16, chunk: &Chunk, is_alone: bool) -> Result<()> {
        let id = record_id(number)?;
        for _ in 0..TRIES {
            match self.try_to_save(&id, chunk.clone(), is_alone).await {
                // Another server was faster.
                Err(error) if error.code() == Code::RequestInProgress => {}
                other => return other,
            }
        }
        self.try_to_save(&id, chunk.clone(), is_alone).await
    }

    async fn try_to_save(&self, id: &RecordId, mut chunk: Chunk, is_alone: bool) -> Result<()> {
        let known = self.context.store.get_records(Space::Signal, &[(Key::SERVER, id.clone())]).await?;
        let known = known.into_iter().flatten().next();
        if !is_alone && let Some(known) = &known {
            chunk = self.with_others(chunk, readable(known)).await?;
        }
        chunk.sort_unstable_by_key(|(viewer, _)| *viewer);
        let value = (!chunk.is_empty()).then(|| encode(&chunk).into_boxed_slice());
        let condition = known.map_or(Condition::Absent, |known| Condition::Version(known.version));
        let put = Operation::PutRecord {
            space: Space::Signal,
            owner: Key::SERVER,
            id: id.clone(),
            value,
            condition,
            cap: None,
        };
        if let Reply::Record { version, .. } = self.context.writer.write_one(put).await?.reply {
            self.known.lock().insert(id.clone(), version);
        }
        Ok(())
    }

    async fn with_others(&self, own: Chunk, saved: Chunk) -> Result<Chunk> {
        let viewers: HashSet<Key> = own.iter().chain(&saved).map(|(viewer, _)| *viewer).collect();
        let saved = self.of_living(saved).await?;
        let mut counters = self.counters.lock();
        for (viewer, theirs) in saved {
            for counter in theirs {
                counters.put(viewer, counter, f64::max);
            }
        }
        Ok(counters.of(viewers))
    }

    /// Without people who are gone, and without what was saved of somebody who had the id before.
    async fn of_living(&self, chunk: Chunk) -> Result<Chunk> {
        let keys: HashSet<Key> =
            chunk.iter().flat_map(|(viewer, own)| own.iter().map(|counter| counter.viewed).chain([*viewer])).collect();
        let users = self.context.users_by_key(&keys.into_iter().collect::<Vec<_>>()).await?;
        let was_there = |key: &Key, last: u32| {
            let is_older =
                |user: &User| user.created.millis() <= Millis::from_since_2000((u64::from(last) + 1) * 1_000);
            users.get(key).is_some_and(is_older)
        };
        let living = |(viewer, mut own): (Key, Vec<Counter>)| {
            own.retain(|counter| was_there(&viewer, counter.last) && was_there(&counter.viewed, counter.last));
            (!own.is_empty()).then_some((viewer, own))
        };
        Ok(chunk.into_iter().filter_map(living).collect())
    }
}

/// Signals are a hint: what cannot be read is left out, and said.
fn readable(record: &Record) -> Chunk {
    decode(&record.value).unwrap_or_else(|| {
        let error = Error::internal("saved signals cannot be read");
        tracing::warn!(chunk = ?record.id, "{error}; they are left out");
        Chunk::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::VIEWED_MAX;

    #[test]
    fn chunks_read_back_within_a_record() {
        let counter = |viewed: i64| Counter { viewed: Key(viewed), level: viewed as f64 / 3.0, last: 77 };
        let chunk: Chunk = vec![(Key(-1), vec![counter(4), counter(-5)]), (Key(9), vec![counter(i64::MAX)])];
        assert_eq!(decode(&encode(&chunk)), Some(chunk.clone()));
        assert_eq!(decode(&encode(&Chunk::new())), Some(Chunk::new()));
        for length in 0..encode(&chunk).len() {
            assert!(decode(&encode(&chunk)[..length]) != Some(chunk.clone()));
        }
        let crowd: Chunk =
            (0..100).map(|viewer| (Key(viewer), (0..VIEWED_MAX as i64).map(counter).collect())).collect();
        let bytes = encode(&crowd);
        assert!(bytes.len() <= RECORD_MAX_BYTES && decode(&bytes).unwrap().len() >= 30);
    }
}
