use super::server::{Server, memory_store};
use entourage_store::StoreExt as _;

#[test]
fn users_are_created_replaced_merged_and_shown() {
    let server = Server::start();
    server.check_all(&[
        ("GET /users/alice", "404 user_not_found"),
        (r#"PATCH /users/alice {"name": "A"}"#, "404 user_not_found"),
        (
            r#"PUT /users/alice {"name": "Alice", "avatar_url": "https://x/a.png", "private": true}"#,
            r#"201 {"id": "alice", "created": true, "changed": true, "version": "*", "name": "Alice",
            "avatar_url": "https://x/a.png", "private": true, "hide_lists": false, "registered_at": "*", "created_at": "*",
            "counts": {"followers": 0, "requests": 0}}"#,
        ),
        (
            "GET /users/alice",
            r#"200 {"id": "alice", "name": "Alice", "avatar_url": "https://x/a.png", "private": true,
            "hide_lists": false, "registered_at": "*", "created_at": "*", "version": "*",
            "counts": {"followers": 0, "following": 0}}"#,
        ),
        (
            r#"PATCH /users/alice {"name": null, "hide_lists": true}"#,
            r#"200 {"created": false, "changed": true, "name": null, "private": true, "hide_lists": true}"#,
        ),
        (
            "GET /users/alice",
            r#"200 {"name": null, "avatar_url": "https://x/a.png", "private": true, "hide_lists": true}"#,
        ),
        (r#"PATCH /users/alice {"avatar_url": null}"#, r#"200 {"changed": true}"#),
        ("GET /users/alice", r#"200 {"avatar_url": null, "private": true}"#),
        (r#"PATCH /users/alice {}"#, r#"200 {"created": false, "changed": false, "version": "*", "private": true}"#),
        // PUT replaces name and avatar; what it leaves out of the rest stays.
        (r#"PUT /users/alice {"name": "B"}"#, r#"200 {"created": false, "changed": true}"#),
        ("GET /users/alice", r#"200 {"name": "B", "avatar_url": null, "private": true, "hide_lists": true}"#),
        ("PUT /users/bob", r#"201 {"id": "bob"}"#),
        (r#"PUT /users/bob {"registered_at": "2020-01-31T12:00:00.5Z"}"#, r#"200 {"changed": true}"#),
        ("GET /users/bob", r#"200 {"registered_at": "2020-01-31T12:00:00.500Z"}"#),
    ]);
}

#[test]
fn a_retry_hears_of_the_user_also_when_they_are_gone() {
    let server = Server::start();
    let put = r#"^idempotency-key=1 PUT /users/alice {"name": "Alice", "private": true}"#;
    let patch = r#"^idempotency-key=2 PATCH /users/alice {"name": "A"}"#;
    let first = server.check(put, r#"201 {"created": true, "name": "Alice"}"#);
    server.check(patch, r#"200 {"created": false, "changed": true, "name": "A", "private": true}"#);
    let again = server.check(put, "201");
    assert_eq!((again.body, again.headers.get("idempotent-replayed").is_some()), (first.body, true));
    server.check("DELETE /users/alice", "202");
    server.check(put, r#"201 {"created": true, "name": "Alice", "private": true}"#);
    server.check(patch, r#"200 {"created": false, "changed": true, "name": "A"}"#);
    server.check("GET /users/alice", "404 user_not_found");
}

#[test]
fn a_user_writes_only_themselves_and_never_when_they_registered() {
    let server = Server::start();
    server.check_all(&[
        ("@alice PUT /users/alice", "201"),
        ("@bob PUT /users/alice", "403 forbidden"),
        (r#"@bob PATCH /users/alice {"name": "x"}"#, "403 forbidden"),
        (r#"@alice PATCH /users/alice {"name": "x"}"#, "200"),
        (r#"@alice PUT /users/alice {"registered_at": "2020-01-31T12:00:00Z"}"#, "403 forbidden /registered_at"),
        ("@bob GET /users/alice", r#"200 {"name": "x"}"#),
    ]);
}

#[test]
fn ids_may_be_anything_a_path_can_carry() {
    let server = Server::start();
    for (path, id) in [
        ("a%2Fb", "a/b"),
        ("did:plc:xyz", "did:plc:xyz"),
        ("%F0%9F%98%80", "😀"),
        ("a%20b", "a b"),
        ("%25", "%"),
        ("42", "42"),
        ("042", "042"),
        ("9223372036854775808", "9223372036854775808"),
        ("..%2F..", "../.."),
        (&"x".repeat(128), &"x".repeat(128)),
    ] {
        server.check(&format!("PUT /users/{path}"), &format!("201 {{\"id\": {id:?}}}"));
        server.check(&format!("GET /users/{path}"), &format!("200 {{\"id\": {id:?}}}"));
    }
    server
        .check("PUT /users/a%2Fb/following/did:plc:xyz", r#"201 {"follower_id": "a/b", "followee_id": "did:plc:xyz"}"#);
    server.check("GET /users/did:plc:xyz/followers", r#"200 {"data": [{"id": "a/b"}]}"#);
    let long = "x".repeat(129);
    server.check_all(&[
        (&format!("PUT /users/{long}"), "400 invalid_id"),
        ("PUT /users/%FF", "400 invalid_id"),
        ("PUT /users/a%00b", "400 invalid_id"),
        ("PUT /users/a%0Ab", "400 invalid_id"),
        (&format!("@{long} GET /users/42"), "400 invalid_id"),
    ]);
}

#[test]
fn bodies_are_checked_to_the_field() {
    let server = Server::start();
    let long_name = format!(r#"PUT /users/a {{"name": "{}"}}"#, "n".repeat(513));
    let longest_name = format!(r#"PUT /users/a {{"name": "{}"}}"#, "n".repeat(512));
    let long_url = format!(r#"PUT /users/a {{"avatar_url": "{}"}}"#, "u".repeat(2_049));
    server.check_all(&[
        (r#"PUT /users/a {"nam": "x"}"#, "400 invalid_request /nam"),
        (r#"PUT /users/a {"created_at": "x"}"#, "400 invalid_request /created_at"),
        (r#"PUT /users/a {"a/b~c": "x"}"#, "400 invalid_request /a~1b~0c"),
        (r#"PUT /users/a {"name": "x", "name": "y"}"#, "400 invalid_request /name"),
        (r#"PUT /users/a {"name": 7}"#, "400 invalid_request /name"),
        (r#"PUT /users/a {"private": "true"}"#, "400 invalid_request /private"),
        (r#"PUT /users/a {"private": null}"#, "400 invalid_request /private"),
        (r#"PUT /users/a {"registered_at": 5}"#, "400 invalid_request /registered_at"),
        (r#"PUT /users/a {"registered_at": "yesterday"}"#, "400 invalid_request /registered_at"),
        (r#"PUT /users/a {"name": "a\nb"}"#, "400 invalid_request /name"),
        (&long_name, "400 invalid_request /name"),
        (&long_url, "400 invalid_request /avatar_url"),
        (r#"PUT /users/a ["x"]"#, "400 invalid_request "),
        (r#"PUT /users/a "x""#, "400 invalid_request "),
        (r#"PUT /users/a null"#, "400 invalid_request "),
        (r#"PUT /users/a {"name": "x""#, "400 invalid_request "),
        (r#"PUT /users/a {"name": "x"} {}"#, "400 invalid_request "),
        (r#"PUT /users/a {"name": "\ud800"}"#, "400 invalid_request "),
        ("PATCH /users/a", "415 unsupported_media_type"),
        (r#"^content-type=text/plain PUT /users/a {"name": "x"}"#, "415 unsupported_media_type"),
        (r#"^content-type=application/x-www-form-urlencoded PUT /users/a name=x"#, "415 unsupported_media_type"),
        (r#"^content-type=application/json;charset=utf-8 PUT /users/b {"name": "x"}"#, "201"),
        ("GET /users/a", "404 user_not_found"),
        (&longest_name, "201"),
    ]);
}

#[test]
fn an_id_that_shares_its_key_with_another_is_refused() {
    let store = memory_store(1);
    let server = Server::with(std::sync::Arc::clone(&store), Default::default());
    let hasher = entourage_model::KeyHasher::new(&store.identity().secret);
    let key = hasher.key(&"victim".try_into().unwrap());
    let (patch, overwrite) = (Default::default(), entourage_model::Overwrite::Keep);
    let operation = entourage_model::Operation::PutUser { key, id: "squatter".try_into().unwrap(), patch, overwrite };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit(operation.into())).unwrap();
    server.check_all(&[
        ("PUT /users/bob", "201"),
        ("PUT /users/victim", "409 id_taken"),
        ("GET /users/victim", "404 user_not_found"),
        ("GET /users/victim/followers", "404 user_not_found"),
        ("PUT /users/victim/following/bob", "404 actor_not_found"),
        ("PUT /users/bob/following/victim", "404 user_not_found"),
        ("@victim GET /users/bob/followers", "404 actor_not_found"),
    ]);
    let bob = hasher.key(&"bob".try_into().unwrap());
    let follow =
        entourage_model::Operation::Follow { follower: key, target: bob, quiet: Some(false), cap: None, park: false };
    runtime.block_on(store.commit(follow.into())).unwrap();
    server.check_all(&[
        ("GET /users/victim/is-following/bob", r#"200 {"following": false}"#),
        (r#"POST /checks {"pairs": [["victim", "bob"]]}"#, r#"200 {"results": [false]}"#),
        ("GET /users/victim/following/bob", "404 not_found"),
    ]);
}
