//! Brings a PostgreSQL schema to the version this code knows, once, under concurrent attempts.

use entourage_model::{Error, Result, Secret};
use refinery::{Migration, Runner, error::Kind};
use tokio_postgres::Client;
use xxhash_rust::xxh3::xxh3_64;

use super::{connect::Target, error::translate, numbering};
use entourage_store::Identity;

const HISTORY: &str = "entourage_migrations";
const NAME_MAX_BYTES: usize = 63;

/// A schema name that may stand in a statement verbatim: the server folds nothing of it and reserves nothing.
pub(super) fn check_name(schema: &str) -> Result<()> {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let fine = schema.len() <= NAME_MAX_BYTES
        && schema.bytes().next().is_some_and(first)
        && schema.bytes().all(|byte| first(byte) || byte.is_ascii_digit())
        && !schema.starts_with("pg_")
        && schema != "information_schema";
    if fine {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{schema:?} is not a schema name: 1 to {NAME_MAX_BYTES} of a-z, 0-9 and _, not beginning with a digit or pg_"
    )))
}

/// Creates the schema when it is missing, migrates it, and reads the store's identity.
pub(super) async fn prepare(target: &Target, schema: &str) -> Result<Identity> {
    let (mut client, driver) = target.connect().await?;
    let identity = prepare_with(&mut client, schema).await;
    // The lock ends with this session.
    drop(client);
    if let Ok(Err(error)) = driver.await {
        tracing::debug!(%error, "the connection that prepared the schema ended badly");
    }
    identity
}

async fn prepare_with(client: &mut Client, schema: &str) -> Result<Identity> {
    let lock = xxh3_64(format!("entourage schema {schema}").as_bytes()) as i64;
    client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.map_err(translate)?;
    // `CREATE SCHEMA` takes no parameters; the name was checked, and is quoted as well.
    client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"")).await.map_err(translate)?;
    migrate(client, schema, &known()?).await?;
    let fresh: (i64, [u8; 32]) = (rand::random(), rand::random());
    client
        .execute(
            "INSERT INTO meta (epoch, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[&fresh.0, &fresh.1.as_slice()],
        )
        .await
        .map_err(translate)?;
    let identity = identity(client).await?;
    numbering::make_direct(client, identity.epoch).await?;
    Ok(identity)
}

/// Reads the identity of a store that another server has prepared, and changes nothing.
pub(super) async fn read(target: &Target, schema: &str) -> Result<Identity> {
    let (client, driver) = target.connect().await?;
    let found = match version(&client, schema).await? {
        Some(version) if version == newest()? => identity(&client).await,
        Some(version) if version < newest()? => Err(Error::unavailable(format!(
            "the schema {schema:?} has version {version}; a server that writes brings it to {} first",
            newest()?
        ))),
        Some(version) => must_be_known(schema, version).and(identity(&client).await),
        None => Err(Error::unavailable(format!("there is no schema {schema:?} yet; a server that writes makes it"))),
    };
    drop(client);
    // The answers have reported its errors.
    let _ = driver.await;
    found
}

async fn identity(client: &Client) -> Result<Identity> {
    let row = client.query_one("SELECT epoch, secret FROM meta", &[]).await.map_err(translate)?;
    let (epoch, secret): (i64, Vec<u8>) = (row.get(0), row.get(1));
    let secret = secret.try_into().map_err(|_| super::error::unreadable("secret"))?;
    Ok(Identity { epoch: epoch as u64, secret: Secret::from_bytes(secret) })
}

/// Every version of the schema, oldest first. A released one is never edited.
fn known() -> Result<Vec<Migration>> {
    let files = [
        ("V1__graph", include_str!("migrations/V1__graph.sql")),
        ("V2__retention", include_str!("migrations/V2__retention.sql")),
        ("V3__records", include_str!("migrations/V3__records.sql")),
        ("V4__open_lists", include_str!("migrations/V4__open_lists.sql")),
        ("V5__quotas", include_str!("migrations/V5__quotas.sql")),
        ("V6__event_numbers", include_str!("migrations/V6__event_numbers.sql")),
        ("V7__lineages", include_str!("migrations/V7__lineages.sql")),
        ("V8__heartbeats", include_str!("migrations/V8__heartbeats.sql")),
    ];
    files
        .into_iter()
        .map(|(name, sql)| Migration::unapplied(name, sql).map_err(|error| broken("unusable", error)))
        .collect()
}

async fn migrate(client: &mut Client, schema: &str, migrations: &[Migration]) -> Result<()> {
    let mut runner = Runner::new(migrations).set_grouped(true).set_abort_missing(true);
    runner.set_migration_table_name(HISTORY);
    match runner.run_async(client).await {
        Ok(_) => Ok(()),
        Err(error) => {
            if let Kind::MissingVersion(newer) = error.kind() {
                must_be_known(schema, newer.version())?;
            }
            Err(broken("not applied", error))
        }
    }
}

/// The version this code brings a schema to.
pub(super) fn newest() -> Result<i32> {
    Ok(known()?.iter().map(Migration::version).max().unwrap_or_default())
}

/// The version a schema has; `None` where nothing was migrated yet.
pub(super) async fn version(client: &Client, schema: &str) -> Result<Option<i32>> {
    let table = format!("\"{schema}\".{HISTORY}");
    let is_there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await.map_err(translate)?;
    if !is_there.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_one(&format!("SELECT max(version) FROM {table}"), &[]).await.map_err(translate)?;
    Ok(row.get(0))
}

/// Refuses a schema of a newer version.
pub(super) fn must_be_known(schema: &str, version: i32) -> Result<()> {
    let newest = newest()?;
    if version <= newest {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "the schema {schema:?} has version {version}, written by a newer Entourage; this one knows versions up to \
         {newest}: upgrade it, or use another schema"
    )))
}

fn broken(how: &str, source: refinery::Error) -> Error {
    Error::unavailable(format!("the migrations of the schema are {how}")).caused_by(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_schemas() {
        let longest = "x".repeat(NAME_MAX_BYTES);
        for name in ["a", "_", "entourage", "t_1_2", &longest] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let too_long = "x".repeat(NAME_MAX_BYTES + 1);
        for name in
            ["", "1a", "A", "a b", "a\"b", "a;b", "a'b", "é", "pg_x", "a-b", "a\0", "information_schema", &too_long]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
