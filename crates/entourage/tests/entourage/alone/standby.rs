//! A server with `--roles read` on a standby beside one that writes to the primary: what was written is read there, or is
//! `stale`, and nothing is written.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster_kit::{self, wait_for},
    postgres_kit::cluster::Server,
    server_kit::{Client, Folder, Heard, Serving, command, text},
};

const PATIENCE: Duration = Duration::from_secs(30);
const WRITES: usize = 300;

fn serve(folder: &Folder, name: &str, postgres: &Server, roles: &str) -> Serving {
    cluster_kit::serve(&postgres.url("postgres"), &folder.join(name), roles, &[])
}

fn query(postgres: &Server, statement: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rows = postgres.raw().await.simple_query(statement).await.unwrap();
        let row = |message: &tokio_postgres::SimpleQueryMessage| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        rows.iter().filter_map(row).collect()
    })
}

fn follow(client: &Client, who: &str, target: &str) -> String {
    let heard = client.ask("PUT", &format!("/api/v1/users/{who}/following/{target}"), "").expect("an answer");
    assert_eq!(heard.status, 201, "{heard:?}");
    heard.header("entourage-token").to_owned()
}

fn read_with(client: &Client, token: &str, path: &str) -> Heard {
    client.ask_with(&[("entourage-token", token)], "GET", path, "").expect("an answer")
}

#[test]
fn a_server_that_reads_a_standby_is_right_or_says_stale_and_writes_nothing() {
    let (primary, folder) = (Server::primary(), Folder::new());
    let writing = serve(&folder, "writing", &primary, "http,resp,fanout,jobs");
    let writer = Client::new(&writing.base);
    follow(&writer, "fan", "star");
    let standby = primary.standby();
    let reading = serve(&folder, "reading", &standby, "read");
    assert!(!reading.resp.is_empty(), "both fronts answer");
    let reader = Client::new(&reading.base);
    wait_for("it is ready", PATIENCE, || (reader.get("/readyz").status == 200).then_some(()));
    wait_for("it has what was written", PATIENCE, || {
        (reader.get("/api/v1/users/fan/is-following/star").body["following"] == true).then_some(())
    });

    // One after the other, and each read at once on the other server.
    let (mut right, mut stale) = (0, 0);
    for number in 0..WRITES {
        let target = format!("t{number}");
        let token = follow(&writer, "fan", &target);
        let check = read_with(&reader, &token, &format!("/api/v1/users/fan/is-following/{target}"));
        let list = read_with(&reader, &token, "/api/v1/users/fan/following?limit=1");
        for (heard, is_new) in [
            (&check, check.body["following"] == true),
            (&list, list.body["data"][0]["id"] == target.as_str() && list.body["total"] == number + 2),
        ] {
            match (heard.status, heard.code()) {
                (200, _) => {
                    assert!(is_new, "silently old: {heard:?}");
                    right += 1;
                }
                (503, "stale") => stale += 1,
                other => panic!("{other:?}: {heard:?}"),
            }
        }
    }
    println!("{right} reads were right at once, {stale} were stale");

    // Replay stops: everything that comes is stale, and what was there is there.
    let earlier = follow(&writer, "fan", "before");
    wait_for("the standby has it", PATIENCE, || {
        (read_with(&reader, &earlier, "/api/v1/users/fan/is-following/before").body["following"] == true).then_some(())
    });
    query(&standby, "SELECT pg_wal_replay_pause()");
    wait_for("replay is paused", PATIENCE, || {
        (query(&standby, "SELECT pg_get_wal_replay_pause_state()") == ["paused"]).then_some(())
    });
    let token = follow(&writer, "fan", "later");
    for path in ["/api/v1/users/fan/is-following/later", "/api/v1/users/fan/following", "/api/v1/users/fan"] {
        let heard = read_with(&reader, &token, path);
        assert_eq!((heard.status, heard.code()), (503, "stale"), "{path}: {heard:?}");
        assert_eq!(heard.retry_after.as_deref(), Some("1"));
        assert_eq!(read_with(&reader, &earlier, path).status, 200, "{path}");
    }
    query(&standby, "SELECT pg_wal_replay_resume()");
    wait_for("the answer", PATIENCE, || {
        let heard = read_with(&reader, &token, "/api/v1/users/fan/is-following/later");
        (heard.status == 200).then(|| assert_eq!(heard.body["following"], true))
    });

    // Writes are for others, in every shape.
    let post = json!({ "body": { "text": "hello" } }).to_string();
    let batch = json!({ "operations": [{ "op": "follow", "follower": "fan", "target": "x" }] }).to_string();
    for (method, path, body) in [
        ("PUT", "/api/v1/users/fan/following/x", ""),
        ("DELETE", "/api/v1/users/fan/following/star", ""),
        ("PUT", "/api/v1/users/fan", r#"{"name": "Fan"}"#),
        ("POST", "/api/v1/posts", post.as_str()),
    ] {
        let heard = reader.ask_with(&[("entourage-actor", "fan")], method, path, body).expect("an answer");
        assert_eq!((heard.status, heard.code()), (503, "unavailable"), "{method} {path}: {heard:?}");
        let detail = heard.body["detail"].as_str().unwrap();
        assert!(detail.contains("only reads"), "{method} {path}: {detail}");
    }
    let heard = reader.ask("POST", "/api/v1/follows:batch", &batch).expect("an answer");
    assert!(heard.status == 503 || heard.body["results"][0]["code"] == "unavailable", "{heard:?}");

    // It is there for nothing else.
    let seen = writer.get("/api/v1/admin/servers").body;
    assert_eq!(seen["data"].as_array().unwrap().len(), 1, "no heartbeat: {seen}");
    assert_eq!(query(&primary, "SELECT count(*) FROM entourage.servers"), ["1"], "no number");
    assert_eq!(reader.get("/api/v1/admin/servers").status, 200);
    let totals: Vec<Value> =
        [&writer, &reader].map(|client| client.get("/api/v1/users/fan").body["counts"].clone()).into();
    assert_eq!(totals[0], totals[1]);
}

#[test]
fn reading_alone_needs_a_store_that_others_write() {
    let folder = Folder::new();
    let output = command(&["serve", "--data", text(&folder.join("data")), "--roles", "read"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("read needs a store that another server writes"), "{said}");
}
