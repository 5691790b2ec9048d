//! Snapshots: writing one, and which are trusted.

use std::sync::Arc;

use entourage_model::{Error, EventPosition, Result, Sequence};

use super::{
    Shared,
    row::RowKey,
    snapshot::{self, Mark, Restored, Snapshot, Unusable},
};

/// A row takes at most this many times its bytes in memory on the disk.
const LARGER_ON_DISK: u64 = 3;

impl Shared {
    /// How many rows were written; none where no event was applied yet, or where its place in the store is gone.
    pub(super) async fn save_snapshot(self: &Arc<Self>) -> Result<u64> {
        let Some(disk) = self.disk.clone() else { return Ok(0) };
        let Some(sequence) = self.position.lock().await.applied else { return Ok(0) };
        let Some(mark) = self.mark_at(sequence).await else { return Ok(0) };
        let (shared, now, time) = (Arc::clone(self), self.gate.now(), self.clock.now());
        let saved = tokio::task::spawn_blocking(move || {
            crate::fail_point("cache-snapshot");
            let _one_at_a_time = shared.saving.lock();
            snapshot::write(&*disk, &shared.rows, mark, now, time).map(|rows| rows as u64)
        });
        let failed = |why: String| Error::unavailable(format!("no snapshot of the cache was written: {why}"));
        saved.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    /// The store's event at this position; `None` if it is gone, or never existed.
    async fn mark_at(&self, sequence: Sequence) -> Option<Mark> {
        let before = Sequence(sequence.0.checked_sub(1)?);
        let events = self.inner.events(EventPosition::at(before), 1).await.ok()?;
        let event = events.first().filter(|event| event.sequence == sequence)?;
        Some(Mark { epoch: self.inner.identity().epoch, sequence, version: event.version })
    }

    /// Before anything else: what the last process held, if it can be brought up to date. Returns the rows that have to be
    /// read again, the most wanted first.
    pub(super) async fn load_snapshot(self: &Arc<Self>) -> Vec<RowKey> {
        let Some(disk) = self.disk.clone() else { return Vec::new() };
        let epoch = self.inner.identity().epoch;
        let most = self.options.budget_bytes.saturating_mul(LARGER_ON_DISK).max(1 << 20);
        let read = tokio::task::spawn_blocking(move || Snapshot::read(&*disk, epoch, most)).await;
        let snapshot = match read {
            Ok(Ok(snapshot)) => snapshot,
            Ok(Err(Unusable::Missing)) => return Vec::new(),
            Ok(Err(reason)) => {
                tracing::warn!(%reason, "the snapshot of the cache is not used");
                return Vec::new();
            }
            Err(error) => {
                tracing::warn!(%error, "the snapshot of the cache is not used");
                return Vec::new();
            }
        };
        let mark = snapshot.mark;
        let is_known = self.mark_at(mark.sequence).await == Some(mark);
        if !is_known || self.is_far_behind(mark.sequence).await {
            tracing::warn!(
                is_known,
                "of the snapshot of the cache only the names of rows are used; they are read again"
            );
            return self.first_of(snapshot.keys().unwrap_or_default());
        }
        let (shared, now, time) = (Arc::clone(self), self.gate.now(), self.clock.now());
        let restored = tokio::task::spawn_blocking(move || snapshot.restore(&shared.rows, now, time)).await;
        match restored {
            Ok(Ok(Restored { rows, cold })) => {
                self.position.lock().await.applied = Some(mark.sequence);
                tracing::info!(rows, "the cache begins with its snapshot");
                self.first_of(cold)
            }
            other => {
                self.rows.clear();
                let reason = other.map_or_else(|error| error.to_string(), |_| Unusable::Damaged.to_string());
                tracing::warn!(reason, "the snapshot of the cache is not used");
                Vec::new()
            }
        }
    }

    /// Whether more events came since than are worth reading.
    async fn is_far_behind(&self, sequence: Sequence) -> bool {
        let progress = self.inner.progress(0).await;
        progress.is_ok_and(|progress| progress.listed.0.saturating_sub(sequence.0) > self.options.replay_max)
    }

    fn first_of(&self, mut keys: Vec<RowKey>) -> Vec<RowKey> {
        keys.truncate(self.options.refill_max);
        keys
    }
}
