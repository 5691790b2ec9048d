//! `bench` as a person runs it: every workload asks what it says, on schedule, and answers are counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod import_kit;
mod server_kit;

use std::{fmt::Write as _, fs};

use import_kit::{import, report};
use serde_json::Value;
use server_kit::{Folder, Serving, run, text};

const USERS: u32 = 300;

fn serving(folder: &Folder) -> Serving {
    let mut edges = String::from("follower,target\n");
    for follower in 0..USERS {
        for step in 1..=10 {
            writeln!(edges, "{follower},{}", (follower + step * 7) % USERS).unwrap();
        }
    }
    let file = folder.join("edges.csv");
    fs::write(&file, edges).unwrap();
    let data = folder.join("data");
    import(&data, &[text(&file)], 0);
    Serving::start(&data)
}

fn bench(server: &Serving, arguments: &[&str]) -> Value {
    let users = USERS.to_string();
    let common = ["bench", "--json", "--server", &server.base, "--users", &users, "--warm-up", "0", "--seconds", "1"];
    report(&run(&[&common, arguments].concat()), 0)
}

#[test]
fn every_workload_asks_what_it_says_and_keeps_its_schedule() {
    let folder = Folder::new();
    let server = serving(&folder);
    let pid = server.id().to_string();
    let cases: [(&str, &[&str]); 5] = [
        ("checks", &["check"]),
        ("pages", &["followers", "following"]),
        ("storm", &["follow"]),
        ("follows", &["follow"]),
        ("mixed", &["check", "follow", "unfollow", "followers", "following", "counts"]),
    ];
    for (workload, operations) in cases {
        let found = bench(&server, &["--workload", workload, "--rate", "400", "--connections", "4", "--pid", &pid]);
        let names: Vec<_> = found["operations"].as_array().unwrap().iter().map(|line| line["name"].clone()).collect();
        assert_eq!(names, operations, "{found}");
        assert_eq!(found["total"]["count"], 400, "{found}");
        let refused = found["total"]["errors"].as_object().unwrap();
        // An edge may be taken back and forth in a mix.
        assert!(refused.keys().all(|status| status == "429"), "{found}");
        assert!(found["total"]["p99"].as_f64() >= found["total"]["p50"].as_f64(), "{found}");
        assert!(found["server"]["processor"].is_f64() && found["server"]["p99_within"].is_f64(), "{found}");
    }
}

#[test]
fn without_a_schedule_it_goes_as_fast_as_answers_come() {
    let folder = Folder::new();
    let server = serving(&folder);
    let found = bench(&server, &["--rate", "0", "--connections", "2", "--pipeline", "4", "--prepare", "50"]);
    assert!(found["scheduled"].is_null() && found["total"]["count"].as_u64() > Some(500), "{found}");
    let said = String::from_utf8(run(&["bench", "--server", &server.base, "--seconds", "1"]).stdout).unwrap();
    assert!(said.contains("checks over REST") && said.contains("P99") && said.contains("answers a second"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let refused = |arguments: &[&str], code| {
        let output = run(&[&["bench"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    };
    refused(&["--server", "http://127.0.0.1:1"], 4);
    refused(&["--command", "PING"], 2);
    refused(&["--server", "https://127.0.0.1"], 1);
    refused(&["--negative", "101"], 1);
    refused(&["--ids", "/nowhere"], 1);
}
