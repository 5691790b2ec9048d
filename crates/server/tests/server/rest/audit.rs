//! The audit log as an operator reads it.

use std::{collections::BTreeMap, sync::Arc};

use entourage_server::{Audit, Front};
use entourage_service::Rules;
use entourage_store::SystemClock;
use serde_json::Value;

use super::{
    credentials::Credentials,
    matrix::{MATRIX, NAMES},
    server::{Server, memory_store},
};

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn seen_before_last(path: &std::path::Path) -> usize {
    lines(path).len() - 2
}

#[test]
fn blocks_admins_and_strangers_are_written_before_they_are_answered() {
    let credentials = Credentials::new();
    let path = credentials.path("audit.log");
    let front = credentials.front_with(Audit::open(Some(&path)).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let (web, boss, alice) = (&credentials.service_key, &credentials.admin_key, credentials.token("alice"));
    let mut seen = 0;
    let mut last = |request: &str, status: u16| {
        assert_eq!(server.ask(request).status, status, "{request}");
        let lines = lines(&path);
        let fresh = lines.len() - seen;
        seen = lines.len();
        (fresh, lines.last().cloned().unwrap_or_default())
    };
    for user in ["alice", "bob"] {
        assert_eq!(last(&format!("!{web} PUT /users/{user}"), 201).0, 0);
    }
    assert_eq!(last(&format!("!{alice} POST /users/bob/follow"), 201).0, 0);
    let (fresh, line) = last(&format!("!{alice} ^x-request-id=r-1 PUT /users/alice/blocks/bob"), 201);
    assert_eq!(fresh, 1);
    for (name, value) in [
        ("time", "2026-11-15T12:00:00.000Z"),
        ("action", "block"),
        ("actor", "alice"),
        ("credential", "user"),
        ("method", "PUT"),
        ("target", "/api/v1/users/alice/blocks/bob"),
        ("result", "201"),
        ("request_id", "r-1"),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert!(line["source"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    let (fresh, line) = last(&format!("!{alice} PUT /users/bob/blocks/alice"), 403);
    assert_eq!((fresh, line["result"].as_str()), (1, Some("forbidden")));
    let (fresh, line) = last(&format!("!{web} DELETE /users/alice/blocks/bob"), 200);
    assert_eq!((fresh, line["action"].as_str(), line["key"].as_str()), (1, Some("unblock"), Some("web")));
    assert_eq!(line["actor"], Value::Null);
    let (fresh, line) = last(&format!(r#"!{boss} POST /admin/backup {{"to": "/tmp/x"}}"#), 400);
    assert_eq!((fresh, line["action"].as_str(), line["result"].as_str()), (2, Some("admin"), Some("invalid_request")));
    let before = &lines(&path)[seen_before_last(&path)];
    assert_eq!((before["result"].as_str(), &before["request_id"]), (Some("begun"), &line["request_id"]));
    let (fresh, line) = last(&format!("!{boss} GET /admin/jobs"), 200);
    assert_eq!((fresh, line["result"].as_str()), (1, Some("200")), "what is only looked at is written once");
    let (fresh, line) = last(&format!("!{web} PUT /admin/users/bob/suspend"), 403);
    assert_eq!((fresh, line["result"].as_str()), (1, Some("forbidden")));
    let (fresh, line) = last(&format!("!{alice}x GET /users/bob?ticket=hush"), 401);
    assert_eq!(
        (fresh, line["action"].as_str(), line["result"].as_str()),
        (1, Some("authenticate"), Some("unauthenticated"))
    );
    let (fresh, line) = last(&format!("!{alice} @bob GET /users/bob"), 403);
    assert_eq!((fresh, line["action"].as_str(), line["result"].as_str()), (1, Some("authenticate"), Some("forbidden")));
    let text = std::fs::read_to_string(&path).unwrap();
    for secret in [web.as_str(), boss, &alice, &alice[..40], "hush"] {
        assert!(!text.contains(secret), "a credential is in the audit log");
    }
}

/// The document says of each operation how it is audited, and each is asked for: the log says the same.
#[test]
fn every_operation_is_audited_as_the_document_says() {
    let credentials = Credentials::new();
    let path = credentials.path("audit.log");
    let front = credentials.front_with(Audit::open(Some(&path)).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let document = entourage_server::http::document();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let actions: BTreeMap<_, _> =
        operations.map(|each| (each["operationId"].as_str().unwrap(), each["x-audit"].as_str())).collect();
    assert_eq!(actions["block"], Some("block"));
    let mut seen = 0;
    for (id, request, _) in MATRIX {
        let request =
            NAMES.iter().fold(request.replace("{post}", "7"), |text, name| text.replace(&format!("{{{name}}}"), name));
        let request = format!("!{} {request}", credentials.admin_key);
        match request.ends_with("/stream") {
            true => drop(server.stream(&request.replace("GET ", "")).into_reply()),
            false => drop(server.ask(&request)),
        }
        let lines = lines(&path);
        let written: Vec<_> = lines[seen..].iter().map(|line| line["action"].as_str().unwrap()).collect();
        seen = lines.len();
        assert!(written.iter().all(|action| Some(*action) == actions[id]), "{id}: {written:?}");
        assert_eq!(written.is_empty(), actions[id].is_none(), "{id}");
    }
}

/// A disk that is full: admins do nothing that would leave no trace, everybody else goes on, and it is counted.
#[test]
fn what_cannot_be_written_down_admins_cannot_do() {
    let credentials = Credentials::new();
    let front = credentials.front_with(Audit::open(Some("/dev/full".as_ref())).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let (web, boss) = (&credentials.service_key, &credentials.admin_key);
    let unwritten = || {
        let metrics = server.ask("GET //metrics").text;
        let line = metrics.lines().find_map(|line| line.strip_prefix("entourage_audit_unwritten_total "));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    for user in ["alice", "bob", "carol"] {
        server.check(&format!("!{web} PUT /users/{user}"), "201");
    }
    let before = unwritten();
    server.check(&format!("!{web} PUT /users/alice/blocks/bob"), "201");
    assert!(unwritten() > before, "a block that left no trace is counted");
    let refused = server.check(&format!("!{boss} PUT /admin/users/bob/suspend"), "503 unavailable");
    assert!(refused.text.contains("audit log"), "{}", refused.text);
    server.check(&format!("!{web} PUT /users/bob/following/carol"), "201");
    server.check(&format!("!{boss} GET /admin/jobs"), "503 unavailable");
    server.check("!guess GET /users/bob", "401 unauthenticated");
}

/// What a client sends stays within its field: no line, no field and no escape of its own.
#[test]
fn nothing_a_client_sends_makes_a_line() {
    let folder = Credentials::new();
    let path = folder.path("audit.log");
    let front = Front { audit: Audit::open(Some(&path)).unwrap(), ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let evil = "a%0A%7B%22action%22:%22admin%22%7D%1b[2J";
    for request in [
        format!("PUT /users/{evil}/blocks/b"),
        format!("PUT /users/a/blocks/%22,%22result%22:%22201{evil}"),
        r#"@x","result":"201 PUT /users/a/blocks/b"#.to_owned(),
    ] {
        server.ask(&request);
    }
    let lines = lines(&path);
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(line["action"], "block", "{line}");
        assert_ne!(line["result"], "201", "{line}");
        assert!(!line.to_string().contains('\u{1b}'));
    }
    assert_eq!(lines[2]["actor"], r#"x","result":"201"#);
}

/// Somebody who guesses fills no disk: an address is written so often, and what is left out is counted.
#[test]
fn an_address_that_guesses_is_written_down_so_often_and_no_more() {
    let credentials = Credentials::new();
    let path = credentials.path("audit.log");
    let front = credentials.front_with(Audit::open(Some(&path)).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let left_out = |server: &Server| {
        let metrics = server.ask("GET //metrics").text;
        let line = metrics.lines().find_map(|line| line.strip_prefix("entourage_audit_left_out_total "));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    for number in 0..300 {
        server.check(&format!("!guess-{number} GET /users/alice"), "401 unauthenticated");
    }
    let written = lines(&path).len();
    // Twenty at once; a slow machine gets one more every ten seconds.
    assert!((20..30).contains(&written), "{written}");
    assert!(left_out(&server) >= 300 - written, "{} left out", left_out(&server));
    // What is let in is written as before.
    server.check(&format!("!{} PUT /users/alice", credentials.service_key), "201");
    server.check(&format!("!{} PUT /users/bob", credentials.service_key), "201");
    server.check(&format!("!{} PUT /users/alice/blocks/bob", credentials.service_key), "201");
    assert_eq!(lines(&path).last().unwrap()["action"], "block");
}
