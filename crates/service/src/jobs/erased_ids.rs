//! Ids of the erased: kept for as long as events are that name them by their key, and no longer.

use entourage_model::{CHUNK_MAX, Code, Condition, Key, Operation, Record, Result, Space, Version, Write};
use entourage_store::StoreExt as _;

use crate::Jobs;

impl Jobs {
    /// Releases ids that no event needs any more; how many.
    pub(crate) async fn release_old_ids(&self) -> Result<u64> {
        if self.context.store.scan_server_records(Space::Erased, None, 1).await?.is_empty() {
            return Ok(0);
        }
        // All events that are kept are newer than one that is gone, and none is newer than the end of time.
        let oldest = self.context.oldest_event().await?.unwrap_or(Version::MAX);
        self.release_ids(Some(oldest)).await
    }

    /// Those last needed by events from before `oldest`, or all. An erasure that goes on keeps its id.
    pub(super) async fn release_ids(&self, oldest: Option<Version>) -> Result<u64> {
        let (mut after, mut released): (Option<Record>, u64) = (None, 0);
        loop {
            let from = after.as_ref().map(|record| record.id.as_bytes());
            let page = self.context.store.scan_server_records(Space::Erased, from, CHUNK_MAX).await?;
            let Some((_, last)) = page.last() else { return Ok(released) };
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
                    other => released += u64::from(other?.reply.changed()),
                }
            }
        }
    }
}
