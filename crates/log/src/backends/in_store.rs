//! The store's own log: nothing to run beside it, and no event can be missing from it.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::{Event, Result, Sequence};
use entourage_store::{Store, StoreExt as _};

use crate::EventLog;

pub struct Log(Arc<dyn Store>);

impl Log {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl EventLog for Log {
    async fn read(&self, after: Sequence, limit: usize) -> Result<Vec<Event>> {
        self.0.events_after(after, limit).await
    }

    async fn last(&self) -> Result<Sequence> {
        self.0.last_event().await
    }
}
