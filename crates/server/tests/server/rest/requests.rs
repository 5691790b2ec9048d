use super::server::Server;

fn private_account() -> Server {
    let server = Server::start();
    for id in ["ann", "bob", "cleo"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check(r#"PUT /users/shy {"private": true}"#, "201");
    for id in ["ann", "bob", "cleo"] {
        server.check(&format!("@{id} POST /users/shy/follow"), r#"202 {"state": "pending"}"#);
    }
    server
}

#[test]
fn requests_are_listed_accepted_rejected_and_cancelled() {
    let server = private_account();
    server.check_all(&[
        (
            "@shy GET /users/shy/follow-requests",
            r#"200 {"data": [{"id": "cleo"}, {"id": "bob"}, {"id": "ann"}], "total": 3, "has_more": false}"#,
        ),
        (
            "GET /users/shy/follow-requests?limit=2",
            r#"200 {"data": [{"id": "cleo"}, {"id": "bob"}], "has_more": true}"#,
        ),
        ("@ann GET /users/shy/follow-requests", "403 forbidden"),
        ("@ann POST /users/shy/follow-requests/ann/accept", "403 forbidden"),
        (
            "@shy POST /users/shy/follow-requests/ann/accept",
            r#"200 {"following": true, "state": "active", "follower_id": "ann", "followee_id": "shy"}"#,
        ),
        ("POST /users/shy/follow-requests/ann/accept", r#"200 {"state": "active"}"#),
        ("@shy POST /users/shy/follow-requests/ann/reject", "404 not_found"),
        ("@shy POST /users/shy/follow-requests/bob/reject", r#"200 {"following": false, "changed": true}"#),
        ("@shy POST /users/shy/follow-requests/bob/reject", "404 not_found"),
        ("@shy POST /users/shy/follow-requests/bob/accept", "404 not_found"),
        ("@cleo DELETE /users/shy/follow", r#"200 {"changed": true}"#),
        ("@shy POST /users/shy/follow-requests/cleo/accept", "404 not_found"),
        ("@shy POST /users/shy/follow-requests/nobody/accept", "404 not_found"),
        ("POST /users/nobody/follow-requests/ann/accept", "404 actor_not_found"),
        (r#"@shy POST /users/shy/follow-requests/ann/accept {"x": 1}"#, "400 invalid_request /x"),
        ("@shy GET /users/shy/follow-requests", r#"200 {"data": [], "total": 0}"#),
        ("GET /users/shy/followers", r#"200 {"data": [{"id": "ann"}], "total": 1}"#),
        ("@shy GET /users/shy", r#"200 {"counts": {"followers": 1, "requests": 0}}"#),
    ]);
}

#[test]
fn an_accepted_follow_takes_its_place_when_it_is_accepted() {
    let server = private_account();
    for id in ["bob", "cleo", "ann"] {
        server.check(&format!("@shy POST /users/shy/follow-requests/{id}/accept"), "200");
    }
    server.check(
        "@shy GET /users/shy/followers",
        r#"200 {"data": [{"id": "ann"}, {"id": "cleo"}, {"id": "bob"}], "total": 3}"#,
    );
}

#[test]
fn followers_and_requests_can_be_taken_away() {
    let server = private_account();
    server.check_all(&[
        ("@shy POST /users/shy/follow-requests/ann/accept", "200"),
        ("@ann DELETE /users/shy/followers/ann", "403 forbidden"),
        ("@shy DELETE /users/shy/followers/ann", r#"200 {"following": false, "changed": true}"#),
        ("@shy DELETE /users/shy/followers/ann", r#"200 {"following": false, "changed": false}"#),
        ("@shy DELETE /users/shy/followers/bob", r#"200 {"changed": true}"#),
        ("@shy DELETE /users/shy/followers/nobody", r#"200 {"changed": false}"#),
        ("@shy GET /users/shy/follow-requests", r#"200 {"data": [{"id": "cleo"}]}"#),
        ("GET /users/shy/followers", r#"200 {"total": 0}"#),
        ("@ann POST /users/shy/follow", "202"),
    ]);
}

#[test]
fn answers_to_requests_are_replayed() {
    let server = private_account();
    let accept = "^idempotency-key=k @shy POST /users/shy/follow-requests/ann/accept";
    let first = server.check(accept, "200");
    server.check("@ann DELETE /users/shy/follow", r#"200 {"changed": true}"#);
    let again = server.check(accept, "200");
    assert_eq!((first.text, again.header("idempotent-replayed")), (again.text.clone(), "true"));
    server.check("GET /users/ann/is-following/shy", r#"200 {"following": false}"#);
}
