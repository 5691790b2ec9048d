//! Ids of the erased: kept for as long as events are that name them by their key, and no longer.

use std::sync::atomic::Ordering;

use entourage_model::{CHUNK_MAX, Code, Condition, Key, Operation, Record, Result, Space, Version, Write};
use entourage_store::StoreExt as _;

use crate::Jobs;

/// How long one look is good for. Nobody waits for it: `erase_now` does not ask how old an id is.
const LOOK_EVERY_MILLIS: u64 = 60_000;

impl Jobs {
    /// Releases ids that no event needs any more, now and then.
    pub(super) async fn release_old_ids(&self) -> Result<()> {
        let (now, last) = (self.context.clock.now().since_2000(), self.ids_looked_at.load(Ordering::Relaxed));
        // A clock that was set back must not stop this until it has caught up.
        if now.abs_diff(last) < LOOK_EVERY_MILLIS {
            return Ok(());
        }
        self.ids_looked_at.store(now, Ordering::Relaxed);
        if self.context.store.scan_server_records(Space::Erased, None, 1).await?.is_empty() {
            return Ok(());
        }
        // All events that are kept are newer than one that is gone, and none is newer than the end of time.
        let oldest = self.context.oldest_event().await?.unwrap_or(Version::MAX);
        self.release_ids(Some(oldest)).await
    }

    /// Those last needed by events from before `oldest`, or all. An erasure that goes on keeps its id.
    pub(super) async fn release_ids(&self, oldest: Option<Version>) -> Result<()> {
        let mut after: Option<Record> = None;
        loop {
            let from = after.as_ref().map(|record| record.id.as_bytes());
            let page = self.context.store.scan_server_records(Space::Erased, from, CHUNK_MAX).await?;
            let Some((_, last)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            let is_due = |(_, record): &(Key, Record)| oldest.is_none_or(|oldest| record.version < oldest);
            let removal = |(owner, Record { id, version, .. }): (Key, Record)| {
                let (space, condition) = (Space::Erased, Condition::Version(version));
                Write::from(Operation::PutRecord { space, owner, id, value: None, condition, cap: None })
            };
            let writes = page.into_iter().filter(is_due).map(removal).collect();
            for outcome in self.context.writer.write_all(writes).await {
                match outcome {
                    // Not finished, erased once more, or another server was faster.
                    Err(error) if error.code() == Code::RequestInProgress => {}
                    other => drop(other?),
                }
            }
        }
    }
}
