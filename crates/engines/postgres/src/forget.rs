//! Leaves nothing of erased users: events up to now are dropped, and deleted rows are removed from the tables' files.

use super::{
    Engine,
    error::{Failure, answering, retrying},
    lock::Name,
    row,
};
use entourage_model::{Result, Sequence, Version};

/// These hold what users wrote about themselves: they are rewritten, and locked meanwhile.
const WRITTEN_ANEW: [&str; 5] = ["users", "records", "history", "outbox", "events"];
/// These hold numbers alone. Deleted rows are freed, and overwritten later.
const FREED: [&str; 4] = ["edges", "counts", "count_deltas", "idempotency"];

impl Engine {
    pub(super) async fn erase_now(&self) -> Result<()> {
        self.refuse_when_schema_is_newer()?;
        let last = answering(retrying(|| self.read_last_event())).await?;
        while retrying(|| self.drop_all_events(last)).await? {}
        for (tables, how) in [(&WRITTEN_ANEW[..], "VACUUM (FULL)"), (&FREED[..], "VACUUM")] {
            for table in tables {
                // Not inside a transaction, and therefore not as a prepared statement.
                let vacuum = || async { Ok(self.client().await?.batch_execute(&format!("{how} {table}")).await?) };
                retrying(vacuum).await?;
            }
        }
        Ok(())
    }

    /// One step; whether there may be more up to this sequence.
    async fn drop_all_events(&self, last: Sequence) -> Result<bool, Failure> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let statement = transaction.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
        transaction.execute(&statement, &[&self.locks.number(Name::Relay)]).await?;
        let went = self.drop_events_below(&transaction, row::from_version(Version::MAX)).await?;
        let statement = transaction.prepare_cached("SELECT dropped FROM relay").await?;
        let dropped: i64 = transaction.query_one(&statement, &[]).await?.get(0);
        transaction.commit().await?;
        Ok(went && dropped.unsigned_abs() < last.0)
    }
}
