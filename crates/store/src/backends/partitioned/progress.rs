//! How far events, relays and appliers have come, and what that says of a watermark or a position.

use entourage_model::{Event, EventPosition, Key, Lineage, Sequence, Watermark};

use super::{bug::Bug, engine::Engine, write::Written};
use crate::{Covered, Whose};

impl Engine {
    pub(super) fn lineage(&self) -> Lineage {
        Lineage(self.forks.lock().lineage())
    }

    /// How far the homes were that a write concerned.
    pub(super) fn watermark(&self, written: &Written) -> Watermark {
        let mut offsets = vec![Sequence::ZERO; self.homes.len()];
        for (home, last) in &written.ends {
            if let Some(offset) = offsets.get_mut(*home) {
                *offset = (*offset).max(*last);
            }
        }
        Watermark::new(written.lineage, offsets)
    }

    /// Whether reads of these users see everything up to a watermark.
    pub(super) fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Covered {
        let offsets = || watermark.offsets().enumerate().filter(|(_, offset)| *offset > Sequence::ZERO);
        {
            let forks = self.forks.lock();
            if offsets().any(|(home, offset)| forks.lost(watermark.lineage().0, home, offset).is_some()) {
                return Covered::OtherLineage;
            }
        }
        for (source, offset) in offsets() {
            let Some(home) = self.homes.get(source) else { return Covered::OtherLineage };
            let home = home.lock();
            let is_waiting = |target: Key| match whose {
                Whose::Everybody => true,
                Whose::Of(keys) => keys.iter().any(|key| self.home_of(*key) == self.home_of(target)),
            };
            let mut unpublished = home.outbox.iter().take_while(|half| half.sequence <= offset);
            if home.last() < offset || unpublished.any(|half| is_waiting(half.half.target)) {
                return Covered::NotYet;
            }
        }
        let homes: Vec<usize> = match whose {
            Whose::Everybody => (0..self.homes.len()).collect(),
            Whose::Of(keys) => keys.iter().map(|key| self.home_of(*key)).collect(),
        };
        for index in homes {
            let (Some(home), Some(log)) = (self.homes.get(index), self.halves.get(index)) else { continue };
            let applied = home.lock().applied;
            let log = log.lock();
            if offsets().any(|(source, offset)| log.has_from(applied, source, offset)) {
                return Covered::NotYet;
            }
        }
        Covered::Yes
    }

    /// Events of one home after a position. `Err`: where to go on, because what was read up to there is lost, or because
    /// what follows is past retention.
    pub(super) fn read_events(&self, at: EventPosition, limit: usize) -> Result<Vec<Event>, EventPosition> {
        let Some(home) = self.homes.get(usize::from(at.partition)) else { return Ok(Vec::new()) };
        let home = home.lock();
        let forks = self.forks.lock();
        let go_on = |offset| Err(EventPosition { lineage: Lineage(forks.lineage()), offset, ..at });
        if !self.has(Bug::ReadsAcrossFork)
            && let Some(last) = forks.lost(at.lineage.0, home.index, at.offset)
        {
            return go_on(last);
        }
        if at.offset < home.dropped {
            return go_on(home.dropped);
        }
        let skipped = usize::try_from(at.offset.0 - home.dropped.0).unwrap_or(usize::MAX);
        Ok(home.events.iter().skip(skipped).take(limit).cloned().collect())
    }
}
