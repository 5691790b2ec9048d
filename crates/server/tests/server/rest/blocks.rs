use super::server::Server;

#[test]
fn a_block_takes_edges_away_and_keeps_new_ones_out() {
    let server = Server::start();
    server.check_all(&[
        ("PUT /users/alice", "201"),
        ("PUT /users/bob", "201"),
        ("@alice POST /users/bob/follow", "201"),
        ("@bob POST /users/alice/follow", "201"),
        (
            "@alice PUT /users/alice/blocks/bob",
            r#"201 {"blocking": true, "actor_id": "alice", "target_id": "bob", "created_at": "*", "version": "*"}"#,
        ),
        ("@alice PUT /users/alice/blocks/bob", r#"200 {"blocking": true}"#),
        ("GET /users/alice/is-following/bob", r#"200 {"following": false}"#),
        ("GET /users/bob/is-following/alice", r#"200 {"following": false}"#),
        ("GET /users/alice", r#"200 {"counts": {"followers": 0, "following": 0}}"#),
        ("@alice POST /users/bob/follow", "403 blocked"),
        ("@bob POST /users/alice/follow", "403 blocked"),
        ("@alice GET /users/alice/blocks", r#"200 {"data": [{"id": "bob"}], "total": 1, "has_more": false}"#),
        ("GET /users/alice/blocks", r#"200 {"data": [{"id": "bob"}]}"#),
        ("@bob GET /users/alice/blocks", "403 forbidden"),
        ("@bob GET /users/bob/blocks", r#"200 {"data": [], "total": 0}"#),
        ("GET /users/nobody/blocks", "404 user_not_found"),
        ("@bob DELETE /users/alice/blocks/bob", "403 forbidden"),
        ("@bob PUT /users/alice/blocks/bob", "403 forbidden"),
        ("@alice PUT /users/alice/blocks/alice", "400 self_block"),
        ("@alice PUT /users/alice/blocks/nobody", "404 user_not_found"),
        ("@nobody PUT /users/nobody/blocks/bob", "404 actor_not_found"),
        (r#"PUT /users/alice/blocks/bob {"x": 1}"#, "400 invalid_request /x"),
        ("@alice DELETE /users/alice/blocks/bob", r#"200 {"blocking": false, "changed": true}"#),
        ("@alice DELETE /users/alice/blocks/bob", r#"200 {"blocking": false, "changed": false}"#),
        ("GET /users/alice/is-following/bob", r#"200 {"following": false}"#),
        ("@bob POST /users/alice/follow", "201"),
    ]);
}

#[test]
fn both_sides_of_a_block_hear_the_same() {
    let server = Server::start();
    for id in ["alice", "bob"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check("@alice PUT /users/alice/blocks/bob", "201");
    let mut blocker = server.check("@alice POST /users/bob/follow", "403 blocked").body;
    let mut blocked = server.check("@bob POST /users/alice/follow", "403 blocked").body;
    for body in [&mut blocker, &mut blocked] {
        body["request_id"].take();
    }
    assert_eq!(blocker, blocked);
}
