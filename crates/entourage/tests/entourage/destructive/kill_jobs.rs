//! The real binary killed in the middle of jobs: whoever starts next takes them up, and the end is exact.

use crate::server_kit;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::server_kit::{Client, Folder, Serving, check, text};
use serde_json::{Value, json};

const PEOPLE: usize = 3_000;
const BATCH: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn put(client: &Client, id: &str, body: &Value) -> u16 {
    client.ask("PUT", &format!("/api/v1/users/{id}"), &body.to_string()).expect("an answer").status
}

/// Everybody follows, or asks to follow, `star`; with `back` it follows them, too.
fn gather(client: &Client, star: &str, back: bool) {
    for first in (0..PEOPLE).step_by(BATCH) {
        let mut operations = Vec::new();
        for number in first..first + BATCH {
            operations.push(json!({ "op": "follow", "follower": number.to_string(), "target": star }));
        }
        batch(client, &operations);
        if back {
            for operation in &mut operations {
                let number = operation["follower"].take();
                *operation = json!({ "op": "follow", "follower": star, "target": number });
            }
            batch(client, &operations);
        }
    }
}

fn batch(client: &Client, operations: &[Value]) {
    let body = json!({ "operations": operations }).to_string();
    let heard = client.ask("POST", "/api/v1/follows:batch", &body).expect("an answer");
    let refused = heard.body["results"].as_array().unwrap().iter().find(|result| !result["code"].is_null());
    assert_eq!(refused, None);
}

/// Starts the server on the folder and kills it again and again, each time a little later, until no job runs. How far
/// the jobs have come is exact at every look, and never less than before.
fn finish_under_fire(data: &Path, expected: u64) {
    let (began, mut before) = (Instant::now(), 0);
    for round in 0u64.. {
        assert!(began.elapsed() < PATIENCE, "the jobs do not come to an end");
        let mut server = Serving::start(data);
        let client = Client::new(&server.base);
        std::thread::sleep(Duration::from_millis(round * 3));
        let jobs = client.get("/api/v1/admin/jobs").body["data"].as_array().unwrap().clone();
        server.kill();
        assert!(jobs.iter().all(|job| job["state"] != "failed"), "{jobs:?}");
        let edges = jobs.iter().map(|job| job["edges"].as_u64().unwrap()).sum();
        assert!((before..=expected).contains(&edges), "{edges} edges after {before}: {jobs:?}");
        before = edges;
        if !jobs.is_empty() && jobs.iter().all(|job| job["state"] == "done") {
            assert_eq!(edges, expected, "{jobs:?}");
            return;
        }
    }
}

fn starts(data: &Path) -> Serving {
    Serving::start_as(
        server_kit::command(&["serve", "--http", "127.0.0.1:0", "--data", text(data)])
            .env("ENTOURAGE_LIMITS__FOLLOWING_MAX", "0")
            .env("ENTOURAGE_USERS__AUTO_CREATE", "true"),
    )
}

fn counts(client: &Client, id: &str) -> [u64; 3] {
    let counts = client.get(&format!("/api/v1/users/{id}")).body["counts"].clone();
    ["followers", "following", "requests"].map(|name| counts[name].as_u64().unwrap())
}

#[test]
fn accepting_all_and_going_public_end_though_the_server_is_killed() {
    for (method, path, body, status) in [
        ("POST", "/api/v1/users/star/follow-requests:accept-all", "", 202),
        ("PATCH", "/api/v1/users/star", r#"{"private": false}"#, 200),
    ] {
        let folder = Folder::new();
        let data = folder.join("data");
        let mut server = starts(&data);
        let client = Client::new(&server.base);
        assert_eq!(put(&client, "star", &json!({ "private": true })), 201);
        gather(&client, "star", false);
        assert_eq!(counts(&client, "star"), [0, 0, PEOPLE as u64]);
        assert_eq!(client.ask(method, path, body).expect("an answer").status, status);
        server.kill();
        finish_under_fire(&data, PEOPLE as u64);
        check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
        let server = starts(&data);
        let client = Client::new(&server.base);
        assert_eq!(counts(&client, "star"), [PEOPLE as u64, 0, 0]);
        assert_eq!(counts(&client, "7"), [0, 1, 0]);
    }
}

#[test]
fn erasing_ends_though_the_server_is_killed_and_leaves_nothing() {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut server = starts(&data);
    let client = Client::new(&server.base);
    let name = "unmistakable-person-4711";
    assert_eq!(put(&client, "star", &json!({ "name": name })), 201);
    gather(&client, "star", true);
    assert_eq!(counts(&client, "star"), [PEOPLE as u64, PEOPLE as u64, 0]);
    assert_eq!(client.ask("DELETE", "/api/v1/users/star", "").expect("an answer").status, 202);
    assert_eq!(client.get("/api/v1/users/star").status, 404);
    server.kill();
    finish_under_fire(&data, 2 * PEOPLE as u64);
    check(&["verify", "--data", text(&data)], 0, &["clean", "0 edges"], &[]);
    let server = starts(&data);
    let client = Client::new(&server.base);
    assert_eq!(counts(&client, "7"), [0, 0, 0]);
    assert_eq!(put(&client, "star", &json!({})), 201);
    assert_eq!(counts(&client, "star"), [0, 0, 0]);
    check(&["erase", "star", "--now", "--server", &server.base], 0, &["erased", "true"], &[]);
    drop(server);
    let files = std::fs::read_dir(&data).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{} holds the name", file.display());
    }
}

#[test]
fn a_person_is_erased_in_a_folder_that_no_server_has_open() {
    let folder = Folder::new();
    let data = folder.join("data");
    let server = starts(&data);
    let client = Client::new(&server.base);
    assert_eq!(put(&client, "star", &json!({})), 201);
    assert_eq!(client.ask("PUT", "/api/v1/users/star/following/1", "").expect("an answer").status, 201);
    check(&["erase", "star", "--data", text(&data)], 4, &[], &["running"]);
    drop(server);
    check(&["erase", "nobody", "--data", text(&data)], 3, &[], &["no user with this id"]);
    check(&["erase", "star", "--data", text(&data), "--now"], 0, &["erased", "true"], &[]);
    check(&["verify", "--data", text(&data)], 0, &["clean: 1 users, 0 edges"], &[]);
}
