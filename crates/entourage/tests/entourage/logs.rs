//! What the server logs of requests, and what it does not.

use crate::server_kit::{Client, Folder, Serving, command, text};
use serde_json::Value;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn start(folder: &Folder, name: &str, value: &str) -> Serving {
    let mut serving = start_unread(folder, name, value);
    serving.read_errors();
    serving
}

fn start_unread(folder: &Folder, name: &str, value: &str) -> Serving {
    let data = folder.join("data");
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    Serving::start_unread(command.env(name, value))
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
    let serving = start(&folder, "ENTOURAGE_LOGGING__FORMAT", "auto");
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
    for (name, value) in [("ENTOURAGE_LOGGING__ACCESS", "false"), ("ENTOURAGE_LOGGING__LEVEL", "warn")] {
        let folder = Folder::new();
        let serving = start(&folder, name, value);
        assert_eq!(Client::new(&serving.base).get("/healthz").status, 200);
        let (lines, said) = lines(serving);
        assert!(lines.is_empty(), "{said}");
        assert_eq!(said.contains("\"stopped\""), value == "false", "{said}");
    }
}

fn records(said: &str) -> Vec<Value> {
    let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "audit").map(|line| line["record"].clone()).collect()
}

fn results(said: &str, action: &str) -> Vec<String> {
    let records = records(said);
    let of_action = records.iter().filter(|record| record["action"] == action);
    of_action.map(|record| record["result"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_level_leaves_an_audit_record_out() {
    for (name, value) in
        [("ENTOURAGE_LOGGING__LEVEL", "off"), ("RUST_LOG", "off"), ("ENTOURAGE_LOGGING__FORMAT", "text")]
    {
        let folder = Folder::new();
        let serving = start(&folder, name, value);
        let client = Client::new(&serving.base);
        for user in ["a", "b"] {
            assert_eq!(client.put_user(user, user).unwrap().status, 201);
        }
        assert_eq!(client.ask("PUT", "/api/v1/users/a/blocks/b", "").unwrap().status, 201);
        assert_eq!(client.ask("PUT", "/api/v1/admin/users/a/suspend", "").unwrap().status, 200);
        let (_, said) = lines(serving);
        assert_eq!(
            (results(&said, "block"), results(&said, "admin")),
            (vec!["201".to_owned()], ["begun", "200"].map(str::to_owned).to_vec()),
            "{said}"
        );
    }
}

/// Whoever reads the log stalls: an admin waits, a block goes on, and nothing is lost once somebody reads again.
#[test]
fn a_reader_that_stalls_loses_no_audit_record() {
    let folder = Folder::new();
    let mut serving = start_unread(&folder, "ENTOURAGE_LOGGING__LEVEL", "info");
    let client = Client::new(&serving.base);
    for user in ["a", "b"] {
        assert_eq!(client.put_user(user, user).unwrap().status, 201);
    }
    for _ in 0..3_000 {
        assert_eq!(client.get("/healthz").status, 200);
    }
    assert_eq!(client.ask("PUT", "/api/v1/users/a/blocks/b", "").unwrap().status, 201);
    assert_eq!(client.ask("DELETE", "/api/v1/users/a/blocks/b", "").unwrap().status, 200);
    let refused = client.ask("PUT", "/api/v1/admin/users/a/suspend", "").unwrap();
    assert_eq!((refused.status, refused.code()), (503, "unavailable"), "{}", refused.body);
    let followed = client.ask("PUT", "/api/v1/users/a/following/b", "").unwrap();
    assert_eq!(followed.status, 201, "nobody was suspended: {}", followed.body);
    let metrics = client.text("/metrics");
    let unwritten = metrics.lines().find_map(|line| line.strip_prefix("entourage_audit_unwritten_total "));
    assert!(unwritten.is_some_and(|count| count.parse::<u64>().unwrap() >= 2), "{unwritten:?}");
    serving.read_errors();
    let began = std::time::Instant::now();
    while client.ask("PUT", "/api/v1/admin/users/a/suspend", "").unwrap().status != 200 {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "nobody noticed that the log is read again");
    }
    serving.signal("-TERM");
    let (_, said) = serving.wait();
    assert_eq!((results(&said, "block"), results(&said, "unblock")), (vec!["201".to_owned()], vec!["200".to_owned()]));
    assert_eq!(results(&said, "admin").last().map(String::as_str), Some("200"));
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let folder = Folder::new();
    let serving = start_unread(&folder, "ENTOURAGE_LOGGING__LEVEL", "info");
    let client = Client::new(&serving.base);
    // Several times what a pipe holds.
    for _ in 0..3_000 {
        assert_eq!(client.get("/healthz").status, 200);
    }
}
