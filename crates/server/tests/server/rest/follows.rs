use entourage_service::Rules;

use super::server::{Server, memory_store};

fn with_users(ids: &[&str]) -> Server {
    let server = Server::start();
    for id in ids {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server
}

#[test]
fn follow_and_unfollow_answer_as_the_table_says() {
    let server = with_users(&["alice", "bob"]);
    let first = server.check(
        "@alice POST /users/bob/follow",
        r#"201 {"following": true, "state": "active", "follower_id": "alice", "followee_id": "bob",
            "created_at": "*", "version": "*", "quiet": false}"#,
    );
    let again = server.check("@alice POST /users/bob/follow", "200 {}");
    assert_eq!(first.body, again.body);
    server.check_all(&[
        (r#"@alice POST /users/bob/follow {"quiet": true}"#, r#"200 {"quiet": true, "following": true}"#),
        ("@alice GET /users/alice/following/bob", r#"200 {"quiet": true, "state": "active"}"#),
        ("@alice POST /users/alice/follow", "400 self_follow"),
        ("@alice DELETE /users/alice/follow", r#"200 {"following": false, "changed": false}"#),
        ("@alice POST /users/nobody/follow", "404 user_not_found"),
        ("@nobody POST /users/bob/follow", "404 actor_not_found"),
        ("@nobody DELETE /users/bob/follow", "404 actor_not_found"),
        ("POST /users/bob/follow", "400 invalid_request"),
        ("DELETE /users/bob/follow", "400 invalid_request"),
        ("@alice DELETE /users/bob/follow", r#"200 {"following": false, "changed": true}"#),
        ("@alice DELETE /users/bob/follow", r#"200 {"following": false, "changed": false}"#),
        ("GET /users/alice/following/bob", "404 not_found"),
        (r#"@alice POST /users/bob/follow {"quiet": "yes"}"#, "400 invalid_request /quiet"),
        (r#"@alice POST /users/bob/follow {"loud": true}"#, "400 invalid_request /loud"),
        (r#"@alice DELETE /users/bob/follow {"quiet": true}"#, "400 invalid_request /quiet"),
    ]);
    let anew = server.check("@alice POST /users/bob/follow", "201 {}");
    assert_ne!(first.body["version"], anew.body["version"]);
}

#[test]
fn a_service_follows_for_anybody_and_a_user_only_for_themselves() {
    let server = with_users(&["alice", "bob"]);
    server.check_all(&[
        ("PUT /users/alice/following/bob", r#"201 {"follower_id": "alice", "followee_id": "bob"}"#),
        ("PUT /users/alice/following/bob", "200"),
        ("@bob PUT /users/alice/following/bob", "403 forbidden"),
        ("@bob DELETE /users/alice/following/bob", "403 forbidden"),
        ("@alice DELETE /users/alice/following/bob", r#"200 {"changed": true}"#),
        (r#"@alice PUT /users/alice/following/bob {"quiet": true}"#, r#"201 {"quiet": true}"#),
        ("PUT /users/nobody/following/bob", "404 actor_not_found"),
        ("PUT /users/alice/following/nobody", "404 user_not_found"),
    ]);
}

#[test]
fn a_private_account_is_asked_not_followed() {
    let server = with_users(&["alice"]);
    server.check_all(&[
        (r#"PUT /users/secret {"private": true}"#, "201"),
        ("@alice POST /users/secret/follow", r#"202 {"following": false, "state": "pending"}"#),
        ("@alice POST /users/secret/follow", r#"202 {"following": false, "state": "pending"}"#),
        ("GET /users/alice/is-following/secret", r#"200 {"following": false}"#),
        ("GET /users/alice/following/secret", r#"200 {"following": false, "state": "pending"}"#),
        ("@secret GET /users/alice/following/secret", r#"200 {"state": "pending"}"#),
        ("GET /users/secret", r#"200 {"counts": {"followers": 0, "requests": 1}}"#),
        ("@alice GET /users/alice", r#"200 {"counts": {"following": 0, "requested": 1}}"#),
        ("GET /users/secret/followers", r#"200 {"data": [], "total": 0}"#),
        (r#"@alice POST /users/secret/follow {"quiet": true}"#, "422 quiet_private"),
        ("@alice DELETE /users/secret/follow", r#"200 {"changed": true}"#),
        ("GET /users/alice/following/secret", "404 not_found"),
    ]);
}

#[test]
fn the_cap_is_a_setting() {
    let rules = Rules { following_max: Some(2), ..Rules::default() };
    let server = Server::with(memory_store(1), rules);
    for id in ["a", "b", "c", "d"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check_all(&[
        ("@a POST /users/b/follow", "201"),
        ("@a POST /users/c/follow", "201"),
        ("@a POST /users/d/follow", "422 following_limit"),
        ("@a POST /users/c/follow", "200"),
        ("@a DELETE /users/b/follow", "200"),
        ("@a POST /users/d/follow", "201"),
    ]);
}

#[test]
fn ids_exist_on_first_use_when_the_setting_says_so() {
    let server = Server::with(memory_store(1), Rules { auto_create: true, ..Rules::default() });
    server.check_all(&[
        ("@a POST /users/b/follow", r#"201 {"following": true}"#),
        ("GET /users/a", r#"200 {"counts": {"following": 1}}"#),
        ("GET /users/b/followers", r#"200 {"data": [{"id": "a"}], "total": 1}"#),
        ("@c DELETE /users/d/follow", r#"200 {"changed": false}"#),
        ("GET /users/c", "200"),
        ("GET /users/d", "404 user_not_found"),
        ("@e PUT /users/e/blocks/f", "201"),
        ("@g POST /users/g/follow", "400 self_follow"),
        ("GET /users/nobody/is-following/b", r#"200 {"following": false}"#),
        ("GET /users/nobody", "404 user_not_found"),
        (r#"PUT /users/a {"name": "A"}"#, r#"200 {"created": false, "changed": true}"#),
        ("@a POST /users/b/follow", "200"),
        ("GET /users/a", r#"200 {"name": "A"}"#),
    ]);
}
