//! How much the layer holds, how long, and how stale it may be.

use std::time::Duration;

/// Sizes and times. Those with a setting have its default.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `cache.budget`: bytes of rows, their index and ids.
    pub budget_bytes: u64,
    /// `cache.ttl`: an older row is read again in any case.
    pub ttl: Duration,
    /// Rows with more edges are not held.
    pub row_edges_max: usize,
    /// How often the store is polled for events.
    pub interval: Duration,
    /// The greatest staleness at which memory answers.
    pub lag_max: Duration,
    /// `cache.max_stale`: the same while the store is away.
    pub max_stale: Duration,
    /// How long a read with a token waits for its events before everybody goes to the store instead.
    pub patience: Duration,
    /// Page size of events.
    pub batch_events: usize,
    /// Past this backlog of events it is cheaper to begin with nothing.
    pub replay_max: u64,
    /// Past this many changes of this process that no event has passed, none is remembered.
    pub changes_max: usize,
    /// Reads of missing rows at a time, each of many rows.
    pub fills_max: usize,
    /// Rows of a snapshot that are read again at the start, if what it says of them is too old.
    pub refill_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_bytes: 256 << 20,
            ttl: Duration::from_secs(60 * 60),
            row_edges_max: 20_000,
            interval: Duration::from_millis(100),
            lag_max: Duration::from_secs(2),
            max_stale: Duration::from_secs(60),
            patience: Duration::from_millis(250),
            batch_events: 5_000,
            replay_max: 200_000,
            changes_max: 1_000_000,
            fills_max: 4,
            refill_max: 20_000,
        }
    }
}
