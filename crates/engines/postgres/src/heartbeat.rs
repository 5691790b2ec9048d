//! Heartbeats: which processes use the schema, and which of them are still connected.

use std::time::Duration;

use entourage_store::Server;

use super::{Engine, error::Failure, time::database_millis};

/// A process that was silent for longer is not listed.
const LISTED_SECONDS: f64 = 600.0;
/// Connections are looked for only where a heartbeat is overdue: the look reads every session of the database.
const OVERDUE_SECONDS: f64 = 1.5;
/// How much of the schema's name fits into an application name, which PostgreSQL cuts at 63 bytes.
const SCHEMA_CHARS: usize = 30;

/// With the time, and from which version of the schema on one may write to it.
const BEAT: &str = concat!(
    "WITH beat AS (\
         INSERT INTO heartbeats (id, session, number, about, beaten) \
         SELECT $1::bigint, $2::bigint, $3::smallint, $4::text, clock_timestamp() WHERE $8::boolean \
         ON CONFLICT (id) DO UPDATE SET session = excluded.session, number = excluded.number, \
         about = excluded.about, beaten = excluded.beaten), \
     gone AS (DELETE FROM heartbeats WHERE id <> $1 AND beaten < clock_timestamp() - make_interval(secs => $5)) \
     SELECT id, number, about, silent, \
         CASE WHEN silent >= $6 THEN \
             EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = $7 || to_hex(session) \
                 AND datname = current_database()) ELSE true END, \
         writers_from, ",
    database_millis!(),
    " FROM meta LEFT JOIN \
         (SELECT *, extract(epoch FROM clock_timestamp() - beaten)::double precision AS silent FROM heartbeats \
         WHERE id <> $1 AND beaten >= clock_timestamp() - make_interval(secs => $5)) AS others ON true ORDER BY id"
);
/// Only in this database: where another one is a copy of it, the servers of that one are none of ours.
const DISCONNECT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity JOIN heartbeats \
     ON application_name = $2 || to_hex(session) WHERE id = $1 AND session <> $3 AND datname = current_database()";
const LEAVE: &str = "DELETE FROM heartbeats WHERE session = $1";

/// The application name of all connections of one process, but for its session at the end.
pub(super) fn application(schema: &str) -> String {
    format!("entourage {schema:.SCHEMA_CHARS$} ")
}

pub(super) fn application_of(schema: &str, session: i64) -> String {
    format!("{}{session:x}", application(schema))
}

impl Engine {
    /// One statement, whatever the number of processes. One that may not write is silent: others take over what it does.
    pub(super) async fn beat(&self, id: u64, about: &str) -> Result<Vec<Server>, Failure> {
        let number = self.lease.lock().await.as_ref().map(|lease| lease.number);
        let client = self.client().await?;
        let statement = client.prepare_cached(BEAT).await?;
        let (can_write, began) = (self.time.wrong().is_none(), self.time.begin());
        let rows = client
            .query(
                &statement,
                &[
                    &(id as i64),
                    &self.session,
                    &number,
                    &about,
                    &LISTED_SECONDS,
                    &OVERDUE_SECONDS,
                    &self.application.as_str(),
                    &can_write,
                ],
            )
            .await?;
        if let Some(row) = rows.first() {
            self.time.learn(began, row.get(6));
            // A write says so; this server goes on reading.
            let _ = self.learn_who_writes(row.get(5));
        }
        let unsigned = |number: i16| number.unsigned_abs();
        let other = |row: &tokio_postgres::Row| Server {
            id: row.get::<_, i64>(0) as u64,
            number: row.get::<_, Option<i16>>(1).map(unsigned),
            about: row.get::<_, &str>(2).into(),
            // A clock that was set back shows as a negative age.
            silent_for: Duration::try_from_secs_f64(row.get::<_, f64>(3).max(0.0)).unwrap_or(Duration::MAX),
            is_connected: row.get(4),
        };
        let (number, about) = (number.map(unsigned), about.into());
        let this = Server { id, about, number, silent_for: Duration::ZERO, is_connected: true };
        // Without others there is a row for the time alone.
        let others = rows.iter().filter(|row| row.get::<_, Option<i64>>(0).is_some());
        Ok(std::iter::once(this).chain(others.map(other)).collect())
    }

    pub(super) async fn end_connections_of(&self, id: u64) -> Result<(), Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(DISCONNECT).await?;
        let row = client.query_one(&statement, &[&(id as i64), &self.application.as_str(), &self.session]).await?;
        let ended: i64 = row.get(0);
        if ended > 0 {
            tracing::warn!(server = format!("{id:016x}"), ended, "the connections of a silent server were ended");
        }
        Ok(())
    }

    pub(super) async fn leave(&self) -> Result<(), Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(LEAVE).await?;
        client.execute(&statement, &[&self.session]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_name_is_never_cut() {
        for schema in ["entourage", &"x".repeat(63)] {
            let name = application_of(schema, -1);
            assert!(name.len() < 63 && name.ends_with(" ffffffffffffffff"), "{name}");
        }
    }
}
