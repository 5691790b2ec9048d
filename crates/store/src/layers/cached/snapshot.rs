//! What is held, as a file: read at the start, so that a restart does not send every check to the store.
//!
//! `ENTCACHE`, format, epoch of the store, the sequence that all rows have seen with the version of its event, the
//! time, erased users, rows with whole keys, the most wanted first, and a checksum of all that. Anything unexpected invalidates the file, and
//! its contents are read from the store again.

use std::{cmp::Reverse, io};

use entourage_model::{Key, Kind, Millis, Sequence, Side, Version};
use xxhash_rust::xxh3::Xxh3;

use super::{
    row::RowKey,
    rows::{Everything, Rows},
};
use crate::{
    EdgeRow,
    disk::{Disk, DiskFile, read_all},
};

pub(super) const NAME: &str = "cache.snapshot";
const NEW_NAME: &str = "cache.snapshot.new";
const MAGIC: &[u8; 8] = b"ENTCACHE";
const FORMAT: u8 = 1;
const CHUNK_BYTES: usize = 1 << 20;
const CHECKSUM_BYTES: usize = 8;

/// What a snapshot belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    /// The rows have seen every event up to here.
    pub(super) sequence: Sequence,
    /// The version of that event: a store that was set back has another one there.
    pub(super) version: Version,
}

/// Bytes written to a file, with their checksum.
struct Sink<'a> {
    file: &'a dyn DiskFile,
    buffer: Vec<u8>,
    written: u64,
    checksum: Xxh3,
}

impl Sink<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn number(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    fn keys(&mut self, keys: &[Key]) -> io::Result<()> {
        self.number(keys.len() as u64)?;
        keys.iter().try_for_each(|key| self.put(&key.0.to_le_bytes()))
    }
}

/// Replaces the file. The rows must have seen everything up to the mark before this is called; later changes in them do
/// no harm, because they are applied again. `now` is the gate's clock, `time` the wall clock.
pub(super) fn write(disk: &dyn Disk, rows: &Rows, mark: Mark, now: u64, time: Millis) -> io::Result<usize> {
    let erased = rows.erased.all();
    let Some(Everything { rows: mut held, keys }) = rows.all() else { return Ok(0) };
    held.sort_by_cached_key(|(_, row)| Reverse(row.heat.count()));
    let file = disk.create(NEW_NAME)?;
    let mut sink = Sink { file: &*file, buffer: Vec::with_capacity(CHUNK_BYTES), written: 0, checksum: Xxh3::new() };
    sink.put(MAGIC)?;
    sink.put(&[FORMAT])?;
    for number in [mark.epoch, mark.sequence.0, mark.version.bits(), time.since_2000(), erased.len() as u64] {
        sink.number(number)?;
    }
    for (key, version) in erased {
        sink.put(&key.0.to_le_bytes())?;
        sink.number(version.bits())?;
    }
    let named =
        |row: &[u32]| -> Option<Vec<Key>> { row.iter().map(|ordinal| keys.get(*ordinal as usize).copied()).collect() };
    let mut written = 0;
    for (key, row) in held.iter().filter(|(_, row)| row.expires > now) {
        let lists = (named(&row.active), named(&row.waiting), named(&row.left_behind));
        let (Some(active), Some(waiting), Some(left_behind)) = lists else { continue };
        sink.put(&[1, key.kind as u8, key.side as u8, u8::from(row.owner_there)])?;
        sink.number(key.user.0 as u64)?;
        sink.number(row.expires - now)?;
        for keys in [active, waiting, left_behind] {
            sink.keys(&keys)?;
        }
        written += 1;
    }
    sink.put(&[0])?;
    sink.flush()?;
    let checksum = sink.checksum.digest();
    sink.put(&checksum.to_le_bytes())?;
    sink.flush()?;
    file.sync()?;
    disk.rename(NEW_NAME, NAME)?;
    disk.sync_folder()?;
    Ok(written)
}

/// A file that is intact, and of this store.
pub(super) struct Snapshot {
    pub(super) mark: Mark,
    time: Millis,
    bytes: Vec<u8>,
    /// Where erased users begin.
    from: usize,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("there is none")]
    Missing,
    #[error("it is larger than what may be held")]
    TooLarge,
    #[error("it is damaged")]
    Damaged,
    #[error("it is of another store")]
    Foreign,
    #[error("{0}")]
    Disk(#[from] io::Error),
}

