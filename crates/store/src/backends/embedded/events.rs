//! Events are read from the log itself: there is no second place they could disagree with.

use entourage_model::{Change, Event, Result, Sequence, Version};

use super::{
    engine::Engine,
    fault::Fault,
    log::{self, Found, Frame, Segment},
};
use crate::{ChangedEdges, retention::events_expired};

/// Frames of a segment from `offset` on, up to where it ended when it was looked up.
pub(super) struct Frames<'a> {
    segment: &'a Segment,
    seed: u64,
    offset: u64,
}

impl<'a> Frames<'a> {
    pub(super) const fn new(segment: &'a Segment, epoch: u64, offset: u64) -> Self {
        Self { segment, seed: log::frame_seed(epoch, segment.number), offset }
    }

    pub(super) fn next(&mut self) -> Result<Option<Frame>, Fault> {
        if self.offset >= self.segment.end {
            return Ok(None);
        }
        match log::read_frame(&*self.segment.file, self.seed, self.offset)? {
            Found::Frame { frame, end } => {
                self.offset = end;
                Ok(Some(frame))
            }
            Found::End => Ok(None),
            Found::Broken(what) => Err(Fault::damaged(log::segment_name(self.segment.number), self.offset, what)),
        }
    }
}

pub(super) fn read(engine: &Engine, after: Sequence, limit: usize) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    each(engine, after, limit, |sequence, version, change| events.push(Event::of(sequence, version, change)))?;
    Ok(events)
}

/// The edges among the next changes.
pub(super) fn edges(engine: &Engine, after: Sequence, limit: usize) -> Result<ChangedEdges> {
    let mut edges = Vec::new();
    let read_to = each(engine, after, limit, |_, _, change| {
        if let Change::Edge(edge) = change {
            edges.push(*edge);
        }
    })?;
    Ok(ChangedEdges { read_to, edges })
}

/// Gives each change above `after` to `take`, oldest first and at most `limit` of them; the sequence of the last.
fn each(
    engine: &Engine,
    after: Sequence,
    limit: usize,
    mut take: impl FnMut(Sequence, Version, &Change),
) -> Result<Sequence> {
    let published = engine.state.published();
    let mut last = after;
    if after >= published || limit == 0 {
        return Ok(last);
    }
    let segments: Vec<Segment> = {
        let segments = engine.segments.lock();
        let kept = segments.first_kept();
        if after < kept {
            return Err(events_expired(kept));
        }
        let first = segments.all.partition_point(|segment| segment.before <= after).saturating_sub(1);
        segments.all.iter().skip(first).cloned().collect()
    };
    let mut taken = 0;
    for segment in &segments {
        let mut frames = Frames::new(segment, engine.epoch(), segment.start_for(after));
        while let Some(frame) = frames.next()? {
            if frame.last.plus(u64::from(frame.changes)) <= after {
                continue;
            }
            let outcomes =
                frame.outcomes().map_err(|corrupt| Fault::corrupt(log::segment_name(segment.number), 0, corrupt))?;
            for outcome in &outcomes {
                for (sequence, change) in outcome.numbered_changes() {
                    if sequence > after && sequence <= published {
                        take(sequence, outcome.version, change);
                        (taken, last) = (taken + 1, sequence);
                    }
                    if taken == limit {
                        return Ok(last);
                    }
                }
            }
        }
    }
    Ok(last)
}
