use super::server::Server;

fn with_users(ids: &[&str]) -> Server {
    let server = Server::start();
    for id in ids {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server
}

#[test]
fn the_same_key_and_body_replays_status_and_body() {
    let server = with_users(&["a", "b", "c"]);
    for (request, undo, status) in [
        ("@a ^idempotency-key=k1 POST /users/b/follow", "@a DELETE /users/b/follow", 201),
        ("^idempotency-key=k1 PUT /users/a/following/c", "DELETE /users/a/following/c", 201),
        ("^idempotency-key=k1 PUT /users/a/blocks/c", "DELETE /users/a/blocks/c", 201),
        (r#"^idempotency-key=k1 PUT /users/d {"name": "D"}"#, r#"PUT /users/d {"name": "E"}"#, 201),
        (r#"^idempotency-key=k2 PATCH /users/d {"name": "D"}"#, r#"PUT /users/d {"name": "E"}"#, 200),
    ] {
        let first = server.check(request, &status.to_string());
        assert_eq!(first.header("idempotent-replayed"), "", "{request}");
        server.check(undo, "200");
        let again = server.check(request, &status.to_string());
        assert_eq!(again.header("idempotent-replayed"), "true", "{request}");
        assert_eq!(again.text, first.text);
    }
    // The retries came after the undoing, and undid nothing of it.
    server.check_all(&[
        ("GET /users/a/is-following/b", r#"200 {"following": false}"#),
        ("GET /users/a/blocks", r#"200 {"total": 0}"#),
        ("GET /users/d", r#"200 {"name": "E"}"#),
    ]);
}

#[test]
fn another_body_is_refused_and_another_scope_is_another_key() {
    let server = with_users(&["a", "b", "c"]);
    server.check_all(&[
        ("@a ^idempotency-key=k POST /users/b/follow", "201"),
        (r#"@a ^idempotency-key=k POST /users/b/follow {"quiet": true}"#, "422 idempotency_mismatch"),
        ("@c ^idempotency-key=k POST /users/b/follow", "201"),
        ("@a ^idempotency-key=k POST /users/c/follow", "201"),
        ("@a ^idempotency-key=k DELETE /users/b/follow", r#"200 {"changed": true}"#),
    ]);
    let replay = server.check("@a ^idempotency-key=k DELETE /users/b/follow", r#"200 {"changed": true}"#);
    assert_eq!(replay.header("idempotent-replayed"), "true");
}

#[test]
fn refusals_are_not_recorded_and_keys_are_checked() {
    let server = with_users(&["a"]);
    server.check("@a ^idempotency-key=k POST /users/b/follow", "404 user_not_found");
    server.check("PUT /users/b", "201");
    let now = server.check("@a ^idempotency-key=k POST /users/b/follow", "201");
    assert_eq!(now.header("idempotent-replayed"), "");
    let longest = "k".repeat(255);
    server.check(&format!("@a ^idempotency-key={longest} POST /users/b/follow"), "200");
    server.check(&format!("@a ^idempotency-key={longest}k POST /users/b/follow"), "400 invalid_request");
    server.check("@a ^idempotency-key= POST /users/b/follow", "400 invalid_request");
    server.check(&format!("^idempotency-key={longest}k GET /users/b"), "200");
}
