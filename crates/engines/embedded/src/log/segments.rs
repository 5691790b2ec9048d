//! The segments of the log that are kept, and what is known of each without reading it.

use std::{collections::VecDeque, ops::Deref};

use entourage_model::{Millis, Sequence};

use crate::log::{FORMAT, SEGMENT_HEADER, SegmentFile};

/// One index point for about this many bytes of frames, for readers of events.
pub(crate) const INDEX_BYTES: u64 = 64 << 10;

/// Where a frame begins, and the sequence before it.
pub(crate) type Point = (Sequence, u64);

#[derive(Clone)]
pub(crate) struct Segment {
    base: SegmentFile,
    /// The sequence before its first change.
    pub(crate) before: Sequence,
    pub(crate) last: Sequence,
    pub(crate) newest: Millis,
    /// Where its frames end; at the latest, for a segment that this process has not gone through.
    pub(crate) end: u64,
    /// Ascending, and apart by [`INDEX_BYTES`] or more.
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

    /// Whether a frame of so many bytes goes into it. An older version would not understand what this one writes, so
    /// that its segments are left as they are.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.format == FORMAT && self.end.checked_add(bytes).is_some_and(|end| end <= self.size)
    }

    /// Takes note of a frame that ends at `end`.
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

    /// All of it, from its first frame on.
    pub(crate) fn whole(&self) -> Reading {
        let Self { before, last, end, .. } = *self;
        Reading { file: self.base.clone(), last, end, expected: before, offset: SEGMENT_HEADER }
    }

    /// All that is needed to read on behind `after`.
    pub(crate) fn reading(&self, after: Sequence) -> Reading {
        let point = self.points.partition_point(|(before, _)| *before <= after);
        let known = point.checked_sub(1).and_then(|at| self.points.get(at)).copied();
        let (expected, offset) = known.unwrap_or((self.before, SEGMENT_HEADER));
        Reading { expected, offset, ..self.whole() }
    }
}

/// A segment as it was at one moment, and where to begin.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) file: SegmentFile,
    pub(crate) last: Sequence,
    pub(crate) end: u64,
    /// The sequence that the frame at `offset` must follow.
    pub(crate) expected: Sequence,
    pub(crate) offset: u64,
}

/// The segments in order; the last one takes the writes.
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

    /// The segment with the change after `after`.
    pub(crate) fn reading(&self, after: Sequence) -> Option<Reading> {
        let at = self.all.partition_point(|segment| segment.before <= after).checked_sub(1)?;
        self.all.get(at).map(|segment| segment.reading(after))
    }

    /// The segment after this one, from its beginning.
    pub(crate) fn following(&self, number: u64) -> Option<Reading> {
        self.all.iter().find(|segment| segment.number > number).map(Segment::whole)
    }

    /// What a reader came by, so that the next one need not begin at the beginning.
    pub(crate) fn learn(&mut self, number: u64, points: &[Point]) {
        if let Some(segment) = self.all.iter_mut().find(|segment| segment.number == number) {
            points.iter().for_each(|point| segment.learn(*point));
        }
    }
}

#[cfg(test)]
mod tests;
