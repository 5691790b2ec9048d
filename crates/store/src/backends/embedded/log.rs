//! The log: the truth. Preallocated segments of checksummed frames; a frame is one batch, written and made durable in
//! one step, and never begun before the one before it was durable.
//!
//! ```text
//! segment:  magic "EGSG" │ format u16 │ 0 u16 │ epoch u64 │ number u64 │ size u64 │ checksum u64 │ frames … │ zeros
//! frame:    magic "EGFR" │ payload length u32 │ last sequence before u64 │ changes u32 │ records u32
//!           │ payload checksum u64 │ header checksum u64 │ payload
//! payload:  base version u64 │ records
//! ```
//! A frame without records is a seal: it proves that what stands before it was durable.

use std::{collections::VecDeque, io, sync::Arc};

use entourage_model::{Millis, Outcome, Sequence, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    codec::{Corrupt, Reader},
    fault::Fault,
    record,
};
use crate::disk::{Disk, DiskFile, read_exact_at};

/// 2: users, replies and records have tags of their own. 3: changes of users say whether they are a suspension, and an
/// erasure whose it is.
pub(super) const FORMAT: u16 = 3;
const SEGMENT_MAGIC: &[u8; 4] = b"EGSG";
const FRAME_MAGIC: &[u8; 4] = b"EGFR";
pub(super) const SEGMENT_HEADER: u64 = 40;
pub(super) const FRAME_HEADER: usize = 40;
/// One index point for about this many bytes of frames, for readers of events.
const INDEX_BYTES: u64 = 64 << 10;
const ZEROS: usize = 1 << 20;

const UNFINISHED: &str = "unfinished-segment";

pub(super) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

pub(super) fn segment_name(number: u64) -> String {
    format!("log-{number:012}.segment")
}

pub(super) fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix("log-")?.strip_suffix(".segment")?.parse().ok()
}

