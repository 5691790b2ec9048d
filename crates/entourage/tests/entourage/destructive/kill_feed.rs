//! The real binary killed in the middle of fan-outs to 50,000 followers: afterwards everybody has every post once.

use crate::server_kit;

use std::{fmt::Write as _, path::Path, time::Duration};

use crate::server_kit::{Client, Folder, Serving, check, text};
use serde_json::Value;

const FOLLOWERS: usize = 50_000;
const ROUNDS: usize = 8;
/// Readers who have an inbox while the fan-out runs.
const ACTIVE: usize = 200;

fn serve(data: &Path) -> Serving {
    Serving::start_as(&mut server_kit::command(&["serve", "--http", "127.0.0.1:0", "--data", text(data)]))
}

fn feed(client: &Client, reader: usize) -> Vec<String> {
    let heard = client.get(&format!("/api/v1/users/{reader}/feed?limit=200"));
    assert_eq!(heard.status, 200, "{:?}", heard.body);
    assert_eq!(heard.body["partial"], Value::Bool(false));
    let rows = heard.body["data"].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn readers() -> impl Iterator<Item = usize> {
    (1..=FOLLOWERS).step_by(FOLLOWERS / ACTIVE)
}

#[test]
fn every_follower_has_every_post_once_though_the_server_is_killed() {
    let folder = Folder::new();
    let (data, file) = (folder.join("data"), folder.join("follows.csv"));
    let mut lines = String::from("follower,target\n");
    (1..=FOLLOWERS).for_each(|follower| writeln!(lines, "{follower},star").unwrap());
    std::fs::write(&file, lines).unwrap();
    check(&["import", text(&file), "--data", text(&data)], 0, &["50000 created"], &[]);
    let mut acked: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let mut server = serve(&data);
        let client = Client::new(&server.base);
        for reader in readers() {
            let seen = feed(&client, reader);
            assert!(acked.iter().rev().all(|post| seen.iter().filter(|id| *id == post).count() == 1), "{reader}");
        }
        let heard = client.ask_with(&[("Entourage-Actor", "star")], "POST", "/api/v1/posts", r#"{"body": {}}"#);
        let heard = heard.expect("an answer");
        assert_eq!(heard.status, 201, "{:?}", heard.body);
        acked.push(heard.body["id"].as_str().unwrap().to_owned());
        // From before the first chunk to behind the last one.
        std::thread::sleep(Duration::from_millis(round as u64 * 4));
        server.kill();
    }
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
    let server = serve(&data);
    let client = Client::new(&server.base);
    acked.reverse();
    for reader in readers().chain([2, 3, FOLLOWERS]) {
        assert_eq!(feed(&client, reader), acked, "reader {reader}");
    }
}
