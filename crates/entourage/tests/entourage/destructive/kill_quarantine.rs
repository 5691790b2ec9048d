//! The real binary killed in the middle of a wave: what was parked is accepted or dropped, exactly once.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_store::{Store as _, SystemClock, disk::RealDisk};
use serde_json::Value;

use crate::server_kit::{Client, Folder, Serving, check, text};

const WAVE: i64 = 100_000;
const STAR: i64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(240);

/// A star, and a wave of fresh accounts whose follows are parked.
fn park(data: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Arc::new(RealDisk::new(data).unwrap());
        let store = embedded::Store::open(disk, text(data), embedded::Options::default(), Arc::new(SystemClock));
        let store = store.unwrap();
        let put = |key: i64| {
            let (key, id, patch) = (Key(key), UserId::from(key), UserPatch::default());
            Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
        };
        let follow = |key: i64| {
            let (follower, target) = (Key(key), Key(STAR));
            Write::from(Operation::Follow { follower, target, quiet: None, cap: None, park: true })
        };
        store.commit_all(vec![put(STAR)]).await.pop().unwrap().unwrap();
        for first in (0..WAVE).step_by(10_000) {
            let writes = (first..first + 10_000).flat_map(|key| [put(key), follow(key)]).collect();
            for result in store.commit_all(writes).await {
                result.unwrap();
            }
        }
        store.close().await.unwrap();
    });
}

fn start(data: &Path) -> (Serving, Client) {
    let server = Serving::start(data);
    let client = Client::new(&server.base);
    (server, client)
}

fn number(client: &Client, path: &str, pointer: &str) -> u64 {
    client.get(path).body.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} {pointer}"))
}

#[test]
fn a_wave_of_100_000_is_accepted_or_dropped_though_the_server_is_killed() {
    let star = format!("/api/v1/users/{STAR}");
    let parked = format!("/api/v1/admin/users/{STAR}/parked");
    for verb in ["accept", "drop"] {
        let folder = Folder::new();
        let data = folder.join("data");
        park(&data);
        let (mut server, client) = start(&data);
        assert_eq!(number(&client, &parked, "/total"), WAVE as u64);
        assert_eq!(number(&client, &star, "/counts/followers"), 0);
        let asked = client.ask("POST", &format!("{parked}:{verb}"), "").expect("an answer");
        assert_eq!(asked.status, 202, "{asked:?}");
        server.kill();
        let (began, mut kills, mut before) = (Instant::now(), 0, 0);
        loop {
            assert!(began.elapsed() < PATIENCE, "the wave does not come to its end");
            let (mut server, client) = start(&data);
            std::thread::sleep(Duration::from_millis(20 + 50 * kills));
            let jobs = client.get("/api/v1/admin/jobs").body["data"].as_array().unwrap().clone();
            server.kill();
            let [job] = &jobs[..] else { panic!("one job, not {jobs:?}") };
            let edges = job["edges"].as_u64().unwrap();
            assert!((before..=WAVE as u64).contains(&edges), "{edges} edges after {before}: {job}");
            before = edges;
            if job["state"] == "done" {
                assert_eq!(edges, WAVE as u64, "{job}");
                break;
            }
            assert_eq!(job["state"], "running", "{job}");
            kills += 1;
        }
        println!("{verb}: {kills} times killed in the middle");
        assert!(kills > 0, "it was never killed in the middle");
        check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
        let (_server, client) = start(&data);
        let followers = if verb == "accept" { WAVE as u64 } else { 0 };
        assert_eq!(number(&client, &star, "/counts/followers"), followers);
        assert_eq!(number(&client, &parked, "/total"), 0);
        let following = client.get(&format!("/api/v1/users/7/is-following/{STAR}")).body["following"].clone();
        assert_eq!(following, verb == "accept");
        // The order of the list is that in which they followed.
        let newest = client.get(&format!("{star}/followers?limit=1")).body["data"][0]["id"].clone();
        let last = (WAVE - 1).to_string();
        assert!(verb == "drop" || newest.as_str() == Some(last.as_str()), "{newest}");
    }
}

/// What a task did last, and when it runs next, is there after a kill; a task that was asked for still runs.
#[test]
fn the_schedule_survives_a_kill() {
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut server, client) = start(&data);
    let asked = client.ask("POST", "/api/v1/admin/jobs/count_audit/run", "").expect("an answer");
    assert_eq!(asked.status, 202, "{asked:?}");
    let audit = |client: &Client| {
        let tasks = client.get("/api/v1/admin/jobs").body["scheduled"].as_array().unwrap().clone();
        tasks.into_iter().find(|task| task["task"] == "count_audit").unwrap()
    };
    let began = Instant::now();
    let done = loop {
        let task = audit(&client);
        if task["result"] == "done" {
            break task;
        }
        assert!(began.elapsed() < PATIENCE, "{task}");
        std::thread::sleep(Duration::from_millis(50));
    };
    server.kill();
    let (mut server, client) = start(&data);
    let after = audit(&client);
    for field in ["last_started_at", "last_finished_at", "result", "detail", "next_at"] {
        assert_eq!(after[field], done[field], "{field}");
    }
    assert_eq!(client.ask("POST", "/api/v1/admin/jobs/retention/run", "").expect("an answer").status, 202);
    server.kill();
    let (server, client) = start(&data);
    let began = Instant::now();
    loop {
        let tasks = client.get("/api/v1/admin/jobs").body["scheduled"].as_array().unwrap().clone();
        if tasks.iter().any(|task| task["task"] == "retention" && task["result"] == "done") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{tasks:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.ask("POST", "/api/v1/admin/jobs/nothing/run", "").expect("an answer").status, 404);
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}
