//! Metrics of limits.

use entourage_model::{Code, Outcome, Result};
use metrics::{Counter, Gauge, counter, gauge};

const REFUSALS: &str = "entourage_limiter_refusals_total";

/// Of one limit that this process remembers.
pub(super) struct QuotaMetrics {
    refusals: Counter,
    keys: Gauge,
}

impl QuotaMetrics {
    pub(super) fn new(limit: &'static str) -> Self {
        Self {
            refusals: counter!(REFUSALS, "limit" => limit),
            keys: gauge!("entourage_limiter_keys", "limit" => limit),
        }
    }

    pub(super) fn refused(&self) {
        self.refusals.increment(1);
    }

    /// How many users or targets it remembers.
    pub(super) fn keeps(&self, keys: usize) {
        self.keys.set(keys as f64);
    }
}

/// Says which limits are those of all servers of a store, and which are each server's own.
pub(super) fn say_what_is_shared() {
    for (limit, is_shared) in
        [("follows", true), ("challenge", true), ("flips", true), ("requests", false), ("target", false)]
    {
        gauge!("entourage_limiter_shared", "limit" => limit).set(f64::from(u8::from(is_shared)));
    }
}

/// Of the limits that commits decide.
pub(super) struct Refusals {
    follows: Counter,
    challenge: Counter,
    flips: Counter,
}

impl Default for Refusals {
    fn default() -> Self {
        let [follows, challenge, flips] =
            ["follows", "challenge", "flips"].map(|limit| counter!(REFUSALS, "limit" => limit));
        Self { follows, challenge, flips }
    }
}

impl Refusals {
    pub(super) fn count(&self, result: &Result<Outcome>) {
        let Err(error) = result else { return };
        match error.code() {
            Code::RateLimited => self.follows.increment(1),
            Code::ChallengeRequired => self.challenge.increment(1),
            Code::CoolingDown => self.flips.increment(1),
            _ => {}
        }
    }
}
