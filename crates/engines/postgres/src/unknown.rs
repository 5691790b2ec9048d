//! A commit whose answer was lost: PostgreSQL is asked about the transaction.

use std::time::{Duration, Instant};

use entourage_model::{Error, Lineage, Sequence};

use super::{Engine, error::Failure};

/// How long a transaction that has lost its connection may take to end.
const WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// With where the log ends, if the transaction is part of it.
const STATUS: &str = "SELECT pg_xact_status($1::text::xid8), (SELECT sequence FROM relay)";

impl Engine {
    /// Where the log ends, as of a moment after the transaction was committed. An error that may be tried again: it
    /// was not.
    pub(super) async fn settle(
        &self,
        transaction: u64,
        lineage: Lineage,
        failure: &Failure,
    ) -> Result<Sequence, Failure> {
        tracing::warn!(error = %failure.error, transaction, "the answer to a commit was lost");
        let began = Instant::now();
        // In another lineage the number may be that of another transaction.
        while began.elapsed() < WITHIN && self.lineage() == lineage {
            match self.ask_about(transaction, lineage).await {
                Ok((Some(status), end)) if status == "committed" => return Ok(end),
                Ok((Some(status), _)) if status == "aborted" => {
                    let error = Error::unavailable("PostgreSQL has rolled the write back");
                    return Err(Failure { again: true, ..error.into() });
                }
                // Too old to be known, or not a number of this PostgreSQL.
                Ok((None, _)) => break,
                Ok(_) => {}
                Err(error) => tracing::debug!(error = %error.error, "PostgreSQL cannot be asked about a commit yet"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Error::unavailable("PostgreSQL went away during a commit; nobody knows whether it happened").into())
    }

    async fn ask_about(&self, transaction: u64, lineage: Lineage) -> Result<(Option<String>, Sequence), Failure> {
        let client = self.client().await?;
        if self.lineage_of(&client)? != lineage {
            return Err(Error::unavailable("PostgreSQL is another one now").into());
        }
        let statement = client.prepare_cached(STATUS).await?;
        let found = client.query_one(&statement, &[&transaction.to_string()]).await?;
        Ok((found.get(0), Sequence(found.get::<_, i64>(1).unsigned_abs())))
    }
}
