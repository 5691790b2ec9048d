//! `memory.budget`: whether it is used up, when a checkpoint starts in order to free memory, and when a write that was
//! refused for it may be retried.

use std::time::{Duration, Instant};

use crate::engine::Engine;

/// A checkpoint has to free one part in this many of the budget.
const WORTHWHILE: u64 = 256;
/// Bytes a second that a checkpoint frees, before one was measured.
const FIRST_RATE: u64 = 32 << 20;
/// No checkpoint would help: an operator has to remove data or raise the budget.
const NOTHING_TO_FREE: Duration = Duration::from_secs(60);

/// How fast checkpoints free memory.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the running checkpoint began, and what it frees.
    running: Option<(Instant, u64)>,
    /// Bytes a second of the last one.
    rate: Option<u64>,
}

impl Pace {
    pub(crate) fn began(&mut self, frees: u64) {
        self.running = Some((Instant::now(), frees));
    }

    pub(crate) fn ended(&mut self) {
        let Some((began, frees)) = self.running.take() else { return };
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        self.rate = Some((frees.saturating_mul(1_000) / millis).max(1));
    }

    /// Until the running checkpoint is done, or else one that frees this much.
    fn left(&self, frees: u64) -> Duration {
        let rate = self.rate.unwrap_or(FIRST_RATE);
        let (elapsed, frees) = match self.running {
            Some((began, running)) => (began.elapsed(), running),
            None => (Duration::ZERO, frees),
        };
        Duration::from_millis(frees.saturating_mul(1_000) / rate).saturating_sub(elapsed) + Duration::from_secs(1)
    }
}

impl Engine {
    /// Estimated bytes of the state and of idempotency records.
    pub(crate) fn memory_estimate(&self) -> u64 {
        self.state.memory_estimate() + self.idempotency.memory_estimate()
    }

    /// The part that checkpoints free.
    pub(crate) fn freed_by_checkpoint(&self) -> u64 {
        self.state.deltas_estimate() + self.idempotency.whole_estimate()
    }

    /// Whether operations that grow the state are refused.
    pub(crate) fn is_over_budget(&self) -> bool {
        let budget = self.options.memory_budget;
        budget > 0 && self.memory_estimate() >= budget
    }

    /// Writes must never be refused for memory that a checkpoint would free: one starts at half of the room that users
    /// and edges leave. Where they leave next to none, checkpoints would follow each other for nothing.
    pub(crate) fn wants_memory(&self) -> bool {
        let budget = self.options.memory_budget;
        if budget == 0 {
            return false;
        }
        let freed = self.freed_by_checkpoint();
        let room = budget.saturating_sub(self.memory_estimate().saturating_sub(freed));
        freed >= (room / 2).max(budget / WORTHWHILE)
    }

    /// When a write that was refused for memory may be retried.
    pub(crate) fn memory_comes_back_in(&self) -> Duration {
        let checkpoint = self.checkpoint.lock();
        if checkpoint.frozen.is_none() && !self.wants_memory() {
            return NOTHING_TO_FREE;
        }
        checkpoint.pace.left(self.freed_by_checkpoint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_checkpoint_takes_as_long_as_the_last() {
        let mut pace = Pace::default();
        assert_eq!(pace.left(64 << 20), Duration::from_secs(3), "nothing is known yet");
        pace.running = Instant::now().checked_sub(Duration::from_secs(10)).map(|began| (began, 100 << 20));
        pace.ended();
        let left = pace.left(50 << 20);
        assert!((5..=6).contains(&left.as_secs()), "{left:?}");
        pace.began(100 << 20);
        let left = pace.left(1);
        assert!((10..=11).contains(&left.as_secs()), "what is under way comes first: {left:?}");
        pace.running = Instant::now().checked_sub(Duration::from_secs(60)).map(|began| (began, 100 << 20));
        assert_eq!(pace.left(1), Duration::from_secs(1), "it is late, and done soon");
    }
}
