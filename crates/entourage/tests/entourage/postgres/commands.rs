//! Commands that work on a store themselves, on PostgreSQL: import, export, verify, reconcile, erase.

use std::{fmt::Write as _, process::Output, time::Duration};

use crate::import_kit::{numbers, report};
use crate::postgres_kit::Database;
use crate::server_kit::{Client, Folder, Serving, check, command, run, text};

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn an_import_is_exported_as_it_was_and_as_the_embedded_store_does() {
    let (database, folder) = (Database::new(), Folder::new());
    let [notes, embedded, users, edges] = ["notes", "embedded", "users.csv", "edges.csv"].map(|name| folder.join(name));
    std::fs::write(
        &users,
        "id,name,private,registered_at\nann,Ann,false,2020-01-02T03:04:05Z\nbob,Bob,true,2021-01-02T03:04:05Z\n7,,false,2022-01-02T03:04:05Z\n",
    )
    .unwrap();
    // The last three are rejected: oneself, nobody, no time.
    std::fs::write(
        &edges,
        "follower,target,created_at\nann,bob,2023-01-01T00:00:00Z\nbob,7,2023-01-02T00:00:00Z\n7,ann,2023-01-03T00:00:00Z\n\
         7,7,2023-01-03T00:00:00Z\n7,nobody,2023-01-03T00:00:00Z\n7,bob,yesterday\n",
    )
    .unwrap();
    let arguments = ["import", "--json", "--create-users", "false", "--data", text(&notes), text(&users), text(&edges)];
    let first = report(&database.run(&arguments), 0);
    assert_eq!(numbers(&first, ["rejected"]), [3], "{first}");
    let again = report(&database.run(&arguments), 0);
    assert_eq!(numbers(&again, ["rejected"]), [3], "{again}");
    let same =
        run(&["import", "--json", "--create-users", "false", "--data", text(&embedded), text(&users), text(&edges)]);
    assert_eq!(numbers(&report(&same, 0), ["rejected"]), [3]);
    for what in ["--users", "--edges"] {
        let export = |output: Output| lines(&output);
        let ours = export(database.run(&["export", "--data", text(&notes), what, "-"]));
        assert_eq!(ours.len(), 4, "three rows and their header: {ours:?}");
        assert_eq!(ours, export(run(&["export", "--data", text(&embedded), what, "-"])), "{what}");
    }
    // What was exported makes the same store again.
    let packed = folder.join("all.ndjson.zst");
    let written = database.run(&["export", "--data", text(&notes), "--format", "ndjson", "--zstd", text(&packed)]);
    assert!(written.status.success(), "{written:?}");
    let other = Database::new();
    let imported = report(&other.run(&["import", "--json", "--data", text(&notes), text(&packed)]), 0);
    assert_eq!(numbers(&imported, ["rejected"]), [0], "{imported}");
    let whole = ["export", "--data", text(&notes), "--format", "ndjson", "-"];
    assert_eq!(lines(&other.run(&whole)), lines(&database.run(&whole)));
    let reconciled = database.run(&["reconcile", "--data", text(&notes), "--counts"]);
    assert!(String::from_utf8_lossy(&reconciled.stdout).contains("clean: 3 users, 3 edges"), "{reconciled:?}");
}

#[test]
fn a_killed_import_goes_on_and_ends_the_same() {
    const PEOPLE: usize = 3_000;
    let (database, folder) = (Database::new(), Folder::new());
    let [notes, edges] = ["notes", "edges.csv"].map(|name| folder.join(name));
    let mut file = String::from("follower,target\n");
    for number in 0..PEOPLE {
        let _ = writeln!(file, "{number},{}", (number * 7 + 1) % PEOPLE);
    }
    std::fs::write(&edges, &file).unwrap();
    let arguments = ["import", "--json", "--edges", "--data", text(&notes), text(&edges)];
    for after in [300, 600, 900] {
        let mut killed = command(&arguments);
        Serving::start_and_kill(killed.env("ENTOURAGE_STORE__URL", &database.url), Duration::from_millis(after));
    }
    let done = report(&database.run(&arguments), 0);
    assert_eq!(numbers(&done, ["rejected"]), [0], "{done}");
    let exported = lines(&database.run(&["export", "--data", text(&notes), "--edges", "-"]));
    assert_eq!(exported.len(), PEOPLE + 1);
    let reconciled = database.run(&["reconcile", "--data", text(&notes)]);
    let said = String::from_utf8_lossy(&reconciled.stdout).into_owned();
    assert!(said.contains(&format!("clean: {PEOPLE} users, {PEOPLE} edges")), "{reconciled:?}");
}

#[test]
fn erase_now_leaves_nothing_that_a_person_wrote() {
    let (database, folder) = (Database::new(), Folder::new());
    let data = folder.join("data");
    let name = "unmistakable-person-4711";
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    let server = Serving::start_as(serve.env("ENTOURAGE_STORE__URL", &database.url));
    let client = Client::new(&server.base);
    for user in ["star", "fan"] {
        assert_eq!(client.put_user(user, if user == "star" { name } else { "Fan" }).unwrap().status, 201);
    }
    for path in ["/api/v1/users/star/following/fan", "/api/v1/users/fan/following/star"] {
        assert_eq!(client.ask("PUT", path, "").unwrap().status, 201);
    }
    let group = format!(r#"{{"name": "{name}"}}"#);
    assert_eq!(client.ask("POST", "/api/v1/users/star/groups", &group).unwrap().status, 201);
    assert!(client.get("/api/v1/events").body["data"].as_array().unwrap().len() > 3);
    let tables = ["users", "records", "history", "outbox", "events", "idempotency", "edges"];
    let rows_with = |table: &str| {
        database.value(&format!("SELECT count(*) FROM {table} t WHERE position('{name}' in t::text) > 0"))
    };
    assert_ne!(rows_with("events"), "0", "the test no longer sees what it is about");
    let file_of_events = database.value("SELECT pg_relation_filepath('events')");
    check(&["erase", "star", "--now", "--server", &server.base], 0, &["erased", "true"], &[]);
    for table in tables {
        assert_eq!(rows_with(table), "0", "{table}");
    }
    assert_ne!(database.value("SELECT pg_relation_filepath('events')"), file_of_events, "the table was written anew");
    // Whoever reads events from the beginning begins with the oldest that is kept, and the server goes on.
    assert_eq!(client.get("/api/v1/events").status, 200);
    assert_eq!(client.get("/api/v1/users/fan").body["counts"]["followers"], 0);
    assert_eq!(client.put_user("star", "somebody new").unwrap().status, 201);
    drop(server);
    let config = folder.join("toml");
    std::fs::write(&config, format!("[store]\nurl = {:?}\n", database.url)).unwrap();
    check(&["erase", "fan", "--now", "--config", text(&config)], 0, &["erased", "true"], &[]);
    let reconciled = database.run(&["reconcile", "--data", text(&data)]);
    assert!(String::from_utf8_lossy(&reconciled.stdout).contains("clean: 1 users, 0 edges"), "{reconciled:?}");
}
