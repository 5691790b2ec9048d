use super::server::Server;

#[test]
fn what_a_user_is_told_of_is_grouped_and_marked() {
    let server = Server::start();
    for user in ["ann", "bob", "cleo", "dan", "eve"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    server.check(r#"PUT /users/pam {"private": true}"#, "201");
    let empty = r#"200 {"data": [], "unseen": 0, "next_cursor": null, "has_more": false}"#;
    server.check("@ann GET /users/ann/notifications", empty);
    for follower in ["bob", "cleo", "dan", "eve"] {
        server.check(&format!("@{follower} POST /users/ann/follow"), "201");
    }
    server.check("@ann POST /users/pam/follow", "202");
    server.check_all(&[
        (
            "@ann GET /users/ann/notifications",
            r#"200 {"unseen": 1, "data": [{"id": "*", "type": "follow", "count": 4, "count_is_exact": true, "seen": false,
                "latest_at": "*", "actors": [{"id": "eve"}, {"id": "dan"}, {"id": "cleo"}]}]}"#,
        ),
        (
            "@pam GET /users/pam/notifications",
            r#"200 {"unseen": 1, "data": [{"type": "follow_request", "count": 1, "actors": [{"id": "ann"}]}]}"#,
        ),
        ("@pam POST /users/pam/follow-requests/ann/accept", "200"),
        ("@pam GET /users/pam/notifications", empty),
        (
            "@ann GET /users/ann/notifications?limit=1",
            r#"200 {"unseen": 2, "has_more": true, "data": [{"type": "request_accepted", "actors": [{"id": "pam"}]}]}"#,
        ),
        ("@ann PUT /users/ann/blocks/eve", "201"),
        ("@ann PUT /users/ann/mutes/dan", "201"),
        ("@bob DELETE /users/ann/follow", "200"),
    ]);
    let page = server.check(
        "@ann GET /users/ann/notifications",
        r#"200 {"unseen": 2, "data": [{"type": "request_accepted"}, {"type": "follow", "count": 1, "actors": [{"id": "cleo"}]}]}"#,
    );
    let older = page.body["data"][1]["id"].as_str().unwrap();
    let see = format!(r#"@ann POST /users/ann/notifications/seen {{"up_to": "{older}"}}"#);
    let token = server.check(&see, r#"200 {"seen": true, "changed": true}"#).token();
    let marked = r#"200 {"unseen": 1, "data": [{"seen": false}, {"seen": true}]}"#;
    server.check(&format!("^entourage-token={token} @ann GET /users/ann/notifications"), marked);
    let next = server.check("@ann GET /users/ann/notifications?limit=1", "200 {}");
    let cursor = next.body["next_cursor"].as_str().unwrap();
    assert!(next.header("link").contains(cursor));
    server.check_all(&[
        (
            &format!("@ann GET /users/ann/notifications?cursor={cursor}"),
            r#"200 {"data": [{"type": "follow"}], "unseen": 1}"#,
        ),
        (&format!("@bob GET /users/bob/notifications?cursor={cursor}"), "400 invalid_cursor"),
        (&format!("@ann GET /users/ann/followers?cursor={cursor}"), "400 invalid_cursor"),
        ("@ann POST /users/ann/notifications/seen {}", r#"200 {"changed": true}"#),
        ("@ann POST /users/ann/notifications/seen", r#"200 {"seen": true, "changed": false}"#),
        (r#"@ann POST /users/ann/notifications/seen {"up_to": "1"}"#, "400 invalid_request /up_to"),
        (r#"@ann POST /users/ann/notifications/seen {"all": true}"#, "400 invalid_request /all"),
        ("@bob GET /users/ann/notifications", "403 forbidden"),
        ("@bob POST /users/ann/notifications/seen", "403 forbidden"),
        ("GET /users/ann/notifications", r#"200 {"unseen": 0}"#),
        ("GET /users/nobody/notifications", "404 user_not_found"),
        ("POST /users/nobody/notifications/seen", "404 user_not_found"),
        ("@ann GET /users/ann/notifications?limit=0", "400 invalid_request /limit"),
    ]);
}
