//! Idempotency records: recent ones in a map, older ones in files (runs), indexed by sorted hash prefixes in memory and
//! read only on a hit. Each checkpoint writes one run, merged with smaller ones before it.

use std::{io, sync::Arc};

use entourage_model::{IdempotencyRecord, Millis, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;
use smallvec::SmallVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    checkpoint::manifest::RunEntry,
    codec::Reader,
    fault::Fault,
    log::record::{decode_idempotency, encode_idempotency},
    upkeep::left_out::Check,
};
use entourage_store::disk::{Disk, DiskFile, read_all, read_exact_at, try_read_exact_at};

/// Records are padded to this size, so that the nth one needs no index.
const RECORD_BYTES: usize = 96;
const HOUR_MILLIS: u64 = 60 * 60 * 1000;
/// Larger runs are not merged: a checkpoint holds what it merges in memory.
const MERGED_MAX: usize = 1 << 18;
const PREFIX: &str = "idempotency-";
const SUFFIX: &str = ".records";

fn name(hour: u64, run: u64) -> String {
    format!("{PREFIX}{hour:010}-{run:010}{SUFFIX}")
}

fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (hour, run) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    Some((hour.parse().ok()?, run.parse().ok()?))
}

pub(crate) fn is_record_file(name: &str) -> bool {
    parse_name(name).is_some()
}

struct Run {
    /// Hour of the newest record.
    hour: u64,
    epoch: u64,
    name: String,
    file: Arc<dyn DiskFile>,
    sum: u64,
    /// The first eight bytes of each scope, ascending, in file order.
    prefixes: Vec<u64>,
}

impl Run {
    fn entry(&self) -> RunEntry {
        let size = (self.prefixes.len() * RECORD_BYTES) as u64;
        RunEntry { name: self.name.clone(), whole: Some((size, self.sum)) }
    }

    fn is_fresh(&self, now: Millis, ttl: u64) -> bool {
        (self.hour.saturating_add(1)).saturating_mul(HOUR_MILLIS).saturating_add(ttl) > now.since_2000()
    }

    fn read(&self, index: usize, may_wait: bool) -> Result<IdempotencyRecord, Fault> {
        let offset = (index * RECORD_BYTES) as u64;
        let read = if may_wait { read_exact_at } else { try_read_exact_at };
        let bytes = read(&*self.file, RECORD_BYTES, offset).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Fault::WouldBlock,
            _ => error.into(),
        })?;
        parse_record(&bytes, self.epoch, index).ok_or_else(|| self.damaged(index))
    }

    fn read_all(&self) -> Result<Vec<IdempotencyRecord>, Fault> {
        let bytes = read_all(&*self.file)?;
        if xxh3_64(&bytes) != self.sum {
            return Err(Fault::damaged(&self.name, 0, "checksum of the file"));
        }
        let parse =
            |(index, chunk): (usize, &[u8])| parse_record(chunk, self.epoch, index).ok_or_else(|| self.damaged(index));
        bytes.chunks(RECORD_BYTES).enumerate().map(parse).collect()
    }

    fn damaged(&self, index: usize) -> Fault {
        Fault::damaged(&self.name, (index * RECORD_BYTES) as u64, "record checksum")
    }
}

/// Keys seen within the time to live.
#[derive(Default)]
pub(crate) struct Idempotency {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    recent: HashMap<[u8; 16], IdempotencyRecord>,
    frozen: HashMap<[u8; 16], IdempotencyRecord>,
    /// Oldest first: of two records with one scope the later counts.
    runs: Vec<Arc<Run>>,
    /// Names are never reused, whether their checkpoint succeeded or not.
    last_number: u64,
}

/// The runs of a checkpoint, and files it no longer refers to.
pub(crate) struct Written {
    pub(crate) runs: Vec<RunEntry>,
    pub(crate) obsolete: Vec<String>,
}

impl Idempotency {
    pub(crate) fn get(&self, scope: &[u8; 16], now: Version, ttl: u64) -> Result<Option<IdempotencyRecord>, Fault> {
        self.find(scope, now, ttl, true)
    }

