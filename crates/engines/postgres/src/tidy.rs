//! Retention: deletes expired idempotency records, history and events, a small step now and then, by the database's time.

use std::sync::atomic::Ordering;

use deadpool_postgres::Transaction;
use entourage_model::{Clock as _, Millis};

use super::{
    Engine,
    error::{Failure, answering},
    events::STEP_ROWS,
    lock::Name,
    row,
    time::database_millis,
};

/// How long a process waits between steps while there is something to delete.
const EVERY_MILLIS: u64 = 1_000;
/// How long it waits after it found nothing.
const IDLE_MILLIS: u64 = 30_000;
const RECORDS_AT_MOST: i64 = 1_000;

/// Whether no other process is at it, and the time.
const BEGIN: &str = concat!("SELECT pg_try_advisory_xact_lock($1), ", database_millis!());
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
        let now = self.time.now().since_2000();
        let last = self.tidied.load(Ordering::Relaxed);
        let pause = if self.tidied_nothing.load(Ordering::Relaxed) { IDLE_MILLIS } else { EVERY_MILLIS };
        // A clock that was set back must not stop this until it has caught up.
        if now.abs_diff(last) < pause {
            return;
        }
        if self.tidied.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        match answering(self.breaker.guard(self.tidy())).await {
            Ok(removed) => self.tidied_nothing.store(!removed, Ordering::Relaxed),
            Err(failure) => tracing::warn!(error = %failure.error, "what is past its time was not removed"),
        }
    }

    /// Whether there was anything.
    async fn tidy(&self) -> Result<bool, Failure> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let statement = transaction.prepare_cached(BEGIN).await?;
        let began = self.time.begin();
        let found = transaction.query_one(&statement, &[&self.locks.number(Name::Relay)]).await?;
        let (is_alone, database) = (found.get::<_, bool>(0), self.time.learn(began, found.get(1)));
        // While another server does this it is skipped: it comes by again.
        if !is_alone || self.refuse_when_schema_is_newer().is_err() {
            return Ok(false);
        }
        let forgotten = self.forget_records(&transaction, database).await?;
        let expired = row::from_version(self.options.retention_ends(database));
        // Last: the row of the relay is what commits wait for.
        let dropped = self.drop_events_below(&transaction, expired).await?;
        transaction.commit().await?;
        Ok(forgotten || dropped)
    }

    async fn forget_records(&self, transaction: &Transaction<'_>, database: Millis) -> Result<bool, Failure> {
        let expired = row::from_version(self.options.idempotency_ends(database));
        let statement = transaction.prepare_cached(FORGET).await?;
        let records = transaction.execute(&statement, &[&expired, &RECORDS_AT_MOST]).await?;
        let expired = row::from_version(self.options.history_ends(database));
        let statement = transaction.prepare_cached(FORGET_HISTORY).await?;
        let ends = transaction.execute(&statement, &[&expired, &RECORDS_AT_MOST]).await?;
        Ok(records + ends > 0)
    }

    /// One step of them, by the holder of the relay's lock; whether any went.
    pub(super) async fn drop_events_below(&self, transaction: &Transaction<'_>, expired: i64) -> Result<bool, Failure> {
        let statement = transaction.prepare_cached(DROP).await?;
        Ok(transaction.execute(&statement, &[&expired, &STEP_ROWS]).await? > 0)
    }
}
