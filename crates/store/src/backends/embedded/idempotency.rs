//! Idempotency records: recent ones in a map, older ones in one file for each checkpoint and hour, found by a sorted
//! array of hash prefixes in memory and read from disk only on a hit.

use std::{io, sync::Arc};

use entourage_model::{IdempotencyRecord, Millis, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    codec::Reader,
    fault::Fault,
    record::{decode_idempotency, encode_idempotency},
};
use crate::disk::{Disk, DiskFile, read_exact_at};

/// Every record is padded to this, so that the nth one needs no index.
const RECORD_BYTES: usize = 96;
const HOUR_MILLIS: u64 = 60 * 60 * 1000;
const PREFIX: &str = "idempotency-";
const SUFFIX: &str = ".records";

fn name(hour: u64, run: u64) -> String {
    format!("{PREFIX}{hour:010}-{run:010}{SUFFIX}")
}

fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (hour, run) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    Some((hour.parse().ok()?, run.parse().ok()?))
}

pub(super) fn is_record_file(name: &str) -> bool {
    parse_name(name).is_some()
}

struct Run {
    hour: u64,
    epoch: u64,
    name: String,
    file: Arc<dyn DiskFile>,
    /// The first eight bytes of each scope, ascending, as the records stand in the file.
    prefixes: Vec<u64>,
}

/// Keys seen within the time to live.
#[derive(Default)]
pub(super) struct Idempotency {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    recent: HashMap<[u8; 16], IdempotencyRecord>,
    frozen: HashMap<[u8; 16], IdempotencyRecord>,
    runs: Vec<Run>,
}

impl Idempotency {
    pub(super) fn get(&self, scope: &[u8; 16], now: Version, ttl: u64) -> Result<Option<IdempotencyRecord>, Fault> {
        let inner = self.inner.read();
        let fresh = |record: &IdempotencyRecord| record.version.millis().plus(ttl) > now.millis();
        if let Some(record) = inner.recent.get(scope).or_else(|| inner.frozen.get(scope)) {
            return Ok(Some(*record).filter(fresh));
        }
        let prefix = prefix(scope);
        for run in inner.runs.iter().rev() {
            let mut at = run.prefixes.partition_point(|known| *known < prefix);
            while run.prefixes.get(at) == Some(&prefix) {
                let record = read_record(run, at)?;
                if record.key.scope == *scope {
                    return Ok(Some(record).filter(fresh));
                }
                at += 1;
            }
        }
        Ok(None)
    }

    pub(super) fn insert(&self, record: IdempotencyRecord) {
        self.inner.write().recent.insert(record.key.scope, record);
    }

    pub(super) fn freeze(&self) {
        let mut inner = self.inner.write();
        inner.frozen = std::mem::take(&mut inner.recent);
    }

    /// Writes what was set aside, one file for each hour, and forgets hours past the time to live.
    /// Returns the names a checkpoint refers to, and those it no longer does.
    pub(super) fn checkpoint(
        &self,
        disk: &dyn Disk,
        epoch: u64,
        run: u64,
        now: Millis,
        ttl: u64,
    ) -> Result<(Vec<String>, Vec<String>), Fault> {
        let mut hours: HashMap<u64, Vec<IdempotencyRecord>> = HashMap::new();
        for record in self.inner.read().frozen.values() {
            hours.entry(record.version.millis().since_2000() / HOUR_MILLIS).or_default().push(*record);
        }
        let mut runs = Vec::new();
        for (hour, mut records) in hours {
            records.sort_by_key(|record| (prefix(&record.key.scope), record.key.scope));
            runs.push(write_run(disk, epoch, hour, run, &records)?);
        }
        let mut inner = self.inner.write();
        inner.frozen.clear();
        inner.runs.extend(runs);
        inner.runs.sort_by(|a, b| a.name.cmp(&b.name));
        let fresh = |run: &Run| (run.hour + 1) * HOUR_MILLIS + ttl > now.since_2000();
        let expired = inner.runs.extract_if(.., |run| !fresh(run)).map(|run| run.name).collect();
        Ok((inner.runs.iter().map(|run| run.name.clone()).collect(), expired))
    }

    /// Opens the files a checkpoint refers to.
    pub(super) fn open(&self, disk: &dyn Disk, epoch: u64, names: &[String]) -> Result<(), Fault> {
        let mut inner = self.inner.write();
        for name in names {
            let (hour, _) = parse_name(name).ok_or_else(|| Fault::damaged(name, 0, "not a record file"))?;
            let file = disk.open(name).map_err(|error| Fault::opening(name, error))?;
            let size = file.size()?;
            let mut run = Run { hour, epoch, name: name.clone(), file, prefixes: Vec::new() };
            let bytes = read_exact_at(&*run.file, size as usize, 0)?;
            for (index, chunk) in bytes.chunks(RECORD_BYTES).enumerate() {
                let record = parse_record(chunk, epoch, index)
                    .ok_or_else(|| Fault::damaged(name, (index * RECORD_BYTES) as u64, "record checksum"))?;
                run.prefixes.push(prefix(&record.key.scope));
            }
            inner.runs.push(run);
        }
        inner.runs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Records in memory whole, those on disk by their prefix.
    pub(super) fn memory_estimate(&self) -> u64 {
        let prefixes: usize = self.inner.read().runs.iter().map(|run| run.prefixes.len()).sum();
        self.whole_estimate() + prefixes as u64 * 8
    }

    /// The part of it that checkpoints give back.
    pub(super) fn whole_estimate(&self) -> u64 {
        let inner = self.inner.read();
        (inner.recent.len() + inner.frozen.len()) as u64 * 140
    }

    /// How many records memory and disk hold.
    pub(super) fn len(&self) -> usize {
        let inner = self.inner.read();
        inner.recent.len() + inner.frozen.len() + inner.runs.iter().map(|run| run.prefixes.len()).sum::<usize>()
    }
}

const fn prefix(scope: &[u8; 16]) -> u64 {
    u64::from_be_bytes([scope[0], scope[1], scope[2], scope[3], scope[4], scope[5], scope[6], scope[7]])
}

fn write_run(disk: &dyn Disk, epoch: u64, hour: u64, run: u64, records: &[IdempotencyRecord]) -> io::Result<Run> {
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    for (index, record) in records.iter().enumerate() {
        let start = bytes.len();
        encode_idempotency(&mut bytes, record);
        bytes.resize(start + RECORD_BYTES - 8, 0);
        let sum = xxh3_64_with_seed(&bytes[start..], epoch ^ index as u64);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    let name = name(hour, run);
    let file = disk.create(&name)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    let prefixes = records.iter().map(|record| prefix(&record.key.scope)).collect();
    Ok(Run { hour, epoch, name, file, prefixes })
}

fn read_record(run: &Run, index: usize) -> Result<IdempotencyRecord, Fault> {
    let offset = (index * RECORD_BYTES) as u64;
    let bytes = read_exact_at(&*run.file, RECORD_BYTES, offset)?;
    parse_record(&bytes, run.epoch, index).ok_or_else(|| Fault::damaged(&run.name, offset, "record checksum"))
}

fn parse_record(chunk: &[u8], epoch: u64, index: usize) -> Option<IdempotencyRecord> {
    let (body, sum) = chunk.split_last_chunk::<8>()?;
    (chunk.len() == RECORD_BYTES).then_some(())?;
    (xxh3_64_with_seed(body, epoch ^ index as u64) == u64::from_le_bytes(*sum)).then_some(())?;
    decode_idempotency(&mut Reader::new(body)).ok()
}
