//! Whole lists as NDJSON: everything once, and no more memory than a client takes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::server::Server;

const ROWS: usize = 2_500;

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

#[test]
fn clients_that_never_read_are_dropped_and_cost_no_memory() {
    let server = star(ROWS);
    let whole = server.ask("^accept=application/x-ndjson GET /users/star/followers").text.len();
    let before = resident_bytes();
    let request = format!(
        "GET /api/v1/users/star/followers HTTP/1.1\r\nHost: {}\r\nAccept: application/x-ndjson\r\n\r\n",
        server.address
    );
    // Each asks for its list ten times over and reads nothing of it.
    let mut clients: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut client = TcpStream::connect(server.address).unwrap();
            client.write_all(request.repeat(10).as_bytes()).unwrap();
            client
        })
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < whole * 20 * 10 / 4, "{grown} bytes more for lists of {whole} bytes");
    let started = Instant::now();
    server.check("GET /users/star", "200");
    assert!(started.elapsed() < Duration::from_secs(1), "others are served");
    std::thread::sleep(Duration::from_secs(9));
    for client in &mut clients {
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut read = Vec::new();
        // Whether it ends with an error or without, it ends, and before all was sent.
        let _ = client.read_to_end(&mut read);
        assert!(read.len() < whole * 10, "the connection was kept");
    }
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1_024
}
