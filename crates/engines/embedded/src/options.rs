//! Options of an embedded store.

use std::time::Duration;

use entourage_model::{Millis, Version};

use entourage_store::retention;

/// Sizes and times. The defaults are those of the settings with the same names.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Preallocated size of a log segment.
    pub segment_bytes: u64,
    /// Larger batches are split, so that what is decided is still in cache when it is applied.
    pub frame_bytes: usize,
    /// A job with this many writes is a batch of its own, and worth a second thread when as many wait behind it.
    pub large_batch: usize,
    /// Maximum number of waiting writes; more are refused as `overloaded`.
    pub queue_limit: usize,
    /// A checkpoint starts when the delta has this many entries, or a fraction of all edges if that is more.
    pub checkpoint_entries: u64,
    /// A checkpoint also starts when the log has grown by this much; `u64::MAX`: never.
    pub checkpoint_bytes: u64,
    /// Whether a background thread prepares the next segment. If not, every file operation has a fixed place in the
    /// order of writes, as crash tests need.
    pub prepare_ahead: bool,
    /// Seals the last batch when no other follows for this long.
    pub seal_after: Option<Duration>,
    /// `memory.budget` in bytes; 0: none.
    pub memory_budget: u64,
    /// `log.retention`.
    pub log_retention: Duration,
    /// `log.retain_bytes`.
    pub log_retain_bytes: u64,
    /// `idempotency.ttl`.
    pub idempotency_ttl: Duration,
    /// `history.retention`.
    pub history_retention: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            frame_bytes: 512 << 10,
            large_batch: 512,
            queue_limit: 65_536,
            checkpoint_entries: 2_000_000,
            checkpoint_bytes: 256 << 20,
            prepare_ahead: true,
            seal_after: Some(Duration::from_millis(20)),
            memory_budget: 0,
            log_retention: Duration::from_secs(7 * 24 * 60 * 60),
            log_retain_bytes: 16 << 30,
            idempotency_ttl: Duration::from_secs(24 * 60 * 60),
            history_retention: retention::HISTORY,
        }
    }
}

impl Options {
    /// Small sizes and no background work unless requested, for crash tests.
    pub fn tiny() -> Self {
        Self {
            segment_bytes: 16 << 10,
            frame_bytes: 4 << 10,
            checkpoint_entries: u64::MAX,
            checkpoint_bytes: u64::MAX,
            prepare_ahead: false,
            seal_after: None,
            ..Self::default()
        }
    }

    /// Retention drops only what a checkpoint covers, so one is due at half of the retained size at the latest.
    pub(crate) fn checkpoint_after_bytes(&self) -> u64 {
        match self.checkpoint_bytes {
            u64::MAX => u64::MAX,
            bytes => bytes.min((self.log_retain_bytes / 2).max(self.segment_bytes)),
        }
    }

    pub(crate) fn idempotency_millis(&self) -> u64 {
        u64::try_from(self.idempotency_ttl.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn retention_millis(&self) -> u64 {
        u64::try_from(self.log_retention.as_millis()).unwrap_or(u64::MAX)
    }

    /// Follows that ended before this version are past retention.
    pub(crate) fn history_begins(&self, now: Millis) -> Version {
        retention::history_begins(now, self.history_retention)
    }
}
