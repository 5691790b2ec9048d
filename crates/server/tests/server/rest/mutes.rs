use std::sync::Arc;

use entourage_model::{ManualClock, Millis};
use entourage_server::Front;
use entourage_service::Rules;

use super::server::{Server, memory_store};

#[test]
fn mutes_are_set_listed_and_lifted() {
    let server = Server::start();
    for id in ["ann", "bob", "cleo"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check_all(&[
        (
            "@ann PUT /users/ann/mutes/bob",
            r#"201 {"muting": true, "actor_id": "ann", "target_id": "bob", "created_at": "*", "version": "*"}"#,
        ),
        ("@ann PUT /users/ann/mutes/bob", r#"200 {"muting": true}"#),
        ("PUT /users/ann/mutes/cleo", "201"),
        ("@bob PUT /users/ann/mutes/bob", "403 forbidden"),
        ("@ann PUT /users/ann/mutes/ann", "400 invalid_request"),
        ("@ann PUT /users/ann/mutes/nobody", "404 user_not_found"),
        ("PUT /users/nobody/mutes/ann", "404 actor_not_found"),
        ("@ann GET /users/ann/mutes?limit=1", r#"200 {"data": [{"id": "cleo"}], "has_more": true, "total": 2}"#),
        ("@bob GET /users/ann/mutes", "403 forbidden"),
        ("@bob POST /users/ann/follow", "201"),
        ("@ann POST /users/bob/follow", "201"),
        ("@ann DELETE /users/ann/mutes/bob", r#"200 {"muting": false, "changed": true}"#),
        ("@ann DELETE /users/ann/mutes/bob", r#"200 {"muting": false, "changed": false}"#),
        ("@ann GET /users/ann/mutes", r#"200 {"data": [{"id": "cleo"}], "total": 1}"#),
    ]);
}

#[test]
fn a_mute_ends_by_itself() {
    let clock = Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-11-15T12:00:00.000Z").unwrap()));
    let front = Front::development(Arc::clone(&clock) as _);
    let server = Server::at(Arc::clone(&clock) as _, front, memory_store(1), Rules::default());
    for name in ["a", "b"] {
        server.check(&format!("PUT /users/{name}"), "201");
    }
    for (body, pointer) in [
        (r#"{"expires_at": "2026-11-15T12:00:00.000Z"}"#, "/expires_at"),
        (r#"{"expires_at": "2025-01-01T00:00:00Z"}"#, "/expires_at"),
        (r#"{"expires_at": "tomorrow"}"#, "/expires_at"),
        (r#"{"until": null}"#, "/until"),
    ] {
        server.check(&format!("@a PUT /users/a/mutes/b {body}"), &format!("400 invalid_request {pointer}"));
    }
    let mute = r#"@a ^idempotency-key=k PUT /users/a/mutes/b {"expires_at": "2026-11-15T12:00:00.001Z"}"#;
    server.check(mute, r#"201 {"expires_at": "2026-11-15T12:00:01.000Z"}"#);
    server.check("@a GET /users/a/mutes", r#"200 {"data": [{"id": "b", "expires_at": "2026-11-15T12:00:01.000Z"}]}"#);
    clock.advance(999);
    server.work_now();
    server.check("@a GET /users/a/relationships?id=b", r#"200 {"data": [{"muting": true}]}"#);
    clock.advance(1);
    server.check("@a GET /users/a/mutes", r#"200 {"data": [], "total": 1}"#);
    server.check("@a GET /users/a/relationships?id=b", r#"200 {"data": [{"muting": false}]}"#);
    assert_eq!(server.check(mute, "201").header("idempotent-replayed"), "true");
    server.work_now();
    server.check("@a GET /users/a/mutes", r#"200 {"data": [], "total": 0}"#);
    let next = r#"PUT /users/a/mutes/b {"expires_at": "2026-11-15T13:00:00Z"}"#;
    server.check(&format!("@a {next}"), "201");
    server.check("@a PUT /users/a/mutes/b", r#"200 {"expires_at": null}"#);
    clock.advance(7_200_000);
    server.work_now();
    server.check("@a GET /users/a/mutes", r#"200 {"data": [{"id": "b"}], "total": 1}"#);
}