    /// [`Self::get`] for callers that must not wait for the disk: fails with [`Fault::WouldBlock`] instead.
    pub(crate) fn get_in_memory(
        &self,
        scope: &[u8; 16],
        now: Version,
        ttl: u64,
    ) -> Result<Option<IdempotencyRecord>, Fault> {
        self.find(scope, now, ttl, false)
    }

    fn find(
        &self,
        scope: &[u8; 16],
        now: Version,
        ttl: u64,
        may_wait: bool,
    ) -> Result<Option<IdempotencyRecord>, Fault> {
        let fresh = |record: &IdempotencyRecord| is_fresh(record, now.millis(), ttl);
        // Read after the lock is released: new records must not wait for the disk.
        let mut candidates: SmallVec<[(Arc<Run>, usize); 1]> = SmallVec::new();
        {
            let inner = self.inner.read();
            if let Some(record) = inner.recent.get(scope).or_else(|| inner.frozen.get(scope)) {
                return Ok(Some(*record).filter(fresh));
            }
            let prefix = prefix(scope);
            for run in inner.runs.iter().rev() {
                let first = run.prefixes.partition_point(|known| *known < prefix);
                let same = run.prefixes.iter().skip(first).take_while(|known| **known == prefix).count();
                candidates.extend((first..first + same).map(|at| (Arc::clone(run), at)));
            }
        }
        for (run, at) in candidates {
            let record = run.read(at, may_wait)?;
            if record.key.scope == *scope {
                return Ok(Some(record).filter(fresh));
            }
        }
        Ok(None)
    }

    pub(crate) fn insert(&self, record: IdempotencyRecord) {
        self.inner.write().recent.insert(record.key.scope, record);
    }

    pub(crate) fn freeze(&self) {
        let mut inner = self.inner.write();
        inner.frozen = std::mem::take(&mut inner.recent);
    }

    /// Writes the frozen records, merged with the last runs that are no larger, so that runs are few and a record is
    /// seldom rewritten. Drops runs past the time to live.
    pub(crate) fn checkpoint(
        &self,
        disk: &dyn Disk,
        epoch: u64,
        number: u64,
        now: Millis,
        ttl: u64,
    ) -> Result<Written, Fault> {
        let (mut records, mut runs, number): (Vec<IdempotencyRecord>, Vec<Arc<Run>>, u64) = {
            let mut inner = self.inner.write();
            inner.last_number = number.max(inner.last_number + 1);
            (inner.frozen.values().copied().collect(), inner.runs.clone(), inner.last_number)
        };
        let mut obsolete: Vec<String> =
            runs.extract_if(.., |run| !run.is_fresh(now, ttl)).map(|run| run.name.clone()).collect();
        if !records.is_empty() {
            while let Some(run) = runs.pop_if(|run| run.prefixes.len() <= records.len().min(MERGED_MAX)) {
                match run.read_all() {
                    Ok(older) => records.extend(older),
                    // Reads of these records report the damage. A checkpoint does not need them.
                    Err(fault) => {
                        tracing::error!(%fault, "idempotency records cannot be read");
                        runs.push(run);
                        break;
                    }
                }
                obsolete.push(run.name.clone());
            }
            records.retain(|record| is_fresh(record, now, ttl));
            records.sort_unstable_by_key(|record| (record.key.scope, record.version));
            records.reverse();
            records.dedup_by_key(|record| record.key.scope);
            records.reverse();
            if !records.is_empty() {
                runs.push(Arc::new(write_run(disk, epoch, number, &records)?));
            }
        }
        let mut inner = self.inner.write();
        inner.frozen.clear();
        inner.runs.clone_from(&runs);
        Ok(Written { runs: runs.iter().map(|run| run.entry()).collect(), obsolete })
    }

