//! What is measured of one limit.

use metrics::{Counter, Gauge, counter, gauge};

pub(super) struct Measures {
    refusals: Counter,
    keys: Gauge,
}

impl Measures {
    pub(super) fn new(limit: &'static str) -> Self {
        Self {
            refusals: counter!("entourage_limiter_refusals_total", "limit" => limit),
            keys: gauge!("entourage_limiter_keys", "limit" => limit),
        }
    }

    pub(super) fn refused(&self) {
        self.refusals.increment(1);
    }

    /// How many actors, targets or edges it remembers.
    pub(super) fn keeps(&self, keys: usize) {
        self.keys.set(keys as f64);
    }
}
