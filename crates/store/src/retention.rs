//! The error for expired events, and the default retention of history.

use std::time::Duration;

use entourage_model::{Code, Error, EventPosition, Millis, Sequence, Version};

/// As far back as ends of an edge count.
pub const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;
/// `history.retention`.
pub const HISTORY: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// `dropped` is the last sequence that is gone: resuming after it misses nothing that is kept.
pub fn events_expired(dropped: Sequence) -> Error {
    events_expired_at(EventPosition::at(dropped))
}

/// For one partition, which may have lost its newest events as well.
pub fn events_expired_at(position: EventPosition) -> Error {
    let detail = "these events are past log.retention; take a snapshot of what you need, then resume";
    Error::new(Code::EventsExpired, detail).resume_from(position.to_text())
}

/// What ended below this version is past `history.retention`.
pub fn history_begins(now: Millis, retention: Duration) -> Version {
    let millis = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
    Version::of_millis(Millis::from_since_2000(now.since_2000().saturating_sub(millis)))
}
