//! The progress of events, relays and appliers, and what it means for a watermark or a position.

use entourage_model::{Event, EventPosition, Key, Lineage, Sequence, Watermark};

use super::{bug::Bug, engine::Engine, home::End};
use entourage_store::{Covered, Whose};

impl Engine {
    pub fn lineage(&self) -> Lineage {
        Lineage(self.forks.lock().lineage())
    }

    /// The progress of the homes that a write concerned. `None`: one of them has lost some of that.
    pub fn watermark(&self, ends: &[End]) -> Option<Watermark> {
        let mut offsets = vec![Sequence::ZERO; self.homes.len()];
        let forks = self.forks.lock();
        for end in ends {
            if forks.lost_of(end) {
                return None;
            }
            if let Some(offset) = offsets.get_mut(end.home) {
                *offset = (*offset).max(end.last);
            }
        }
        Some(Watermark::new(Lineage(forks.lineage()), offsets))
    }

    /// Of everything so far.
    pub fn watermark_of_all(&self) -> Option<Watermark> {
        let ends: Vec<End> = self.homes.iter().map(|home| home.lock().end()).collect();
        self.watermark(&ends)
    }

    /// Whether reads of these users see everything up to a watermark.
    pub fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Covered {
        let offsets = || watermark.offsets().enumerate().filter(|(_, offset)| *offset > Sequence::ZERO);
        {
            let forks = self.forks.lock();
            let mut lost =
                offsets().filter(|(home, offset)| forks.lost(watermark.lineage().0, *home, *offset).is_some());
            if !self.has(Bug::CoversLost) && lost.next().is_some() {
                return Covered::OtherLineage;
            }
        }
        // Republication after a fork counts as well: until then others have what is lost.
        let mut said = Vec::new();
        for (source, offset) in offsets() {
            let Some(home) = self.homes.get(source) else { return Covered::OtherLineage };
            let home = home.lock();
            let Some(mended) = home.mended else { return Covered::NotYet };
            let offset = offset.max(mended);
            said.push((source, offset));
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
            let (applied, mended) = {
                let home = home.lock();
                (home.applied, home.mended)
            };
            let log = log.lock();
            if mended.is_none() || said.iter().any(|(source, offset)| log.has_from(applied, *source, *offset)) {
                return Covered::NotYet;
            }
        }
        Covered::Yes
    }

    /// Events of one home after a position. `Err`: where to resume, because what was read up to there is lost, or
    /// because what follows is past retention.
    pub fn read_events(&self, at: EventPosition, limit: usize) -> Result<Vec<Event>, EventPosition> {
        let Some(home) = self.homes.get(usize::from(at.partition)) else { return Ok(Vec::new()) };
        let home = home.lock();
        let forks = self.forks.lock();
        let go_on = |offset| Err(EventPosition { lineage: Lineage(forks.lineage()), offset, ..at });
        if !self.has(Bug::ReadsAcrossFork)
            && let Some(last) = forks.lost(at.lineage.0, home.index, at.offset)
        {
            // What is left below the fork may be past retention as well.
            return go_on(last.max(home.dropped));
        }
        if at.offset < home.dropped {
            return go_on(home.dropped);
        }
        let skipped = usize::try_from(at.offset.0 - home.dropped.0).unwrap_or(usize::MAX);
        Ok(home.events.iter().skip(skipped).take(limit).cloned().collect())
    }
}
