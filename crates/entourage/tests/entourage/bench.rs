//! `bench` as a person runs it: every workload asks what it says, on schedule, and answers are counted.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::Duration,
};

use crate::import_kit::{import, report};
use crate::server_kit::{Folder, Serving, run, text};
use serde_json::Value;

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

const WORKLOADS: [(&str, &[&str]); 6] = [
    ("checks", &["check"]),
    ("pages", &["followers", "following"]),
    ("storm", &["follow"]),
    ("follows", &["follow"]),
    ("mixed", &["check", "follow", "unfollow", "followers", "following", "counts"]),
    ("feeds", &["feed"]),
];

/// For a second, without a warm-up.
fn briefly<'a>(place: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "--users", "300", "--warm-up", "0", "--seconds", "1"], place, arguments].concat()
}

fn bench(place: &[&str], arguments: &[&str]) -> Value {
    report(&run(&briefly(place, &[&["--json"], arguments].concat())), 0)
}

fn check_workloads(place: &[&str], too_often: &str, pid: u32) {
    let pid = pid.to_string();
    for (workload, operations) in WORKLOADS {
        let found = bench(place, &["--workload", workload, "--rate", "400", "--connections", "4", "--pid", &pid]);
        let names: Vec<_> = found["operations"].as_array().unwrap().iter().map(|line| line["name"].clone()).collect();
        assert_eq!(names, operations, "{found}");
        assert_eq!(found["total"]["count"], 400, "{found}");
        let refused = found["total"]["errors"].as_object().unwrap();
        // An edge may be taken back and forth in a mix.
        assert!(refused.keys().all(|error| error == too_often), "{found}");
        assert!(found["total"]["p99"].as_f64() >= found["total"]["p50"].as_f64(), "{found}");
        assert!(found["server"]["processor"].is_f64() && found["server"]["p99_within"].is_f64(), "{found}");
    }
}

#[test]
fn every_workload_asks_what_it_says_and_keeps_its_schedule() {
    let folder = Folder::new();
    let server = serving(&folder);
    check_workloads(&["--server", &server.base], "429", server.id());
}

#[test]
fn every_workload_over_resp_asks_what_it_says_and_keeps_its_schedule() {
    let folder = Folder::new();
    let server = serving(&folder);
    let place = ["--resp", &server.resp];
    check_workloads(&["--resp", &server.resp, "--metrics", &server.base], "RATELIMITED", server.id());
    for (workload, operations) in WORKLOADS {
        let said = run(&briefly(&place, &["--workload", workload, "--rate", "200", "--connections", "2"]));
        let table = String::from_utf8(said.stdout).unwrap();
        assert!(table.contains(&format!("{workload} over RESP")) && table.contains("P99"), "{table}");
        assert!(operations.iter().all(|name| table.lines().any(|line| line.trim().starts_with(name))), "{table}");
        assert!(!table.contains("by its own measures"), "nobody said where they are\n{table}");
    }
    let found = bench(&place, &["--command", "SMISMEMBER following:{user} {targets:5}", "--rate", "100"]);
    assert_eq!(
        (&found["total"]["count"], &found["operations"][0]["name"]),
        (&100.into(), &"command".into()),
        "{found}"
    );
    assert_eq!((&found["protocol"], &found["server"]["p99_within"]), (&"RESP".into(), &Value::Null), "{found}");
}

/// Answers every `PING` of one connection with 0, and once, after so many, says nothing for a while.
fn stalling(after: usize, pause: Duration) -> String {
    const COMMAND: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut unanswered, mut answered, mut stalled) = (0, 0, false);
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            unanswered += count;
            let commands = unanswered / COMMAND.len();
            unanswered %= COMMAND.len();
            answered += commands;
            if answered >= after && !stalled {
                stalled = true;
                thread::sleep(pause);
            }
            stream.write_all(&b":0\r\n".repeat(commands)).unwrap();
        }
    });
    address
}

/// A client that waits for its answer before it sends the next request would see one slow answer in a thousand.
#[test]
fn a_server_that_stalls_is_charged_with_all_that_was_due_meanwhile() {
    let address = stalling(300, Duration::from_millis(300));
    let arguments = ["--command", "PING", "--rate", "1000", "--connections", "1", "--pipeline", "400"];
    let found = bench(&["--resp", &address], &arguments);
    let total = &found["total"];
    let at = |name: &str| total[name].as_f64().unwrap() / 1e3;
    assert_eq!(total["count"], 1_000, "{found}");
    // 300 of the 1,000 were due while nothing was said: a hundred of them 200 ms before its end, ten 290 ms.
    assert!(at("max") >= 299.0 && at("p99") >= 280.0 && at("p90") >= 190.0, "{found}");
    assert!(at("p50") < 190.0, "most were not due then: {found}");
}

#[test]
fn without_a_schedule_it_goes_as_fast_as_answers_come() {
    let folder = Folder::new();
    let server = serving(&folder);
    let place = ["--server", &server.base];
    let found = bench(&place, &["--rate", "0", "--connections", "2", "--pipeline", "4", "--prepare", "50"]);
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
    refused(&["--server", "https://127.0.0.1:1"], 4);
    refused(&["--server", "ftp://127.0.0.1"], 2);
    refused(&["--server", "127.0.0.1:7070"], 2);
    refused(&["--negative", "101"], 1);
    refused(&["--ids", "/nowhere"], 1);
}
