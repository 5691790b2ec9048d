//! Retention: deletes expired idempotency records, history and events, a small step now and then.

use std::sync::atomic::Ordering;

use deadpool_postgres::Transaction;

use super::{
    Engine,
    error::{Failure, answering},
    events::STEP_ROWS,
    lock::Name,
    row,
};

/// How long a process waits between steps, by its clock.
const EVERY_MILLIS: u64 = 1_000;
const RECORDS_AT_MOST: i64 = 1_000;

/// The outer condition is repeated for a row that was just rewritten.
const FORGET: &str = "DELETE FROM idempotency WHERE version < $1 AND scope IN (\
         SELECT scope FROM idempotency WHERE version < $1 ORDER BY version LIMIT $2)";
const FORGET_HISTORY: &str = "DELETE FROM history WHERE (follower, ended) IN (\
         SELECT follower, ended FROM history WHERE ended < $1 ORDER BY ended LIMIT $2)";
/// Versions do not ascend with sequences: the first event within retention keeps all behind it.
const DROP: &str = "WITH head AS (\
         SELECT sequence, version FROM events WHERE sequence > (SELECT dropped FROM relay) ORDER BY sequence LIMIT $2), \
     gone AS (\
         DELETE FROM events USING head WHERE events.sequence = head.sequence \
             AND NOT EXISTS (SELECT 1 FROM head young WHERE young.version >= $1 AND young.sequence <= head.sequence) \
         RETURNING events.sequence, events.version) \
     UPDATE relay SET dropped = sums.sequence, dropped_version = greatest(relay.dropped_version, sums.version) \
     FROM (SELECT max(sequence) AS sequence, max(version) AS version FROM gone) sums WHERE sums.sequence IS NOT NULL";

impl Engine {
    /// Called after a commit and before events are read. A failure costs only space.
    pub(super) async fn tidy_sometimes(&self) {
        let now = self.clock.now().since_2000();
        let last = self.tidied.load(Ordering::Relaxed);
        // A clock that was set back must not stop this until it has caught up.
        if now.abs_diff(last) < EVERY_MILLIS {
            return;
        }
        let mine = self.tidied.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine && let Err(failure) = answering(self.breaker.guard(self.tidy())).await {
            tracing::warn!(error = %failure.error, "what is past its time was not removed");
        }
    }

    async fn tidy(&self) -> Result<(), Failure> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        self.forget_records(&transaction).await?;
        transaction.commit().await?;
        let transaction = client.transaction().await?;
        // While another server does this it is skipped: it comes by again.
        let statement = transaction.prepare_cached("SELECT pg_try_advisory_xact_lock($1)").await?;
        let alone: bool = transaction.query_one(&statement, &[&self.locks.number(Name::Relay)]).await?.get(0);
        if !alone {
            return Ok(());
        }
        let expired = row::from_version(self.options.retention_ends(self.clock.now()));
        self.drop_events_below(&transaction, expired).await?;
        Ok(transaction.commit().await?)
    }

    async fn forget_records(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        let expired = row::from_version(self.options.idempotency_ends(self.clock.now()));
        let statement = transaction.prepare_cached(FORGET).await?;
        transaction.execute(&statement, &[&expired, &RECORDS_AT_MOST]).await?;
        let expired = row::from_version(self.options.history_ends(self.clock.now()));
        let statement = transaction.prepare_cached(FORGET_HISTORY).await?;
        transaction.execute(&statement, &[&expired, &RECORDS_AT_MOST]).await?;
        Ok(())
    }

    /// One step of them, by the holder of the relay's lock; whether any went.
    pub(super) async fn drop_events_below(&self, transaction: &Transaction<'_>, expired: i64) -> Result<bool, Failure> {
        let statement = transaction.prepare_cached(DROP).await?;
        Ok(transaction.execute(&statement, &[&expired, &STEP_ROWS]).await? > 0)
    }
}
