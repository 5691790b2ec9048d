//! The frames of a segment in order, with a continuity check: zeroed bytes look like the end of a segment, and only the
//! expected sequence tells the two apart.

use entourage_model::Sequence;

use crate::{
    codec::Corrupt,
    fault::Fault,
    log::{
        FRAME_HEADER, Frame, Header, parse_header,
        segments::{INDEX_BYTES, Point, Reading},
    },
    upkeep::left_out::Check,
};

/// Bytes per disk read.
const WINDOW_BYTES: usize = 64 << 10;

pub(crate) struct Frames {
    reading: Reading,
    /// Offset of the last frame read.
    at: u64,
    /// Bytes of the file, from `window_at`.
    window: Vec<u8>,
    window_at: u64,
    passed: Vec<Point>,
}

impl Frames {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { at: reading.offset, reading, window: Vec::new(), window_at: 0, passed: Vec::new() }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.reading.file.number
    }

    /// Index points collected on the way.
    pub(crate) fn passed(&self) -> &[Point] {
        &self.passed
    }

    /// The next frame that ends after `after`; earlier frames have only their headers read. `None` at the end of the
    /// segment, if no frame was missing.
    pub(crate) fn next_above(&mut self, after: Sequence) -> Result<Option<Frame>, Fault> {
        while let Some(header) = self.header()? {
            let offset = self.reading.offset;
            if self.passed.last().is_none_or(|(_, passed)| offset - passed >= INDEX_BYTES) {
                self.passed.push((self.reading.expected, offset));
            }
            let start = offset + FRAME_HEADER as u64;
            self.at = offset;
            self.reading.offset = start + header.length as u64;
            self.reading.expected = header.end();
            if header.end() <= after {
                continue;
            }
            let seed = self.reading.file.seed;
            let frame = header.frame(self.bytes(start, header.length)?, seed);
            return frame.map(Some).ok_or_else(|| self.reading.file.damaged(offset, "frame checksum"));
        }
        Ok(None)
    }

    /// The contents of the last frame read do not decode.
    pub(crate) fn corrupt(&self, Corrupt(what): Corrupt) -> Fault {
        self.reading.file.damaged(self.at, what)
    }

    fn header(&mut self) -> Result<Option<Header>, Fault> {
        let Reading { offset, end, expected, last, .. } = self.reading;
        let left = end.saturating_sub(offset).min(FRAME_HEADER as u64) as usize;
        let seed = self.reading.file.seed;
        let bytes = self.bytes(offset, left)?;
        if bytes.iter().all(|byte| *byte == 0) {
            if expected == last || !Check::Continuity.is_done() {
                return Ok(None);
            }
            let what = format!("a frame is missing: the segment ends at {expected} and should go on to {last}");
            return Err(self.reading.file.damaged(offset, what));
        }
        let header = parse_header(bytes, seed).ok_or_else(|| self.reading.file.damaged(offset, "frame header"))?;
        if header.last != expected && Check::Continuity.is_done() {
            let what = format!("a frame is missing: sequence {} follows {expected}", header.last);
            return Err(self.reading.file.damaged(offset, what));
        }
        Ok(Some(header))
    }

    /// Returns fewer bytes at the end of the file.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], Fault> {
        let known = self.window_at..self.window_at + self.window.len() as u64;
        if offset < known.start || offset + length as u64 > known.end {
            // The window stops at `end`: another thread may be writing the bytes after it.
            let left = usize::try_from(self.reading.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            self.window.resize(WINDOW_BYTES.min(left).max(length), 0);
            let read = self.reading.file.file.read_at(&mut self.window, offset)?;
            self.window.truncate(read);
            self.window_at = offset;
        }
        let start = (offset - self.window_at) as usize;
        Ok(self.window.get(start..(start + length).min(self.window.len())).unwrap_or_default())
    }
}
