//! What the healer does unasked: it follows the log a moment behind the writers, and never far behind.

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use entourage_model::{Code, EdgeChange, Result, Sequence};
use entourage_store::{EdgeName, Maintenance};
use metrics::{counter, histogram};

use super::ROUND;
use crate::Upkeep;

/// Changes that are read and looked at at once.
const CHUNK: usize = 1_000;
/// After each chunk it rests for this many times as long as that took: a twentieth of one core at most.
const REST: u32 = 19;
/// What was written longer ago and was not looked at is left to the audit: under a flood of writes, the newest ones are
/// looked at in time rather than all of them late.
const BEHIND_MAX: Duration = Duration::from_secs(15);
/// After a start this many of the last changes are looked at: what was healed before a crash may be wrong again.
const AT_START: u64 = 10_000;
/// How many doubts wait for their second look; until then nothing more is read.
const DOUBTED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Looked at up to here.
    at: Option<Sequence>,
    /// How far the log had come at some moments, oldest first.
    marks: VecDeque<(Instant, Sequence)>,
    /// What differed when it was looked at, and when that was.
    doubted: Vec<EdgeChange>,
    doubted_at: Option<Instant>,
}

impl Watch {
    /// Notes how far the log has come; from where on and up to where there is something to look at. What was written
    /// within the last moment is left to the next round.
    fn mark(&mut self, now: Instant, last: Sequence) -> (Sequence, Sequence) {
        let mut at = *self.at.get_or_insert(Sequence(last.0.saturating_sub(AT_START)));
        let age = |mark: &(Instant, Sequence)| now.saturating_duration_since(mark.0);
        let mut given_up = Sequence::ZERO;
        while let Some(mark) = self.marks.pop_front_if(|mark| age(mark) > BEHIND_MAX) {
            given_up = mark.1;
        }
        if given_up > at {
            let skipped = given_up.0 - at.0;
            counter!("entourage_healer_skipped_total").increment(skipped);
            tracing::warn!(changes = skipped, "the healer fell behind and leaves older changes to the audit");
            at = given_up;
        }
        self.at = Some(at);
        let settled = self.marks.iter().rev().find(|mark| age(mark) >= ROUND).map_or(at, |mark| mark.1);
        if self.marks.back().is_none_or(|mark| age(mark) >= ROUND / 2) {
            self.marks.push_back((now, last));
        }
        (at, settled.max(at))
    }

    /// What was doubted long enough ago for a second look.
    fn due(&mut self, now: Instant) -> Vec<EdgeChange> {
        match self.doubted_at.take_if(|since| now.saturating_duration_since(*since) >= ROUND) {
            Some(_) => std::mem::take(&mut self.doubted),
            None => Vec::new(),
        }
    }

    fn doubt(&mut self, now: Instant, changes: Vec<EdgeChange>) {
        if !changes.is_empty() {
            self.doubted_at.get_or_insert(now);
            self.doubted.extend(changes);
        }
    }
}

impl Upkeep {
    /// One round; whether more waits to be looked at.
    pub(super) async fn watch(&self, maintenance: &dyn Maintenance, watch: &mut Watch) -> Result<bool> {
        let began = Instant::now();
        let doubted = watch.due(began);
        if let Err(error) = self.mend_written(maintenance, &doubted).await {
            watch.doubt(began, doubted);
            return Err(error);
        }
        let (mut at, settled) = watch.mark(began, self.context.store.last_event(0).await?);
        while at < settled && watch.doubted.len() < DOUBTED_MAX {
            if began.elapsed() >= ROUND {
                return Ok(true);
            }
            let chunk = Instant::now();
            let limit = CHUNK.min(usize::try_from(settled.0 - at.0).unwrap_or(CHUNK));
            let changed = match maintenance.changed_edges(at, limit).await {
                Err(error) if error.code() == Code::EventsExpired => {
                    watch.at = Some(settled);
                    return Ok(false);
                }
                other => other?,
            };
            counter!("entourage_healer_edges_total").increment(changed.edges.len() as u64);
            watch.doubt(chunk, maintenance.differing(changed.edges).await?);
            at = changed.read_to;
            watch.at = Some(at);
            tokio::time::sleep(chunk.elapsed() * REST).await;
        }
        Ok(false)
    }

    /// What still differs was not just being written.
    async fn mend_written(&self, maintenance: &dyn Maintenance, doubted: &[EdgeChange]) -> Result<()> {
        if doubted.is_empty() {
            return Ok(());
        }
        let standing = maintenance.differing(doubted.to_vec()).await?;
        let edges: BTreeSet<EdgeName> = standing.iter().map(EdgeName::from).collect();
        let healed = self.mend(maintenance, &edges.into_iter().collect::<Vec<_>>()).await?;
        let (mended, now) = (BTreeSet::from_iter(healed.mended), self.context.clock.now());
        for change in standing.iter().filter(|change| mended.contains(&EdgeName::from(*change))) {
            let millis = now.since_2000().saturating_sub(change.after.version.millis().since_2000());
            histogram!("entourage_heal_seconds").record(Duration::from_millis(millis).as_secs_f64());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_within_a_moment_is_left_to_the_next_round() {
        let (mut watch, began) = (Watch::default(), Instant::now());
        assert_eq!(watch.mark(began, Sequence(20_000)), (Sequence(10_000), Sequence(10_000)));
        assert_eq!(watch.mark(began + ROUND / 4, Sequence(20_100)), (Sequence(10_000), Sequence(10_000)));
        assert_eq!(watch.mark(began + ROUND, Sequence(20_200)), (Sequence(10_000), Sequence(20_000)));
        assert_eq!(watch.mark(began + ROUND * 2, Sequence(20_300)), (Sequence(10_000), Sequence(20_200)));
    }

    #[test]
    fn the_oldest_is_given_up_before_everything_is_late() {
        let (mut watch, began) = (Watch::default(), Instant::now());
        let mut asked = (Sequence::ZERO, Sequence::ZERO);
        for round in 0..60 {
            asked = watch.mark(began + ROUND * round, Sequence(u64::from(round) * 1_000));
        }
        let behind = BEHIND_MAX.as_secs() * 1_000;
        assert!(asked.0.0 >= 59_000 - behind - 1_000 && asked.0.0 < asked.1.0, "{asked:?}");
        assert!(watch.marks.len() <= BEHIND_MAX.as_secs() as usize + 2, "{}", watch.marks.len());
    }
}
