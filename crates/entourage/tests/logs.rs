//! What the server logs of requests, and what it does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod server_kit;

use serde_json::Value;
use server_kit::{Client, Folder, Serving, command, text};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn start(folder: &Folder, name: &str, value: &str) -> Serving {
    let data = folder.join("data");
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    Serving::start_as(command.env(name, value))
}

/// Stops the server and returns its lines about requests.
fn lines(mut serving: Serving) -> (Vec<Value>, String) {
    serving.signal("-TERM");
    let (code, said) = serving.wait();
    assert_eq!(code, Some(0), "{said}");
    let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    (lines.filter(|line| line["target"] == "entourage::access").collect(), said)
}

#[test]
fn each_request_is_a_line_without_what_could_be_secret() {
    let folder = Folder::new();
    let serving = start(&folder, "ENTOURAGE_LOG__FORMAT", "auto");
    let client = Client::new(&serving.base);
    assert_eq!(client.put_user("somebody", "Their Name").unwrap().status, 201);
    let request = ureq::get(format!("{}/api/v1/users/somebody/followers?cursor=hidden", serving.base))
        .header("traceparent", TRACE)
        .header("x-request-id", "my-own-id");
    assert!(request.call().is_err());
    let (lines, said) = lines(serving);
    let [put, get] = lines.as_slice() else { panic!("{said}") };
    let shown = |line: &Value| ["method", "route", "status", "level"].map(|name| line[name].clone());
    assert_eq!(shown(put), ["PUT".into(), "/api/v1/users/{id}".into(), Value::from(201), "INFO".into()]);
    assert_eq!(shown(get), ["GET".into(), "/api/v1/users/{id}/followers".into(), Value::from(400), "INFO".into()]);
    assert!(put["ms"].as_f64().unwrap() > 0.0 && put["request_id"].as_str().unwrap().len() == 32, "{put}");
    assert!(put.get("trace_id").is_none(), "{put}");
    assert_eq!(get["request_id"], "my-own-id");
    assert_eq!(get["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(get["parent_id"], "00f067aa0ba902b7");
    for secret in ["somebody", "Their Name", "hidden"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_level_or_a_setting_leaves_the_lines_out() {
    for (name, value) in [("ENTOURAGE_LOG__ACCESS", "false"), ("ENTOURAGE_LOG__LEVEL", "warn")] {
        let folder = Folder::new();
        let serving = start(&folder, name, value);
        assert_eq!(Client::new(&serving.base).get("/healthz").status, 200);
        let (lines, said) = lines(serving);
        assert!(lines.is_empty(), "{said}");
        assert_eq!(said.contains("\"stopped\""), value == "false", "{said}");
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let folder = Folder::new();
    let serving = start(&folder, "ENTOURAGE_LOG__LEVEL", "info");
    let client = Client::new(&serving.base);
    // Several times what a pipe holds.
    for _ in 0..3_000 {
        assert_eq!(client.get("/healthz").status, 200);
    }
}
