use super::server::Server;

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
        ("@ann PUT /users/ann/mutes/ann", "400 self_block"),
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
