//! How long a PostgreSQL store keeps what expires, how many writes it commits at once, and how it connects.

use std::time::Duration;

use entourage_model::{Millis, Version};

use super::TimeSource;
use entourage_store::retention;

/// Times, whose defaults are those of the settings with the same names, how writes are batched, and how many connections there are.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many batches of this process are committed at a time.
    pub writers: usize,
    /// The greatest number of writes in one, if they are of several callers.
    pub batch: usize,
    /// `store.connections`: for everything but commits.
    pub connections: usize,
    /// Nothing is written: not even what a server says of itself. PostgreSQL may be a standby.
    pub read_only: bool,
    /// The greatest number of writes in one that are of one caller; fewer where PostgreSQL has little room for locks.
    pub chunk: usize,
    /// `idempotency.ttl`.
    pub idempotency_ttl: Duration,
    /// `log.retention`.
    pub log_retention: Duration,
    /// `history.retention`.
    pub history_retention: Duration,
    pub time: TimeSource,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writers: 2,
            batch: 64,
            connections: 16,
            read_only: false,
            chunk: 1_000,
            idempotency_ttl: Duration::from_secs(24 * 60 * 60),
            log_retention: Duration::from_secs(7 * 24 * 60 * 60),
            history_retention: retention::HISTORY,
            time: TimeSource::Database,
        }
    }
}

impl Options {
    pub(super) fn idempotency_millis(&self) -> u64 {
        millis(self.idempotency_ttl)
    }

    /// Idempotency records below this version are not replayed any more.
    pub(super) fn idempotency_ends(&self, now: Millis) -> Version {
        ago(now, self.idempotency_ttl)
    }

    /// Events below this version are past retention.
    pub(super) fn retention_ends(&self, now: Millis) -> Version {
        ago(now, self.log_retention)
    }

    /// What ended below this version is deleted. The ends of an edge within a day are kept even if history is shorter.
    pub(super) fn history_ends(&self, now: Millis) -> Version {
        retention::history_begins(now, self.history_retention.max(Duration::from_millis(retention::DAY_MILLIS)))
    }

    /// What ended below this version is no history any more.
    pub(super) fn history_begins(&self, now: Millis) -> Version {
        retention::history_begins(now, self.history_retention)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ago(now: Millis, time: Duration) -> Version {
    Version::of_millis(Millis::from_since_2000(now.since_2000().saturating_sub(millis(time))))
}
