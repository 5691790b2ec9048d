//! Whole lists as NDJSON: everything once.

use serde_json::{Value, json};

use super::server::Server;

fn star(rows: usize) -> Server {
    let server = Server::start();
    server.check("PUT /users/star", "201");
    for start in (0..rows).step_by(1_000) {
        for number in start..rows.min(start + 1_000) {
            server.check(&format!(r#"PUT /users/{number} {{"name": "{}"}}"#, "n".repeat(400)), "201");
        }
        let operations: Vec<Value> = (start..rows.min(start + 1_000))
            .map(|number| json!({ "op": "follow", "follower": number.to_string(), "target": "star" }))
            .collect();
        server.check(&format!("POST /follows:batch {}", json!({ "operations": operations })), "200");
    }
    server
}

#[test]
fn a_service_streams_a_whole_list() {
    let server = star(2_300);
    let reply = server.ask("^accept=application/x-ndjson GET /users/star/followers");
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"));
    let rows: Vec<Value> = reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<usize> = rows.iter().map(|row| row["id"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(ids, (0..2_300).rev().collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["created_at"].is_string() && row["name"].is_string()));
    let following = server.ask("^accept=text/html,application/x-ndjson;q=0.9 GET /users/7/following");
    assert_eq!(following.text.lines().count(), 1);
    let empty = server.ask("^accept=application/x-ndjson GET /users/star/following");
    assert_eq!((empty.status, empty.text.as_str()), (200, ""));
    server.check_all(&[
        ("^accept=application/x-ndjson @star GET /users/star/followers", "403 forbidden"),
        ("^accept=application/x-ndjson GET /users/nobody/followers", "404 user_not_found"),
        ("^accept=application/x-ndjson GET /users/star/followers?limit=5", "400 invalid_request"),
        ("^accept=application/json GET /users/star/followers", r#"200 {"total": 2300}"#),
    ]);
}
