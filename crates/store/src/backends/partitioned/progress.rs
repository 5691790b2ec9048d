//! How far events, relays and appliers have come, and what that says of a watermark or a position.

use entourage_model::{Event, Key, Sequence};

use super::{bug::Bug, engine::Engine, write::Written};

/// How far each home was, in one lineage. As large for one write as for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) lineage: u64,
    pub(super) offsets: Vec<Sequence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Yes,
    NotYet,
    /// What it stands for is lost.
    OtherLineage,
}

/// Where a reader of one home's events stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) lineage: u64,
    pub(super) home: usize,
    pub(super) offset: Sequence,
}

impl Engine {
    pub(super) fn mark(&self, written: &Written) -> Mark {
        let mut offsets = vec![Sequence::ZERO; self.homes.len()];
        for (home, last) in &written.ends {
            if let Some(offset) = offsets.get_mut(*home) {
                *offset = (*offset).max(*last);
            }
        }
        Mark { lineage: self.lineage(), offsets }
    }

    /// Whether reads of these users see everything up to the mark.
    pub(super) fn has_seen(&self, mark: &Mark, whose: &[Key]) -> Seen {
        let offsets = || mark.offsets.iter().copied().enumerate().filter(|(_, offset)| *offset > Sequence::ZERO);
        {
            let forks = self.forks.lock();
            if offsets().any(|(home, offset)| forks.lost(mark.lineage, home, offset).is_some()) {
                return Seen::OtherLineage;
            }
        }
        for (source, offset) in offsets() {
            let Some(home) = self.homes.get(source) else { return Seen::OtherLineage };
            let home = home.lock();
            let waiting =
                home.outbox.iter().find(|half| half.sequence <= offset && self.is_of(half.half.target, whose));
            if home.last() < offset || waiting.is_some() {
                return Seen::NotYet;
            }
        }
        for index in whose.iter().map(|key| self.home_of(*key)) {
            let (Some(home), Some(log)) = (self.homes.get(index), self.halves.get(index)) else { continue };
            let applied = home.lock().applied;
            let log = log.lock();
            if offsets().any(|(source, offset)| log.has_from(applied, source, offset)) {
                return Seen::NotYet;
            }
        }
        Seen::Yes
    }

    fn is_of(&self, target: Key, whose: &[Key]) -> bool {
        whose.iter().any(|key| self.home_of(*key) == self.home_of(target))
    }

    /// Events of one home after a position. `Err`: where to go on, because what was read up to there is lost, or because
    /// what follows is past retention.
    pub(super) fn read_events(&self, at: Standing, limit: usize) -> Result<Vec<Event>, Standing> {
        let Some(home) = self.homes.get(at.home) else { return Ok(Vec::new()) };
        let home = home.lock();
        let forks = self.forks.lock();
        let go_on = |offset| Err(Standing { lineage: forks.lineage(), home: at.home, offset });
        if !self.has(Bug::ReadsAcrossFork)
            && let Some(last) = forks.lost(at.lineage, at.home, at.offset)
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
