//! What opening a store would find, without creating or migrating anything.

use entourage_model::{Error, Result};
use tokio_postgres::Client;

use super::{connect::Target, error::translate, migrations, schema, upgrade};

/// Reports what is there, or why a store could not be opened.
pub async fn look(url: &str, schema: &str) -> Result<String> {
    schema::check_name(schema)?;
    let (client, driver) = Target::parse(url)?.connect().await?;
    let found = look_with(&client, schema).await;
    drop(client);
    // The answers have reported its errors.
    let _ = driver.await;
    found
}

async fn look_with(client: &Client, schema: &str) -> Result<String> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version'), current_setting('transaction_read_only') = 'on', \
             EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), \
             has_database_privilege(current_database(), 'CREATE')",
            &[&schema],
        )
        .await
        .map_err(translate)?;
    let (server, read_only, is_there, may_create): (&str, bool, bool, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    if read_only {
        return Err(Error::unavailable("PostgreSQL takes no writes here: it is a replica, or read-only"));
    }
    if !is_there && !may_create {
        let detail = format!("there is no schema {schema}, and this user may not make it: GRANT CREATE ON DATABASE");
        return Err(Error::unavailable(detail));
    }
    let place = format!("PostgreSQL {server} answers");
    client.batch_execute(&format!("SET search_path TO \"{schema}\"")).await.map_err(translate)?;
    let status = upgrade::status(client, schema).await?;
    upgrade::must_be_possible(&status)?;
    Ok(match status.version {
        None => format!("{place}; the first start makes the schema {schema}"),
        Some(version) if version < migrations::newest() => {
            format!("{place}; the next start brings the schema {schema} to version {}", migrations::newest())
        }
        Some(version) if version > migrations::newest() => {
            format!("{place}; the schema {schema} has the newer version {version}, which this one may use")
        }
        Some(_) => format!("{place}, schema {schema}"),
    })
}
