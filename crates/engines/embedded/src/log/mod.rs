//! The write-ahead log, the source of truth: preallocated segments of checksummed frames. A frame is one batch, written
//! and made durable in one step, and begun only when the previous frame is durable.
//!
//! ```text
//! segment:  magic "EGSG" │ format u16 │ 0 u16 │ epoch u64 │ number u64 │ size u64 │ checksum u64 │ frames … │ zeros
//! frame:    magic "EGFR" │ payload length u32 │ last sequence before u64 │ changes u32 │ records u32
//!           │ payload checksum u64 │ header checksum u64 │ payload
//! payload:  base version u64 │ records
//! ```
//! A frame without records only proves that everything before it was durable. [`seals`] says how far the log reached.

pub(crate) mod frames;
pub(crate) mod next_segment;
pub(crate) mod record;
pub(crate) mod seals;
pub(crate) mod segments;

use std::{io, sync::Arc};

use entourage_model::{Outcome, Sequence, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    codec::{Corrupt, Reader},
    fault::Fault,
    identity,
};
use entourage_store::{
    Identity,
    disk::{Disk, DiskFile, read_exact_at},
};

/// 2: separate tags for users, replies and records. 3: a user change says whether it is a suspension, an erasure has
/// the user's id. 4: frame checksums are seeded from the store's secret; seals have their own file. 5: the actor's
/// quota after a follow.
pub(crate) const FORMAT: u16 = 5;
const SEGMENT_MAGIC: &[u8; 4] = b"EGSG";
const FRAME_MAGIC: &[u8; 4] = b"EGFR";
pub(crate) const SEGMENT_HEADER: u64 = 40;
pub(crate) const FRAME_HEADER: usize = 40;
const ZEROS: usize = 1 << 20;

const UNFINISHED: &str = "unfinished-segment";

pub(crate) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:012}.segment")
}

pub(crate) fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix("log-")?.strip_suffix(".segment")?.parse().ok()
}

/// Creates a segment: header and zeros to full size, durable under its name, so that later writes need no new space.
pub(crate) fn prepare(disk: &dyn Disk, identity: &Identity, number: u64, bytes: u64) -> io::Result<SegmentFile> {
    let file = disk.create(UNFINISHED)?;
    let fill = || -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(bytes as usize)];
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(zeros.len() as u64);
            file.write_at(&zeros[..length as usize], at)?;
            at += length;
        }
        file.write_at(&segment_header(FORMAT, identity.epoch, number, bytes), 0)?;
        file.sync()?;
        disk.rename(UNFINISHED, &segment_name(number))?;
        disk.sync_folder()
    };
    match fill() {
        Ok(()) => {
            let seed = frame_seed(identity, FORMAT, number);
            Ok(SegmentFile { number, file, size: bytes, format: FORMAT, seed })
        }
        Err(error) => {
            // A partial segment is useless and takes space that others may need.
            let _ = disk.remove(UNFINISHED);
            Err(error)
        }
    }
}

