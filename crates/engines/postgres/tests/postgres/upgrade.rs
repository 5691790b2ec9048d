//! Rolling upgrades: a schema that is newer than the server, one that only newer servers may write, and what is pending.

use std::sync::Arc;

use entourage_model::{Code, Key, Kind};
use entourage_postgres::{Options, Store as Postgres, migrate_schema, schema_status};
use entourage_store::{Health, Store, StoreExt as _, SystemClock, Unhealthy};

use crate::postgres_kit::{connect, fresh_schema, url, words::*};

/// What a later version of Entourage would do: it adds a table and a column.
async fn expand(schema: &str, version: i32) {
    let sql = format!(
        "SET search_path TO {schema}; BEGIN; CREATE TABLE later (key bigint PRIMARY KEY); \
         ALTER TABLE edges ADD COLUMN later text; ALTER TABLE events ADD COLUMN later bigint NOT NULL DEFAULT 0; {}; COMMIT",
        applied(version)
    );
    raw().await.batch_execute(&sql).await.unwrap();
}

/// What a later version would do whose servers alone may write: as the code of migrations puts it.
async fn contract(schema: &str, version: i32) {
    let sql = format!(
        "SET search_path TO {schema}; BEGIN; LOCK TABLE meta IN ACCESS EXCLUSIVE MODE; \
         UPDATE meta SET writers_from = {version}; {}; COMMIT",
        applied(version)
    );
    raw().await.batch_execute(&sql).await.unwrap();
}

fn applied(version: i32) -> String {
    format!(
        "INSERT INTO entourage_migrations SELECT {version}, 'later', applied_on, checksum \
         FROM entourage_migrations WHERE version = 1"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_with_a_schema_that_was_only_expanded() {
    let schema = fresh_schema();
    let running = connect(&schema, Arc::new(SystemClock)).await;
    people(&running, 1..=3).await;
    running.commit(follow(1, 2).into()).await.unwrap();
    let newest = schema_status(&url(), &schema).await.unwrap().newest;
    expand(&schema, newest + 1).await;
    running.commit(follow(2, 1).into()).await.unwrap();
    running.heartbeat(1, "running").await.unwrap();
    assert_eq!(running.health().await, Health::Ready);
    // One of the same version that starts now does, too.
    let started = connect(&schema, Arc::new(SystemClock)).await;
    started.commit(follow(3, 1).into()).await.unwrap();
    assert_eq!(counts(&started, 1).await, (2, 1));
    assert_clean(&started).await;
    let status = schema_status(&url(), &schema).await.unwrap();
    assert_eq!((status.version, status.pending.len(), status.can_write()), (Some(newest + 1), 0, true));
    // Nor does it migrate anything back.
    assert_eq!(migrate_schema(&url(), &schema).await.unwrap(), status);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_write_to_a_schema_that_only_newer_ones_may_write() {
    let schema = fresh_schema();
    let running = connect(&schema, Arc::new(SystemClock)).await;
    people(&running, 1..=3).await;
    running.commit(follow(1, 2).into()).await.unwrap();
    let newest = schema_status(&url(), &schema).await.unwrap().newest;
    contract(&schema, newest + 1).await;
    // The very next commit finds out: nobody has told it before.
    let error = running.commit(follow(2, 1).into()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    let version = format!("version {}", newest + 1);
    assert!(error.detail().contains(&version) && error.detail().contains("newer"), "{error}");
    assert_eq!(counts(&running, 2).await, (1, 0), "reads go on");
    assert!(running.get_edges(Kind::Follow, &[(Key(2), Key(1))]).await.unwrap()[0].is_none());
    assert!(running.heartbeat(1, "running").await.is_ok());
    assert!(
        matches!(running.health().await, Health::Degraded(Unhealthy::ReadOnly(reason)) if reason.contains(&version))
    );
    // None of the same version starts.
    let error =
        Postgres::connect(&url(), &schema, Options::default(), Arc::new(SystemClock)).await.err().expect("is refused");
    assert!(error.detail().contains(&version) && error.detail().contains("newer"), "{error}");
    assert!(migrate_schema(&url(), &schema).await.is_err());
    assert!(!schema_status(&url(), &schema).await.unwrap().can_write());
}

/// A commit that has begun is waited for; one that begins during the migration waits for it and is refused.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_comes_between_a_migration_and_its_fence() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=2).await;
    let newest = schema_status(&url(), &schema).await.unwrap().newest;
    let client = raw().await;
    let begin = format!(
        "SET search_path TO {schema}; BEGIN; LOCK TABLE meta IN ACCESS EXCLUSIVE MODE; \
         UPDATE meta SET writers_from = {}",
        newest + 1
    );
    client.batch_execute(&begin).await.unwrap();
    let write = tokio::spawn(async move { store.commit(follow(1, 2).into()).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!write.is_finished(), "it waits for the migration");
    client.batch_execute("COMMIT").await.unwrap();
    let error = write.await.unwrap().unwrap_err();
    assert!(error.detail().contains("newer"), "{error}");
}

#[tokio::test]
async fn what_is_pending_is_said_and_applied_ahead_of_the_servers() {
    let schema = fresh_schema();
    let status = schema_status(&url(), &schema).await.unwrap();
    assert_eq!((status.version, status.pending.len() as i32), (None, status.newest));
    assert!(status.older_servers == 0 && status.older_servers_survive() && status.can_write());
    let there: bool = raw()
        .await
        .query_one("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", &[&schema])
        .await
        .unwrap()
        .get(0);
    assert!(!there, "looking changes nothing");
    let after = migrate_schema(&url(), &schema).await.unwrap();
    assert_eq!((after.version, after.pending.len()), (Some(after.newest), 0));
    assert_eq!(migrate_schema(&url(), &schema).await.unwrap(), after, "a second time there is nothing to do");
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=1).await;
    assert_clean(&store).await;
    // As a schema of the version before, with a server on it that says nothing of versions.
    let back = format!(
        "SET search_path TO {schema}; ALTER TABLE servers DROP COLUMN knows; ALTER TABLE meta DROP COLUMN writers_from; \
         ALTER TABLE lineages DROP COLUMN written_by; \
         DELETE FROM entourage_migrations WHERE version >= 9"
    );
    raw().await.batch_execute(&back).await.unwrap();
    let status = schema_status(&url(), &schema).await.unwrap();
    assert_eq!(status.older_servers, 1);
    assert_eq!(status.pending.first().map(|pending| (pending.version, pending.older_servers_survive)), Some((9, true)));
    assert_eq!(migrate_schema(&url(), &schema).await.unwrap().pending, []);
    // The server that ran meanwhile goes on.
    people(&store, 2..=2).await;
}