    /// Opens the files a checkpoint refers to.
    pub(crate) fn open(&self, disk: &dyn Disk, epoch: u64, runs: &[RunEntry]) -> Result<(), Fault> {
        let mut inner = self.inner.write();
        for RunEntry { name, whole } in runs {
            let (hour, number) = parse_name(name).ok_or_else(|| Fault::damaged(name, 0, "not a record file"))?;
            inner.last_number = inner.last_number.max(number);
            let file = disk.open(name).map_err(|error| Fault::opening(name, error))?;
            let bytes = read_all(&*file)?;
            let (size, sum) = (bytes.len() as u64, xxh3_64(&bytes));
            let whole = whole.filter(|_| Check::RecordFiles.is_done());
            if let Some((wanted, _)) = whole.filter(|(wanted, _)| *wanted != size) {
                let what = format!("the file has {size} bytes and should have {wanted}");
                return Err(Fault::damaged(name, size.min(wanted), what));
            }
            let mut run = Run { hour, epoch, name: name.clone(), file, sum, prefixes: Vec::new() };
            for (index, chunk) in bytes.chunks(RECORD_BYTES).enumerate() {
                let record = parse_record(chunk, epoch, index).ok_or_else(|| run.damaged(index))?;
                run.prefixes.push(prefix(&record.key.scope));
            }
            if whole.is_some_and(|(_, wanted)| wanted != sum) || !run.prefixes.is_sorted() {
                return Err(Fault::damaged(name, 0, "the records are not those that the checkpoint refers to"));
            }
            inner.runs.push(Arc::new(run));
        }
        Ok(())
    }

    /// Reads and checks every file again.
    pub(crate) fn verify(&self) -> Result<(), Fault> {
        let runs = self.inner.read().runs.clone();
        runs.iter().try_for_each(|run| run.read_all().map(drop))
    }

    /// Full records in memory, prefixes of those on disk.
    pub(crate) fn memory_estimate(&self) -> u64 {
        let prefixes: usize = self.inner.read().runs.iter().map(|run| run.prefixes.len()).sum();
        self.whole_estimate() + prefixes as u64 * 8
    }

    /// The part that a checkpoint frees.
    pub(crate) fn whole_estimate(&self) -> u64 {
        let inner = self.inner.read();
        (inner.recent.len() + inner.frozen.len()) as u64 * 140
    }

    /// Records in memory and on disk.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.read();
        inner.recent.len() + inner.frozen.len() + inner.runs.iter().map(|run| run.prefixes.len()).sum::<usize>()
    }
}

fn is_fresh(record: &IdempotencyRecord, now: Millis, ttl: u64) -> bool {
    record.version.millis().plus(ttl) > now
}

const fn prefix(scope: &[u8; 16]) -> u64 {
    u64::from_be_bytes([scope[0], scope[1], scope[2], scope[3], scope[4], scope[5], scope[6], scope[7]])
}

/// `records` are sorted by scope.
fn write_run(disk: &dyn Disk, epoch: u64, number: u64, records: &[IdempotencyRecord]) -> Result<Run, Fault> {
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    let mut newest = Millis::default();
    for (index, record) in records.iter().enumerate() {
        newest = newest.max(record.version.millis());
        let start = bytes.len();
        encode_idempotency(&mut bytes, record);
        bytes.resize(start + RECORD_BYTES - 8, 0);
        let sum = xxh3_64_with_seed(&bytes[start..], epoch ^ index as u64);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    let hour = newest.since_2000() / HOUR_MILLIS;
    let name = name(hour, number);
    let file = disk.create(&name)?;
    file.write_at(&bytes, 0)?;
    file.sync().map_err(Fault::not_durable)?;
    let prefixes = records.iter().map(|record| prefix(&record.key.scope)).collect();
    Ok(Run { hour, epoch, name, file, sum: xxh3_64(&bytes), prefixes })
}

fn parse_record(chunk: &[u8], epoch: u64, index: usize) -> Option<IdempotencyRecord> {
    let (body, sum) = chunk.split_last_chunk::<8>()?;
    (chunk.len() == RECORD_BYTES).then_some(())?;
    (xxh3_64_with_seed(body, epoch ^ index as u64) == u64::from_le_bytes(*sum)).then_some(())?;
    decode_idempotency(&mut Reader::new(body)).ok()
}

#[cfg(test)]
mod tests;