fn segment_header(format: u16, epoch: u64, number: u64, size: u64) -> [u8; SEGMENT_HEADER as usize] {
    let mut header = [0; SEGMENT_HEADER as usize];
    header[..4].copy_from_slice(SEGMENT_MAGIC);
    header[4..6].copy_from_slice(&format.to_le_bytes());
    header[8..16].copy_from_slice(&epoch.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[24..32].copy_from_slice(&size.to_le_bytes());
    let sum = xxh3_64_with_seed(&header[..32], epoch);
    header[32..40].copy_from_slice(&sum.to_le_bytes());
    header
}

/// A frame as read back.
pub(crate) struct Frame {
    pub(crate) last: Sequence,
    pub(crate) changes: u32,
    pub(crate) records: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn outcomes(&self) -> Result<Vec<Outcome>, Corrupt> {
        if self.records == 0 {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(&self.payload);
        let base = Version::from_bits(reader.fixed_u64()?);
        let mut last = self.last;
        let mut outcomes = Vec::with_capacity(self.records as usize);
        for _ in 0..self.records {
            let outcome = record::decode(&mut reader, base, last)?;
            last = outcome.watermark.sequence();
            outcomes.push(outcome);
        }
        reader.end()?;
        if last != self.last.plus(u64::from(self.changes)) {
            return Err(Corrupt("changes do not add up"));
        }
        Ok(outcomes)
    }
}

pub(crate) struct FrameBuilder {
    bytes: Vec<u8>,
    last: Sequence,
    changes: u32,
    records: u32,
    base: Version,
}

impl FrameBuilder {
    pub(crate) fn new(last: Sequence) -> Self {
        let mut bytes = Vec::with_capacity(16 << 10);
        bytes.resize(FRAME_HEADER, 0);
        Self { bytes, last, changes: 0, records: 0, base: Version::ZERO }
    }

    pub(crate) fn push(&mut self, outcome: &Outcome) {
        if self.records == 0 {
            self.base = outcome.version;
            self.bytes.extend_from_slice(&self.base.bits().to_le_bytes());
        }
        record::encode(&mut self.bytes, outcome, self.base);
        self.changes += outcome.changes.len() as u32;
        self.records += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    fn finish(&mut self, seed: u64) -> &[u8] {
        let payload = xxh3_64_with_seed(&self.bytes[FRAME_HEADER..], seed);
        let length = (self.bytes.len() - FRAME_HEADER) as u32;
        let header = &mut self.bytes[..FRAME_HEADER];
        header[..4].copy_from_slice(FRAME_MAGIC);
        header[4..8].copy_from_slice(&length.to_le_bytes());
        header[8..16].copy_from_slice(&self.last.0.to_le_bytes());
        header[16..20].copy_from_slice(&self.changes.to_le_bytes());
        header[20..24].copy_from_slice(&self.records.to_le_bytes());
        header[24..32].copy_from_slice(&payload.to_le_bytes());
        let sum = xxh3_64_with_seed(&header[..32], seed);
        header[32..40].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }
}

/// What is at an offset.
pub(crate) enum Found {
    Frame {
        frame: Frame,
        end: u64,
    },
    /// Zeros, or the end of the file.
    End,
    /// A torn write, or damage.
    Broken(&'static str),
}

pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) last: Sequence,
    pub(crate) changes: u32,
    pub(crate) records: u32,
    /// Checksum of the payload.
    payload: u64,
}

impl Header {
    /// The last sequence of the frame.
    pub(crate) fn end(&self) -> Sequence {
        self.last.plus(u64::from(self.changes))
    }

    pub(crate) fn frame(&self, payload: &[u8], seed: u64) -> Option<Frame> {
        let Self { last, changes, records, .. } = *self;
        let whole = payload.len() == self.length && xxh3_64_with_seed(payload, seed) == self.payload;
        whole.then(|| Frame { last, changes, records, payload: payload.to_vec() })
    }
}

pub(crate) fn parse_header(bytes: &[u8], seed: u64) -> Option<Header> {
    let mut reader = Reader::new(bytes);
    (reader.take(4).ok()? == FRAME_MAGIC).then_some(())?;
    let length = reader.fixed_u32().ok()? as usize;
    let last = Sequence(reader.fixed_u64().ok()?);
    let changes = reader.fixed_u32().ok()?;
    let records = reader.fixed_u32().ok()?;
    let payload = reader.fixed_u64().ok()?;
    let sum = reader.fixed_u64().ok()?;
    (sum == xxh3_64_with_seed(&bytes[..32], seed)).then_some(Header { length, last, changes, records, payload })
}

/// Frame checksums depend on the store's secret and the segment: bytes of another store or segment do not pass, nor do
/// forged ones. Before format 4 the epoch took the secret's place.
pub(crate) fn frame_seed(identity: &Identity, format: u16, number: u64) -> u64 {
    match format {
        ..4 => identity.epoch ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        _ => identity::seed(identity, b"EGFR", &[number]),
    }
}

pub(crate) fn read_frame(file: &dyn DiskFile, seed: u64, offset: u64) -> io::Result<Found> {
    let mut header = [0; FRAME_HEADER];
    let read = file.read_at(&mut header, offset)?;
    if header.iter().all(|byte| *byte == 0) {
        return Ok(Found::End);
    }
    let Some(parsed) = parse_header(&header[..read], seed) else { return Ok(Found::Broken("frame header")) };
    let mut payload = vec![0; parsed.length];
    let read = file.read_at(&mut payload, offset + FRAME_HEADER as u64)?;
    let Some(frame) = parsed.frame(&payload[..read], seed) else { return Ok(Found::Broken("frame checksum")) };
    Ok(Found::Frame { frame, end: offset + (FRAME_HEADER + parsed.length) as u64 })
}

/// Offset of the next valid frame header after `offset`, if any: proof that the bytes at `offset` had been durable.
pub(crate) fn frame_after(file: &dyn DiskFile, seed: u64, offset: u64) -> io::Result<Option<u64>> {
    let size = file.size()?;
    let mut at = offset;
    while at < size {
        let length = (size - at).min((4 << 20) + FRAME_HEADER as u64) as usize;
        let window = read_exact_at(file, length, at)?;
        for start in 0..window.len().saturating_sub(FRAME_HEADER - 1) {
            if window[start] == FRAME_MAGIC[0]
                && at + start as u64 > offset
                && parse_header(&window[start..start + FRAME_HEADER], seed).is_some()
            {
                return Ok(Some(at + start as u64));
            }
        }
        at += (length - (FRAME_HEADER - 1).min(length - 1)) as u64;
        if size - at < FRAME_HEADER as u64 {
            break;
        }
    }
    Ok(None)
}

/// Opens a segment of this store; any other file is refused. A segment gets its name only once it is complete.
pub(crate) fn open_segment(disk: &dyn Disk, identity: &Identity, number: u64) -> Result<SegmentFile, Fault> {
    let name = segment_name(number);
    let file = disk.open(&name).map_err(|error| Fault::opening(&name, error))?;
    let mut header = [0; SEGMENT_HEADER as usize];
    file.read_at(&mut header, 0)?;
    let format = u16::from_le_bytes([header[4], header[5]]);
    let size = Reader::new(&header[24..32]).fixed_u64().unwrap_or_default();
    if header[..4] != *SEGMENT_MAGIC {
        return Err(Fault::damaged(name, 0, "not a log segment"));
    }
    if format > FORMAT {
        return Err(Fault::Format { file: name, found: format, known: FORMAT });
    }
    if header != segment_header(format, identity.epoch, number, size) {
        return Err(Fault::damaged(name, 0, "segment header"));
    }
    let found = file.size()?;
    if found < size {
        return Err(Fault::damaged(name, found, format!("the file ends here and should have {size} bytes")));
    }
    Ok(SegmentFile { number, file, size, format, seed: frame_seed(identity, format, number) })
}

/// The part of a segment that never changes.
#[derive(Clone)]
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
    pub(crate) format: u16,
    pub(crate) seed: u64,
}

impl SegmentFile {
    pub(crate) fn damaged(&self, offset: u64, what: impl Into<String>) -> Fault {
        Fault::damaged(segment_name(self.number), offset, what)
    }
}

/// Writes a frame durably at `offset`, the end of the log. Returns the new end.
pub(crate) fn write_frame(to: &SegmentFile, offset: u64, frame: &mut FrameBuilder) -> io::Result<u64> {
    let bytes = frame.finish(to.seed);
    to.file.write_durable_at(bytes, offset)?;
    Ok(offset + bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use entourage_model::Secret;

    use super::*;
    use entourage_testkit::crash_disk::CrashDisk;

    /// A client who knows the epoch posts bytes that look like a frame, and the power fails while they are written:
    /// they prove nothing.
    #[test]
    fn a_frame_in_what_somebody_posted_is_none() {
        let identity = Identity { epoch: 99, secret: Secret::from_bytes([5; 32]) };
        let segment = prepare(&CrashDisk::new(), &identity, 4, 64 << 10).unwrap();
        let forged = FrameBuilder::new(Sequence(77)).finish(frame_seed(&identity, 3, 4)).to_vec();
        segment.file.write_at(&forged, SEGMENT_HEADER + 500).unwrap();
        let after = |seed| frame_after(&*segment.file, seed, SEGMENT_HEADER).unwrap();
        assert!(after(frame_seed(&identity, 3, 4)).is_some(), "in a segment of an older format it would");
        assert_eq!(after(segment.seed), None);
        let other = Identity { epoch: 99, secret: Secret::from_bytes([6; 32]) };
        assert_ne!(frame_seed(&other, FORMAT, 4), segment.seed, "the secret is part of it");
        write_frame(&segment, SEGMENT_HEADER + 9_000, &mut FrameBuilder::new(Sequence(78))).unwrap();
        assert_eq!(after(segment.seed), Some(SEGMENT_HEADER + 9_000));
    }
}
