//! Corrects counts: a delta for each list, of its length less its count.
//!
//! Deltas commute, so concurrent commits need no lock: the difference is that of the moment at which one statement
//! reads. Two concurrent recounts would each add it, so there is only one.

use async_trait::async_trait;
use entourage_model::{EdgeChange, Error, Key, Result, Sequence};
use std::path::Path;

use super::{
    Engine, Store,
    error::{Failure, retrying},
    lock::Name,
};
use entourage_store::{ChangedEdges, EdgeName, Healed, Maintenance, Recounted};

/// `$1` is a user, or null for everybody.
const CORRECT: &str = "WITH listed AS (\
         SELECT user_key, CASE kind WHEN 0 THEN state WHEN 1 THEN 3 ELSE 4 END::smallint AS plane, side, \
             count(*) AS total, count(*) FILTER (WHERE quiet) AS quiet \
         FROM (SELECT follower AS user_key, 0::smallint AS side, kind, state, quiet FROM edges \
                   WHERE state <> 3 AND ($1::bigint IS NULL OR follower = $1) \
               UNION ALL SELECT target, 1::smallint, kind, state, quiet FROM edges \
                   WHERE state <> 3 AND ($1::bigint IS NULL OR target = $1)) ends \
         GROUP BY 1, 2, 3), \
     counted AS (\
         SELECT user_key, plane, side, sum(total) AS total, sum(quiet) AS quiet FROM count_parts \
         WHERE $1::bigint IS NULL OR user_key = $1 GROUP BY user_key, plane, side) \
     INSERT INTO count_deltas (user_key, plane, side, total, quiet) \
     SELECT user_key, plane, side, coalesce(listed.total, 0) - coalesce(counted.total, 0), \
         coalesce(listed.quiet, 0) - coalesce(counted.quiet, 0) \
     FROM listed FULL JOIN counted USING (user_key, plane, side) \
     WHERE coalesce(counted.total, 0) <> coalesce(listed.total, 0) \
         OR coalesce(counted.quiet, 0) <> coalesce(listed.quiet, 0)";
const USERS: &str = "SELECT count(*) FROM users WHERE $1::bigint IS NULL OR key = $1";

impl Engine {
    async fn correct_counts(&self, user: Option<Key>) -> Result<Recounted, Failure> {
        self.refuse_when_schema_is_newer()?;
        let user = user.map(|user| user.0);
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        // The next statement's snapshot is taken after the lock is held: each statement has its own.
        let statement = transaction.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
        transaction.query(&statement, &[&self.locks.number(Name::Recount)]).await?;
        let statement = transaction.prepare_cached(CORRECT).await?;
        let corrected = transaction.execute(&statement, &[&user]).await?;
        let statement = transaction.prepare_cached(USERS).await?;
        let users: i64 = transaction.query_one(&statement, &[&user]).await?.get(0);
        transaction.commit().await.map_err(Failure::of_commit)?;
        Ok(Recounted { users: users.unsigned_abs(), corrected })
    }
}

#[async_trait]
impl Maintenance for Store {
    async fn backup(&self, _: &Path) -> Result<u64> {
        Err(Error::invalid("this server's store is backed up with its own tools, not through Entourage"))
    }

    async fn erase_now(&self) -> Result<()> {
        self.engine.refuse_when_it_only_reads()?;
        self.engine.erase_now().await
    }

    async fn recount(&self, user: Option<Key>) -> Result<Recounted> {
        self.engine.refuse_when_it_only_reads()?;
        Ok(retrying(|| self.engine.correct_counts(user)).await?)
    }

    /// PostgreSQL makes its own, which nobody here waits for.
    fn checkpoints(&self) -> u64 {
        0
    }

    /// One row is both directions of an edge.
    fn has_mirrors(&self) -> bool {
        false
    }

    async fn changed_edges(&self, after: Sequence, _: usize) -> Result<ChangedEdges> {
        Ok(ChangedEdges { read_to: after, edges: Vec::new() })
    }

    async fn differing(&self, _: Vec<EdgeChange>) -> Result<Vec<EdgeChange>> {
        Ok(Vec::new())
    }

    async fn heal(&self, edges: &[EdgeName]) -> Result<Healed> {
        Ok(Healed { looked: edges.len() as u64, ..Healed::default() })
    }
}