/// A segment with its header and zeros to its full size, durable under its name: later writes need no new space.
pub(super) fn prepare(disk: &dyn Disk, epoch: u64, number: u64, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(UNFINISHED)?;
    let fill = || -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(bytes as usize)];
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(zeros.len() as u64);
            file.write_at(&zeros[..length as usize], at)?;
            at += length;
        }
        file.write_at(&segment_header(FORMAT, epoch, number, bytes), 0)?;
        file.sync()?;
        disk.rename(UNFINISHED, &segment_name(number))?;
        disk.sync_folder()
    };
    match fill() {
        Ok(()) => Ok(file),
        Err(error) => {
            // Half a segment helps nobody and holds space that others may need.
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
pub(super) struct Frame {
    pub(super) last: Sequence,
    pub(super) changes: u32,
    pub(super) records: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn outcomes(&self) -> Result<Vec<Outcome>, Corrupt> {
        if self.records == 0 {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(&self.payload);
        let base = Version::from_bits(reader.fixed_u64()?);
        let mut last = self.last;
        let mut outcomes = Vec::with_capacity(self.records as usize);
        for _ in 0..self.records {
            let outcome = record::decode(&mut reader, base, last)?;
            last = outcome.watermark;
            outcomes.push(outcome);
        }
        reader.end()?;
        if last != self.last.plus(u64::from(self.changes)) {
            return Err(Corrupt("changes do not add up"));
        }
        Ok(outcomes)
    }
}

/// Builds a frame in place.
pub(super) struct FrameBuilder {
    bytes: Vec<u8>,
    last: Sequence,
    changes: u32,
    records: u32,
    base: Version,
}

impl FrameBuilder {
    pub(super) fn new(last: Sequence) -> Self {
        let mut bytes = Vec::with_capacity(16 << 10);
        bytes.resize(FRAME_HEADER, 0);
        Self { bytes, last, changes: 0, records: 0, base: Version::ZERO }
    }

    pub(super) fn push(&mut self, outcome: &Outcome) {
        if self.records == 0 {
            self.base = outcome.version;
            self.bytes.extend_from_slice(&self.base.bits().to_le_bytes());
        }
        record::encode(&mut self.bytes, outcome, self.base);
        self.changes += outcome.changes.len() as u32;
        self.records += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) const fn changes(&self) -> u32 {
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

/// What stands at an offset.
pub(super) enum Found {
    Frame {
        frame: Frame,
        end: u64,
    },
    /// Zeros, or the end of the file.
    End,
    /// Something that is neither: a torn write, or damage.
    Broken(&'static str),
}

struct Header {
    length: usize,
    last: Sequence,
    changes: u32,
    records: u32,
    payload: u64,
}

fn parse_header(bytes: &[u8], seed: u64) -> Option<Header> {
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

/// A frame's checksums depend on the store and the segment: bytes of another one do not pass.
pub(super) const fn frame_seed(epoch: u64, number: u64) -> u64 {
    epoch ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) fn read_frame(file: &dyn DiskFile, seed: u64, offset: u64) -> io::Result<Found> {
    let mut header = [0; FRAME_HEADER];
    let read = file.read_at(&mut header, offset)?;
    if header.iter().all(|byte| *byte == 0) {
        return Ok(Found::End);
    }
    let Some(parsed) = parse_header(&header[..read], seed) else { return Ok(Found::Broken("frame header")) };
    let mut payload = vec![0; parsed.length];
    let read = file.read_at(&mut payload, offset + FRAME_HEADER as u64)?;
    if read < parsed.length || xxh3_64_with_seed(&payload, seed) != parsed.payload {
        return Ok(Found::Broken("frame checksum"));
    }
    let end = offset + (FRAME_HEADER + parsed.length) as u64;
    let Header { last, changes, records, .. } = parsed;
    Ok(Found::Frame { frame: Frame { last, changes, records, payload }, end })
}

/// Where the next whole frame header after `offset` stands, if there is one: proof that what stands at `offset` had
/// been durable.
pub(super) fn frame_after(file: &dyn DiskFile, seed: u64, offset: u64) -> io::Result<Option<u64>> {
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

/// The size of a segment of this store; anything else is refused. A segment has its name only once it is whole.
pub(super) fn check_segment(file: &dyn DiskFile, epoch: u64, number: u64) -> Result<u64, Fault> {
    let name = segment_name(number);
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
    if header != segment_header(format, epoch, number, size) {
        return Err(Fault::damaged(name, 0, "segment header"));
    }
    let found = file.size()?;
    if found < size {
        return Err(Fault::damaged(name, found, format!("the file ends here and should have {size} bytes")));
    }
    Ok(size)
}

/// Whether a segment that was checked has the format of this version: one of an earlier version takes no more frames.
pub(super) fn is_current(file: &dyn DiskFile) -> io::Result<bool> {
    let mut format = [0; 2];
    file.read_at(&mut format, 4)?;
    Ok(u16::from_le_bytes(format) == FORMAT)
}

/// What is known of a segment without reading it.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: u64,
    /// The sequence before its first change.
    pub(super) before: Sequence,
    pub(super) last: Sequence,
    pub(super) newest: Millis,
    /// Where its frames end.
    pub(super) end: u64,
    /// (sequence before the frame, offset), ascending.
    pub(super) points: Vec<(Sequence, u64)>,
}

impl Segment {
    pub(super) fn new(number: u64, file: Arc<dyn DiskFile>, size: u64, before: Sequence) -> Self {
        let end = SEGMENT_HEADER;
        Self { number, file, size, before, last: before, newest: Millis::default(), end, points: Vec::new() }
    }

    pub(super) fn end_of_log(&self) -> End {
        End { number: self.number, file: Arc::clone(&self.file), offset: self.end }
    }

    /// Takes note of a frame that ends at `end`.
    pub(super) fn note(&mut self, before: Sequence, changes: u32, newest: Millis, end: u64) {
        if self.points.last().is_none_or(|(_, offset)| self.end - offset >= INDEX_BYTES) {
            self.points.push((before, self.end));
        }
        self.last = before.plus(u64::from(changes));
        self.newest = self.newest.max(newest);
        self.end = end;
    }

    pub(super) fn start_for(&self, after: Sequence) -> u64 {
        let point = self.points.partition_point(|(before, _)| *before <= after);
        point.checked_sub(1).and_then(|at| self.points.get(at)).map_or(SEGMENT_HEADER, |(_, offset)| *offset)
    }
}

/// The segments in order; the last one takes the writes.
#[derive(Default)]
pub(super) struct Segments {
    pub(super) all: VecDeque<Segment>,
}

impl Segments {
    pub(super) fn first_kept(&self) -> Sequence {
        self.all.front().map_or(Sequence::ZERO, |segment| segment.before)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|segment| segment.size).sum()
    }
}

/// Where the log ends, and the next frame begins.
pub(super) struct End {
    number: u64,
    file: Arc<dyn DiskFile>,
    pub(super) offset: u64,
}

/// Writes a frame where the log ends, and says where it ends then.
pub(super) fn write_frame(end: &End, epoch: u64, frame: &mut FrameBuilder) -> io::Result<u64> {
    let bytes = frame.finish(frame_seed(epoch, end.number));
    end.file.write_durable_at(bytes, end.offset)?;
    Ok(end.offset + bytes.len() as u64)
}
