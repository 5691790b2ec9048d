//! In-memory index of the log segments that are kept.

use std::{collections::VecDeque, ops::Deref};

use entourage_model::{Millis, Sequence};

use crate::log::{FORMAT, SEGMENT_HEADER, SegmentFile};

/// Minimum distance between index points, for event readers.
pub(crate) const INDEX_BYTES: u64 = 64 << 10;

/// The sequence before a frame, and the frame's offset.
pub(crate) type Point = (Sequence, u64);

#[derive(Clone)]
pub(crate) struct Segment {
    base: SegmentFile,
    /// The sequence before its first change.
    pub(crate) before: Sequence,
    pub(crate) last: Sequence,
    pub(crate) newest: Millis,
    /// Where the frames end; an upper bound if this process has not read the segment.
    pub(crate) end: u64,
    /// Ascending, at least [`INDEX_BYTES`] apart.
    points: Vec<Point>,
}

impl Deref for Segment {
    type Target = SegmentFile;

    fn deref(&self) -> &SegmentFile {
        &self.base
    }
}

impl Segment {
    pub(crate) fn new(file: SegmentFile, before: Sequence) -> Self {
        let (newest, end) = (Millis::default(), SEGMENT_HEADER);
        Self { base: file, before, last: before, newest, end, points: Vec::new() }
    }

    /// Whether a frame of this size fits. Segments of older formats get no new frames: an older version could not read
    /// them.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.format == FORMAT && self.end.checked_add(bytes).is_some_and(|end| end <= self.size)
    }

    /// Records a frame that ends at `end`.
    pub(crate) fn note(&mut self, before: Sequence, changes: u32, newest: Millis, end: u64) {
        self.learn((before, self.end));
        self.last = before.plus(u64::from(changes));
        self.newest = self.newest.max(newest);
        self.end = end;
    }

    fn learn(&mut self, point: Point) {
        let at = self.points.partition_point(|(_, offset)| *offset < point.1);
        let near = |other: Option<&Point>| other.is_some_and(|(_, offset)| offset.abs_diff(point.1) < INDEX_BYTES);
        if !near(at.checked_sub(1).and_then(|before| self.points.get(before))) && !near(self.points.get(at)) {
            self.points.insert(at, point);
        }
    }

    /// The whole segment, from its first frame.
    pub(crate) fn whole(&self) -> Reading {
        let Self { before, last, end, .. } = *self;
        Reading { file: self.base.clone(), last, end, expected: before, offset: SEGMENT_HEADER }
    }

    /// Where to start reading the changes after `after`.
    pub(crate) fn reading(&self, after: Sequence) -> Reading {
        let point = self.points.partition_point(|(before, _)| *before <= after);
        let known = point.checked_sub(1).and_then(|at| self.points.get(at)).copied();
        let (expected, offset) = known.unwrap_or((self.before, SEGMENT_HEADER));
        Reading { expected, offset, ..self.whole() }
    }
}

/// Snapshot of a segment, and where to start reading.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) file: SegmentFile,
    pub(crate) last: Sequence,
    pub(crate) end: u64,
    /// The sequence that the frame at `offset` must follow.
    pub(crate) expected: Sequence,
    pub(crate) offset: u64,
}

/// All segments in order; the last takes the writes.
#[derive(Default)]
pub(crate) struct Segments {
    pub(crate) all: VecDeque<Segment>,
}

impl Segments {
    pub(crate) fn first_kept(&self) -> Sequence {
        self.all.front().map_or(Sequence::ZERO, |segment| segment.before)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.all.iter().map(|segment| segment.size).sum()
    }

    /// The segment that has the change after `after`.
    pub(crate) fn reading(&self, after: Sequence) -> Option<Reading> {
        let at = self.all.partition_point(|segment| segment.before <= after).checked_sub(1)?;
        self.all.get(at).map(|segment| segment.reading(after))
    }

    /// The next segment, from its first frame.
    pub(crate) fn following(&self, number: u64) -> Option<Reading> {
        self.all.iter().find(|segment| segment.number > number).map(Segment::whole)
    }

    /// Adds the index points a reader passed, so that the next reader starts closer.
    pub(crate) fn learn(&mut self, number: u64, points: &[Point]) {
        if let Some(segment) = self.all.iter_mut().find(|segment| segment.number == number) {
            points.iter().for_each(|point| segment.learn(*point));
        }
    }
}

#[cfg(test)]
mod tests;