impl Snapshot {
    /// Refuses a file larger than `most` bytes.
    pub(super) fn read(disk: &dyn Disk, epoch: u64, most: u64) -> Result<Self, Unusable> {
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Missing),
            Err(error) => return Err(error.into()),
        };
        if file.size()? > most {
            return Err(Unusable::TooLarge);
        }
        let mut bytes = read_all(&*file)?;
        let end = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Unusable::Damaged)?;
        let checksum = bytes.split_off(end);
        if xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes().as_slice() != checksum {
            return Err(Unusable::Damaged);
        }
        let mut reader = Reader { rest: &bytes };
        if reader.take(MAGIC.len())? != MAGIC || reader.byte()? != FORMAT {
            return Err(Unusable::Damaged);
        }
        let mark = Mark {
            epoch: reader.number()?,
            sequence: Sequence(reader.number()?),
            version: Version::from_bits(reader.number()?),
        };
        let time = Millis::from_since_2000(reader.number()?);
        if mark.epoch != epoch {
            return Err(Unusable::Foreign);
        }
        let from = bytes.len() - reader.rest.len();
        Ok(Self { mark, time, bytes, from })
    }

    /// Loads the rows of the file, aged by the time since, while there is room for them.
    pub(super) fn restore(&self, rows: &Rows, now: u64, time: Millis) -> Result<Restored, Unusable> {
        let away = time.since_2000().saturating_sub(self.time.since_2000());
        let mut reader = Reader { rest: self.bytes.get(self.from..).unwrap_or_default() };
        for _ in 0..reader.number()? {
            rows.erased.insert(Key(reader.number()? as i64), Version::from_bits(reader.number()?));
        }
        let mut restored = Restored::default();
        while let Some((key, left, row)) = reader.row()? {
            if left <= away {
                restored.cold.push(key);
            } else if restored.rows == 0 || rows.has_room() {
                rows.restore(key, &row, now.saturating_add(left - away));
                restored.rows += 1;
            }
        }
        Ok(restored)
    }

    /// The rows that it has, whatever is in them.
    pub(super) fn keys(&self) -> Result<Vec<RowKey>, Unusable> {
        let mut reader = Reader { rest: self.bytes.get(self.from..).unwrap_or_default() };
        for _ in 0..reader.number()? {
            reader.take(16)?;
        }
        let mut keys = Vec::new();
        while let Some((key, ..)) = reader.row()? {
            keys.push(key);
        }
        Ok(keys)
    }
}

/// What a file came to, the most wanted rows first.
#[derive(Debug, Default)]
pub(super) struct Restored {
    pub(super) rows: usize,
    /// Rows that are past their time.
    pub(super) cold: Vec<RowKey>,
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Unusable::Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next row, with the milliseconds that were left of its life; `None` at the end of the file.
    fn row(&mut self) -> Result<Option<(RowKey, u64, EdgeRow)>, Unusable> {
        if self.byte()? != 1 {
            return if self.rest.is_empty() { Ok(None) } else { Err(Unusable::Damaged) };
        }
        let kind = Kind::from_number(self.byte()?).ok_or(Unusable::Damaged)?;
        let side = if self.byte()? == Side::Following as u8 { Side::Following } else { Side::Followers };
        let owner_there = self.byte()? == 1;
        let key = RowKey::new(Key(self.number()? as i64), kind, side);
        let left = self.number()?;
        let (active, waiting, left_behind) = (self.keys()?, self.keys()?, self.keys()?);
        Ok(Some((key, left, EdgeRow { active, waiting, left_behind, owner_there })))
    }

    fn byte(&mut self) -> Result<u8, Unusable> {
        self.take(1)?.first().copied().ok_or(Unusable::Damaged)
    }

    fn number(&mut self) -> Result<u64, Unusable> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or(Unusable::Damaged)?;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn keys(&mut self) -> Result<Vec<Key>, Unusable> {
        let count = usize::try_from(self.number()?).map_err(|_| Unusable::Damaged)?;
        let bytes = self.take(count.checked_mul(8).ok_or(Unusable::Damaged)?)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|key| Key(i64::from_le_bytes(*key))).collect())
    }
}
