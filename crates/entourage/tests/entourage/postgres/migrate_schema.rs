//! `entourage migrate-schema` on PostgreSQL, and servers beside it.

use serde_json::{Value, json};

use crate::{
    cluster_kit::{Cluster, follow},
    postgres_kit::Database,
    server_kit::{Folder, check, text},
};

fn asked(database: &Database, arguments: &[&str], code: i32) -> Value {
    let output = database.run(arguments);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_schema_is_migrated_ahead_of_the_servers() {
    let database = Database::new();
    let check = ["migrate-schema", "--check", "--json"];
    let before = asked(&database, &check, 1);
    let newest = before["newest"].as_i64().unwrap();
    assert_eq!((&before["version"], before["pending"].as_array().unwrap().len() as i64), (&Value::Null, newest));
    assert_eq!(before["pending"][0], json!({ "version": 1, "name": "graph", "older_servers_survive": true }));
    assert_eq!(asked(&database, &check, 1), before, "it changes nothing");
    let done = asked(&database, &["migrate-schema", "--json"], 0);
    let expected = json!({
        "schema": "entourage", "version": newest, "newest": newest, "can_write": true, "pending": [],
        "older_servers": 0, "older_servers_survive": true,
    });
    assert_eq!(done, expected);
    assert_eq!(asked(&database, &check, 0), expected);
    let said = database.run(&["migrate-schema"]);
    let line = format!("schema entourage: version {newest}, this Entourage knows {newest}\n");
    assert_eq!((said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned()), (Some(0), line));
}

#[test]
fn a_running_server_survives_a_later_version_that_only_adds_and_no_other() {
    let cluster = Cluster::start(&["http,jobs"], &[]);
    let (database, client) = (&cluster.database, cluster.client(0));
    assert_eq!(follow(&client, "ann", "bob").0, 201);
    let newest = asked(database, &["migrate-schema", "--check", "--json"], 0)["newest"].as_i64().unwrap();
    let apply = |version: i64, sql: &str| {
        database.value(&format!(
            "BEGIN; {sql}; INSERT INTO entourage_migrations SELECT {version}, 'later', applied_on, checksum \
             FROM entourage_migrations WHERE version = 1; COMMIT; SELECT 1"
        ));
    };
    apply(newest + 1, "ALTER TABLE edges ADD COLUMN later text");
    assert_eq!(follow(&client, "ann", "cat").0, 201);
    assert_eq!(client.get("/readyz").status, 200);
    cluster.verify();
    apply(newest + 2, &format!("LOCK TABLE meta; UPDATE meta SET writers_from = {}", newest + 2));
    assert_eq!(follow(&client, "ann", "dan"), (503, "unavailable".to_owned()));
    let ready = client.get("/readyz");
    assert!(ready.status == 503 && ready.body["reason"].as_str().unwrap().contains("newer Entourage"), "{ready:?}");
    assert_eq!(client.get("/api/v1/users/ann/following").body["total"], 2, "reads go on");
    let status = asked(database, &["migrate-schema", "--check", "--json"], 1);
    assert_eq!((&status["can_write"], &status["version"]), (&json!(false), &json!(newest + 2)), "{status}");
}

#[test]
fn a_store_without_a_schema_is_refused() {
    let folder = Folder::new();
    check(&["migrate-schema", "--check", "--data", text(&folder.join("data"))], 2, &[], &["store.url", "postgres://"]);
}
