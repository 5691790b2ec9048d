//! Rolling upgrades: what is pending, applying it ahead of the servers, and servers on a schema that is newer than they know.

use std::sync::atomic::Ordering;

use entourage_model::{Error, Result};
use tokio_postgres::Client;

use super::{
    Engine,
    connect::Target,
    error::translate,
    migrations::{self, Older},
    schema,
};

/// The schema, and what this version would do to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    pub schema: String,
    /// `None`: nothing was migrated yet.
    pub version: Option<i32>,
    /// The version that this code knows.
    pub newest: i32,
    pub pending: Vec<PendingMigration>,
    /// Servers that run on the schema now and do not know all of what is pending.
    pub older_servers: u64,
    /// From this version on a server may write.
    pub writers_from: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMigration {
    pub version: i32,
    pub name: String,
    /// Whether servers that do not know it go on.
    pub older_servers_survive: bool,
}

impl SchemaStatus {
    /// Whether servers of this version may write to it.
    pub const fn can_write(&self) -> bool {
        self.writers_from <= self.newest
    }

    /// Whether servers that run now go on while everything that is pending is applied.
    pub fn older_servers_survive(&self) -> bool {
        self.pending.iter().all(|pending| pending.older_servers_survive)
    }
}

const OLDER_SERVERS: &str = "SELECT count(*) FROM servers WHERE leased_until > clock_timestamp() AND knows < $1";
/// Before servers said which version they know, they knew none that is pending now.
const RUNNING_SERVERS: &str = "SELECT count(*) FROM servers WHERE leased_until > clock_timestamp() AND $1 > 0";
/// The version from which servers say so.
const SAID_FROM: i32 = 9;

/// What is pending, without changing anything.
pub async fn schema_status(url: &str, schema: &str) -> Result<SchemaStatus> {
    schema::check_name(schema)?;
    let mut target = Target::parse(url)?;
    target.config.options(format!("-c search_path={schema}"));
    schema::connected(&target, async |client| status(client, schema).await).await
}

/// Applies what is pending. Refused while servers run that would not survive it.
pub async fn migrate_schema(url: &str, schema: &str) -> Result<SchemaStatus> {
    schema::check_name(schema)?;
    let mut target = Target::parse(url)?;
    target.config.options(format!("-c search_path={schema}"));
    schema::connected(&target, async |client| {
        schema::bring_up(client, schema).await?;
        status(client, schema).await
    })
    .await
}

pub(super) async fn status(client: &Client, schema: &str) -> Result<SchemaStatus> {
    let (version, newest) = (schema::version(client, schema).await?, migrations::newest());
    let has = version.unwrap_or_default();
    let pending: Vec<PendingMigration> = migrations::steps()
        .filter(|(version, _)| *version > has)
        .map(|(version, step)| PendingMigration {
            version,
            name: step.name.split_once("__").map_or(step.name, |(_, name)| name).to_owned(),
            older_servers_survive: step.older == Older::Survive,
        })
        .collect();
    let (mut older_servers, mut writers_from) = (0_i64, 0);
    if has > 0 {
        let query = if has >= SAID_FROM { OLDER_SERVERS } else { RUNNING_SERVERS };
        let asked = pending.last().map_or(0, |last| last.version);
        older_servers = client.query_one(query, &[&asked]).await.map_err(translate)?.get(0);
    }
    if has >= SAID_FROM {
        let found =
            client.query_one("SELECT coalesce(max(writers_from), 0) FROM meta", &[]).await.map_err(translate)?;
        writers_from = found.get(0);
    }
    let older_servers = older_servers.unsigned_abs();
    Ok(SchemaStatus { schema: schema.to_owned(), version, newest, pending, older_servers, writers_from })
}

/// Whether everything that is pending may be applied now, and whether this version may use the schema at all.
pub(super) fn must_be_possible(status: &SchemaStatus) -> Result<()> {
    schema::must_be_known(&status.schema, status.writers_from)?;
    let breaking = status.pending.iter().find(|pending| !pending.older_servers_survive);
    if let Some(breaking) = breaking.filter(|_| status.older_servers > 0) {
        return Err(Error::unavailable(format!(
            "{} older Entourage servers still use the schema {:?}, and would not survive its version {} ({}): stop them \
             first; one that was killed is forgotten after two minutes",
            status.older_servers, status.schema, breaking.version, breaking.name
        )));
    }
    Ok(())
}

impl Engine {
    /// A schema may have become one that only later versions may write to.
    pub(super) fn learn_who_writes(&self, writers_from: i32) -> Result<()> {
        if self.writers_from.swap(writers_from, Ordering::AcqRel) < writers_from && writers_from > migrations::newest()
        {
            tracing::error!(
                version = writers_from,
                "the schema was brought to a version that this server may not write"
            );
        }
        self.refuse_when_schema_is_newer()
    }

    pub(super) fn refuse_when_schema_is_newer(&self) -> Result<()> {
        schema::must_be_known(&self.schema, self.writers_from.load(Ordering::Acquire))
    }

    pub(super) async fn must_be_able_to_write(&self) -> Result<()> {
        self.refuse_when_closed()?;
        self.refuse_when_schema_is_newer()?;
        self.must_know_the_time().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(survive: &[bool], older_servers: u64, writers_from: i32) -> SchemaStatus {
        let pending = |(version, survive): (i32, &bool)| PendingMigration {
            version,
            name: "next".to_owned(),
            older_servers_survive: *survive,
        };
        SchemaStatus {
            schema: "entourage".to_owned(),
            version: Some(migrations::newest()),
            newest: migrations::newest(),
            pending: (migrations::newest() + 1..).zip(survive).map(pending).collect(),
            older_servers,
            writers_from,
        }
    }

    #[test]
    fn what_older_servers_would_not_survive_waits_for_them() {
        for (status, is_possible) in [
            (status(&[], 3, 0), true),
            (status(&[true, true], 3, 0), true),
            (status(&[true, false], 0, 0), true),
            (status(&[true, false], 1, 0), false),
            (status(&[], 0, migrations::newest()), true),
            (status(&[], 0, migrations::newest() + 1), false),
        ] {
            let possible = must_be_possible(&status);
            assert_eq!(possible.is_ok(), is_possible, "{status:?}: {possible:?}");
        }
        assert!(status(&[true], 1, 0).older_servers_survive());
        assert!(!status(&[true, false], 1, 0).older_servers_survive());
    }
}
