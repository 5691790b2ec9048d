//! Events are read from the log itself: there is no second copy that could disagree.

use entourage_model::{Change, Event, Result, Sequence, Version};

use crate::{engine::Engine, fault::Fault, log::frames::Frames};
use entourage_store::{ChangedEdges, retention::events_expired};

pub(crate) fn read(engine: &Engine, after: Sequence, limit: usize) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    each(engine, after, limit, |sequence, version, change| events.push(Event::of(sequence, version, change)))?;
    Ok(events)
}

/// The edges among the next changes.
pub(crate) fn edges(engine: &Engine, after: Sequence, limit: usize) -> Result<ChangedEdges> {
    let mut edges = Vec::new();
    let read_to = each(engine, after, limit, |_, _, change| {
        if let Change::Edge(edge) = change {
            edges.push(*edge);
        }
    })?;
    Ok(ChangedEdges { read_to, edges })
}

/// Passes changes above `after` to `take`, oldest first, at most `limit`. Returns the sequence of the last.
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
    let first = {
        let segments = engine.segments.lock();
        let kept = segments.first_kept();
        if after < kept {
            return Err(events_expired(kept));
        }
        segments.reading(after)
    };
    let (mut taken, mut next) = (0, first);
    while let Some(reading) = next {
        let mut frames = Frames::new(reading);
        let mut each_in = || -> Result<bool, Fault> {
            while let Some(frame) = frames.next_above(after)? {
                let outcomes = frame.outcomes().map_err(|corrupt| frames.corrupt(corrupt))?;
                for outcome in &outcomes {
                    for (sequence, change) in outcome.numbered_changes() {
                        if sequence > after && sequence <= published {
                            take(sequence, outcome.version, change);
                            (taken, last) = (taken + 1, sequence);
                        }
                        if taken == limit || last == published {
                            return Ok(true);
                        }
                    }
                }
            }
            Ok(false)
        };
        let enough = each_in()?;
        let mut segments = engine.segments.lock();
        segments.learn(frames.number(), frames.passed());
        next = if enough { None } else { segments.following(frames.number()) };
    }
    Ok(last)
}
