//! From outbox to events: the relay assigns the numbers, once nothing can come before them any more.
//!
//! A row of the outbox carries its transaction's number. Nothing is added below the oldest transaction still running,
//! so there the order (transaction, row) is final; it is also version order for each edge, because a commit takes its
//! number after its locks.

use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;
use entourage_model::{Change, Event, Sequence};

use super::{
    Store,
    error::{Failure, unreadable},
    lock::Name,
    row,
};
use entourage_store::{Progress, retention::events_expired};

/// How long `events` waits for older transactions before it lists what is certain.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);
pub(super) const STEP_ROWS: i64 = 5_000;

const NEWEST: &str = "SELECT xid::text FROM outbox ORDER BY xid DESC LIMIT 1";
const LEFT: &str = "SELECT EXISTS (SELECT 1 FROM outbox WHERE xid <= $1::text::xid8)";
const STEP: &str = "WITH due AS (\
         SELECT xid, id FROM outbox WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, id LIMIT $1), \
     moved AS (\
         DELETE FROM outbox USING due WHERE outbox.xid = due.xid AND outbox.id = due.id \
         RETURNING outbox.xid, outbox.id, outbox.version, outbox.change), \
     advanced AS (\
         UPDATE relay SET sequence = relay.sequence + sums.moved, high_water = greatest(high_water, sums.version) \
         FROM (SELECT count(*) AS moved, max(version) AS version FROM moved) sums) \
     INSERT INTO events (sequence, version, change) \
     SELECT (SELECT sequence FROM relay) + row_number() OVER (ORDER BY xid, id), version, change FROM moved";
/// Below the oldest running transaction everything is decided, and numbered once it has left the outbox.
const PROGRESS: &str = "SELECT relay.sequence, pg_snapshot_xmin(pg_current_snapshot())::text, \
     (SELECT xid::text FROM outbox ORDER BY xid LIMIT 1), (SELECT xid::text FROM outbox ORDER BY xid DESC LIMIT 1) \
     FROM relay";
/// What is dropped and what is left, as of one moment: a step could come between two statements.
const READ: &str = "SELECT relay.dropped, found.sequence, found.version, found.change::text FROM relay LEFT JOIN (\
         SELECT * FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2) found ON true ORDER BY found.sequence";

impl Store {
    /// Numbers everything committed before the call, unless a transaction that began earlier stays open for too long:
    /// then what comes after it waits for the next call.
    pub(super) async fn relay(&self) -> Result<(), Failure> {
        let began = Instant::now();
        let Some(newest) = self.newest_in_outbox().await? else { return Ok(()) };
        loop {
            let moved = self.relay_step().await?;
            if !self.is_left_in_outbox(&newest).await? {
                return Ok(());
            }
            if moved == 0 {
                if began.elapsed() > PATIENCE {
                    tracing::debug!("an older transaction is still open; its later events wait");
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn newest_in_outbox(&self) -> Result<Option<String>, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(NEWEST).await?;
        Ok(client.query_opt(&statement, &[]).await?.map(|row| row.get(0)))
    }

    async fn is_left_in_outbox(&self, newest: &str) -> Result<bool, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(LEFT).await?;
        Ok(client.query_one(&statement, &[&newest]).await?.get(0))
    }

    async fn relay_step(&self) -> Result<u64, Failure> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        // In a statement of its own: the next one's snapshot must see what the last holder numbered.
        let statement = transaction.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
        transaction.execute(&statement, &[&self.locks.number(Name::Relay)]).await?;
        let moved = self.number_events(&transaction).await?;
        // Numbered rows are not due again, so this is idempotent and may be retried with an unknown outcome.
        transaction.commit().await?;
        Ok(moved)
    }

    /// One step of the relay, by the holder of its lock.
    pub(super) async fn number_events(&self, transaction: &Transaction<'_>) -> Result<u64, Failure> {
        let statement = transaction.prepare_cached(STEP).await?;
        Ok(transaction.execute(&statement, &[&STEP_ROWS]).await?)
    }

    pub(super) async fn read_last_event(&self) -> Result<Sequence, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached("SELECT sequence FROM relay").await?;
        Ok(Sequence(client.query_one(&statement, &[]).await?.get::<_, i64>(0).unsigned_abs()))
    }

    pub(super) async fn read_progress(&self) -> Result<Progress, Failure> {
        loop {
            let (progress, is_more_due) = self.look_at_progress().await?;
            if !is_more_due || self.relay_step().await? == 0 {
                return Ok(progress);
            }
        }
    }

    /// With whether a step of the relay would find something.
    async fn look_at_progress(&self) -> Result<(Progress, bool), Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(PROGRESS).await?;
        let row = client.query_one(&statement, &[]).await?;
        let number = |column| {
            let text: Option<&str> = row.get(column);
            text.map(|text| text.parse::<u64>().map_err(|_| unreadable("transaction number"))).transpose()
        };
        let (horizon, oldest) = (number(1)?.unwrap_or_default(), number(2)?);
        let covered = oldest.map_or(horizon, |oldest| oldest.min(horizon)).saturating_sub(1);
        let newest = number(3)?.unwrap_or(covered);
        let listed = Sequence(row.get::<_, i64>(0).unsigned_abs());
        let progress = Progress { listed, covered: Sequence(covered), newest: Sequence(newest) };
        Ok((progress, oldest.is_some_and(|oldest| oldest < horizon)))
    }

    pub(super) async fn read_events(&self, after: Sequence, limit: usize) -> Result<Vec<Event>, Failure> {
        let Ok(after) = i64::try_from(after.0) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let client = self.client().await?;
        let statement = client.prepare_cached(READ).await?;
        let rows = client.query(&statement, &[&after, &limit]).await?;
        let dropped: i64 = rows.first().map_or(0, |row| row.get(0));
        if after < dropped && limit > 0 {
            return Err(events_expired(Sequence(dropped.unsigned_abs())).into());
        }
        let event = |row: &tokio_postgres::Row| {
            let change: Change =
                serde_json::from_str(row.get(3)).map_err(|error| unreadable("event").caused_by(error))?;
            let sequence = Sequence(row.get::<_, i64>(1) as u64);
            Ok(Event::of(sequence, row::to_version(row.get(2)), &change))
        };
        rows.iter().filter(|row| row.get::<_, Option<i64>>(1).is_some()).map(event).collect()
    }
}
