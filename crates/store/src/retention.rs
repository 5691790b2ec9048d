//! What every store says of events that are gone.

use entourage_model::{Code, Error, Sequence};

/// `dropped` is the last sequence that is gone: reading on from it misses nothing that is kept.
pub(crate) fn events_expired(dropped: Sequence) -> Error {
    let detail = "these events are past log.retention; take a snapshot of what you need, then resume";
    Error::new(Code::EventsExpired, detail).resume_from(dropped.to_string())
}
