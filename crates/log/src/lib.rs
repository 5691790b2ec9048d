//! Event transport: the trait consumers read from, and the backend that reads the store's own log.

pub mod backends;

use async_trait::async_trait;
use entourage_model::{Event, Result, Sequence};

/// Where events come from, whatever carries them.
///
/// - **L1** Events come oldest first, without a gap, at most `limit`.
/// - **L2** Events past retention are `events_expired`, with the sequence to resume from.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    async fn read(&self, after: Sequence, limit: usize) -> Result<Vec<Event>>;

    /// The sequence of the last event that is there: reading after it waits for the next one.
    async fn last(&self) -> Result<Sequence>;
}
