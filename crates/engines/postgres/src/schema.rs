//! Brings a PostgreSQL schema to the version this code knows, once, under concurrent attempts.

use entourage_model::{Error, Result, Secret};
use refinery::{Migration, Runner};
use tokio_postgres::Client;
use xxhash_rust::xxh3::xxh3_64;

use super::{connect::Target, error::translate, migrations, numbering, upgrade};
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
    connected(target, async |client| prepare_with(client, schema).await).await
}

/// Does it with a connection of its own, which ends afterwards.
pub(super) async fn connected<T>(target: &Target, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
    let (mut client, driver) = target.connect().await?;
    let done = work(&mut client).await;
    // The lock ends with this session.
    drop(client);
    if let Ok(Err(error)) = driver.await {
        tracing::debug!(%error, "the connection that prepared the schema ended badly");
    }
    done
}

async fn prepare_with(client: &mut Client, schema: &str) -> Result<Identity> {
    bring_up(client, schema).await?;
    let identity = identity(client).await?;
    numbering::make_direct(client, identity.epoch).await?;
    Ok(identity)
}

/// Reads the identity of a store that another server has prepared, and changes nothing.
pub(super) async fn read(target: &Target, schema: &str) -> Result<Identity> {
    connected(target, async |client| {
        let status = upgrade::status(client, schema).await?;
        match status.version {
            Some(version) if version < status.newest => Err(Error::unavailable(format!(
                "the schema {schema:?} has version {version}; a server that writes brings it to {} first",
                status.newest
            ))),
            Some(_) => {
                must_be_known(schema, status.writers_from)?;
                identity(client).await
            }
            None => {
                Err(Error::unavailable(format!("there is no schema {schema:?} yet; a server that writes makes it")))
            }
        }
    })
    .await
}

async fn identity(client: &Client) -> Result<Identity> {
    let row = client.query_one("SELECT epoch, secret FROM meta", &[]).await.map_err(translate)?;
    let (epoch, secret): (i64, Vec<u8>) = (row.get(0), row.get(1));
    let secret = secret.try_into().map_err(|_| super::error::unreadable("secret"))?;
    Ok(Identity { epoch: epoch as u64, secret: Secret::from_bytes(secret) })
}

/// The schema with everything this version knows, and its identity; a newer one stays as it is.
pub(super) async fn bring_up(client: &mut Client, schema: &str) -> Result<()> {
    let lock = xxh3_64(format!("entourage schema {schema}").as_bytes()) as i64;
    client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.map_err(translate)?;
    // `CREATE SCHEMA` takes no parameters; the name was checked, and is quoted as well.
    client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"")).await.map_err(translate)?;
    let status = upgrade::status(client, schema).await?;
    upgrade::must_be_possible(&status)?;
    if let Some(version) = status.version.filter(|version| *version > status.newest) {
        tracing::warn!(version, "the schema is of a newer version, which this one may use");
        return Ok(());
    }
    let migrations: Vec<Migration> =
        migrations::steps().map(|(version, step)| step.migration(version)).collect::<Result<_>>()?;
    let mut runner = Runner::new(&migrations).set_grouped(true).set_abort_missing(true);
    runner.set_migration_table_name(HISTORY);
    runner
        .run_async(client)
        .await
        .map_err(|error| Error::unavailable("the migrations of the schema were not applied").caused_by(error))?;
    let fresh: (i64, [u8; 32]) = (rand::random(), rand::random());
    client
        .execute(
            "INSERT INTO meta (epoch, secret, writers_from) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[&fresh.0, &fresh.1.as_slice(), &migrations::writers_from()],
        )
        .await
        .map_err(translate)?;
    Ok(())
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

/// Refuses a schema that only servers from a newer version on may write to.
pub(super) fn must_be_known(schema: &str, writers_from: i32) -> Result<()> {
    let newest = migrations::newest();
    if writers_from <= newest {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "the schema {schema:?} has version {writers_from}, written by a newer Entourage; this one knows versions up to \
         {newest}: upgrade it, or use another schema"
    )))
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
