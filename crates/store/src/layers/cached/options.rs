//! How much the layer holds, how long, and how far behind it may be.

use std::time::Duration;

/// Sizes and times. Those that can be set have the defaults of their settings.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `cache.budget`: bytes of rows, of what finds them and of ids.
    pub budget_bytes: u64,
    /// `cache.ttl`: a row is read again when it is older, whatever is known of it.
    pub ttl: Duration,
    /// Rows with more edges are not held.
    pub row_edges_max: usize,
    /// How often the store is asked for news.
    pub interval: Duration,
    /// What memory says counts for as long as the news are at most so old.
    pub lag_max: Duration,
    /// How long a read with a token waits for the news of it before everybody goes to the store instead.
    pub patience: Duration,
    /// Events that are read at once.
    pub batch_events: usize,
    /// Past so many events of backlog it is cheaper to begin with nothing.
    pub replay_max: u64,
    /// Past so many changes of this process that no event has passed, none is remembered.
    pub changes_max: usize,
    /// Rows that are being read at one time.
    pub fills_max: usize,
    /// How often a snapshot is written.
    pub snapshot_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_bytes: 256 << 20,
            ttl: Duration::from_secs(60 * 60),
            row_edges_max: 20_000,
            interval: Duration::from_millis(100),
            lag_max: Duration::from_secs(2),
            patience: Duration::from_millis(250),
            batch_events: 5_000,
            replay_max: 200_000,
            changes_max: 1_000_000,
            fills_max: 8,
            snapshot_interval: Duration::from_secs(5 * 60),
        }
    }
}
