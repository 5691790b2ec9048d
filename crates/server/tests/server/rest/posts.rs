//! Posts: written, read, replaced, deleted and listed, with bodies that come back as they were sent.

use super::server::Server;

/// Spaces, line breaks, escapes, numbers and repeated names as nobody would write them.
const ODD: &str =
    "{ \"b\" : 1.0e2,\t\"a\":\"\\u00e9\\/é\" ,\n \"a\" : 12345678901234567890123 , \"n\":{\"z\":-0.0,\"e\":[ ]}}";

fn started() -> Server {
    let server = Server::start();
    for user in ["ann", "bob", "cleo"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    server.check(r#"PUT /users/pam {"name": "Pam", "private": true}"#, "201");
    server
}

fn post(server: &Server, author: &str, body: &str) -> String {
    let made = server.check(&format!(r#"@{author} POST /posts {{"body": {body}}}"#), "201");
    made.body["id"].as_str().unwrap().to_owned()
}

#[test]
fn bodies_come_back_byte_for_byte() {
    let server = started();
    server.check("@bob POST /users/ann/follow", "201");
    let group = server.check(r#"@bob POST /users/bob/groups {"name": "G"}"#, "201");
    let group = format!("/users/bob/groups/{}", group.body["id"].as_str().unwrap());
    server.check(&format!("@bob PUT {group}/members/ann"), "201");
    let is_in = |text: &str, body: &str| assert!(text.contains(&format!("\"body\":{body}")), "{text}");
    let made = server.check(&format!(r#"@ann POST /posts {{ "body" :  {ODD} }}"#), r#"201 {"author": "ann"}"#);
    is_in(&made.text, ODD);
    let id = made.body["id"].as_str().unwrap();
    assert_eq!(made.header("location"), format!("/api/v1/posts/{id}"));
    assert!(!made.token().is_empty());
    let everywhere = [
        format!("GET /posts/{id}"),
        "GET /users/ann/posts".to_owned(),
        "GET /users/bob/feed".to_owned(),
        format!("@bob GET {group}/feed"),
        "GET /events?limit=200".to_owned(),
    ];
    for request in &everywhere {
        is_in(&server.check(request, "200").text, ODD);
    }
    let other = r#"{"z":1,  "a":2}"#;
    let replaced = server.check(&format!(r#"@ann PATCH /posts/{id} {{"body":{other}}}"#), r#"200 {"edited_at": "*"}"#);
    assert_eq!((&replaced.body["id"], &replaced.body["created_at"]), (&made.body["id"], &made.body["created_at"]));
    is_in(&replaced.text, other);
    for request in &everywhere {
        is_in(&server.check(request, "200").text, other);
    }
    let events = server.check("GET /events?limit=200", "200").text;
    is_in(&events, ODD);
}

#[test]
fn what_is_no_body_is_refused_with_its_field() {
    let server = started();
    let id = post(&server, "ann", "{}");
    let of_bytes = |bytes: usize| format!(r#"{{"t":"{}"}}"#, "x".repeat(bytes - 8));
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    let cases = [
        (r#"{"body": []}"#.to_owned(), "400 invalid_request /body"),
        (r#"{"body": null}"#.to_owned(), "400 invalid_request /body"),
        (r#"{"body": "{}"}"#.to_owned(), "400 invalid_request /body"),
        (r#"{"body": 7}"#.to_owned(), "400 invalid_request /body"),
        ("{}".to_owned(), "400 invalid_request /body"),
        (r#"{"body": {}, "body": {}}"#.to_owned(), "400 invalid_request /body"),
        (r#"{"body": {}, "author": "bob"}"#.to_owned(), "400 invalid_request /author"),
        (r#"{"body": {"a": "\ud800"}}"#.to_owned(), "400 invalid_request /body"),
        (r#"{"body": {"a": 1e999}}"#.to_owned(), "400 invalid_request /body"),
        (format!(r#"{{"body": {deep}}}"#), "400 invalid_request /body"),
        (format!(r#"{{"body": {}}}"#, of_bytes(10_241)), "400 invalid_request /body"),
        (r#"{"body": {"a": }}"#.to_owned(), "400 invalid_request "),
        (r#"{"body": {"#.to_owned(), "400 invalid_request "),
        (format!(r#"{{"body": {}}}"#, of_bytes(70_000)), "413 payload_too_large"),
    ];
    for (body, expected) in &cases {
        server.check(&format!("@ann POST /posts {body}"), expected);
        server.check(&format!("@ann PATCH /posts/{id} {body}"), expected);
    }
    server.check("@ann GET /users/ann/posts", r#"200 {"total": 1, "data": [{"body": {}, "edited_at": null}]}"#);
    post(&server, "ann", &of_bytes(10_240));
    server.check_all(&[
        (r#"POST /posts {"body": {}}"#, "400 invalid_request"),
        (r#"@nobody POST /posts {"body": {}}"#, "404 actor_not_found"),
        ("GET /posts/none", "404 post_not_found"),
        ("GET /posts/7", "404 post_not_found"),
        ("GET /posts/-1", "404 post_not_found"),
        ("GET /posts/9223372036854775807", "404 post_not_found"),
        ("GET /posts/99999999999999999999", "404 post_not_found"),
        ("GET /posts/%00", "400 invalid_id"),
        ("GET /users/nobody/posts", "404 user_not_found"),
        ("GET /users/ann/posts?limit=0", "400 invalid_request /limit"),
    ]);
}

#[test]
fn an_external_id_names_one_post_of_its_author() {
    let server = started();
    server.check("@bob POST /users/ann/follow", "201");
    let made = server
        .check(r#"@ann POST /posts {"body": {"n": 1}, "external_id": "s/1 ☂"}"#, r#"201 {"external_id": "s/1 ☂"}"#);
    let id = made.body["id"].as_str().unwrap();
    let again =
        server.check(r#"@ann POST /posts {"body": {"n": 2}, "external_id": "s/1 ☂"}"#, r#"200 {"body": {"n": 1}}"#);
    assert_eq!((&again.body, again.header("location")), (&made.body, format!("/api/v1/posts/{id}").as_str()));
    server.check(r#"@bob POST /posts {"body": {}, "external_id": "s/1 ☂"}"#, "201");
    server.check(r#"@ann POST /posts {"body": {}, "external_id": null}"#, r#"201 {"external_id": null}"#);
    let long = "x".repeat(256);
    server.check_all(&[
        (r#"@ann POST /posts {"body": {}, "external_id": ""}"#, "400 invalid_request /external_id"),
        (r#"@ann POST /posts {"body": {}, "external_id": "a\nb"}"#, "400 invalid_request /external_id"),
        (&format!(r#"@ann POST /posts {{"body": {{}}, "external_id": "{long}"}}"#), "400 invalid_request /external_id"),
        (r#"@ann POST /posts {"body": {}, "external_id": 7}"#, "400 invalid_request /external_id"),
        (
            &format!(r#"@ann PATCH /posts/{id} {{"body": {{}}, "external_id": "y"}}"#),
            "400 invalid_request /external_id",
        ),
        ("GET /users/ann/posts?external_id=", "400 invalid_request /external_id"),
        ("GET /users/nobody/posts?external_id=x", "404 user_not_found"),
    ]);
    server.check(&format!(r#"@ann PATCH /posts/{id} {{"body": {{"n": 3}}}}"#), r#"200 {"external_id": "s/1 ☂"}"#);
    let named = "/users/ann/posts?external_id=s%2F1%20%E2%98%82";
    let found = format!(r#"200 {{"total": 1, "has_more": false, "data": [{{"id": "{id}", "body": {{"n": 3}}}}]}}"#);
    server.check_all(&[
        (&format!("GET {named}"), &found),
        (&format!("@bob GET {named}"), &found),
        ("GET /users/ann/posts?external_id=other", r#"200 {"total": 0, "has_more": false, "data": []}"#),
        ("GET /users/ann/posts", r#"200 {"data": [{"external_id": null}, {"external_id": "s/1 ☂"}]}"#),
        (
            "GET /users/bob/feed",
            r#"200 {"data": [{"external_id": null}, {"author": "bob"}, {"external_id": "s/1 ☂"}]}"#,
        ),
        (&format!("GET /posts/{id}"), r#"200 {"external_id": "s/1 ☂"}"#),
    ]);
    // It is for those who may see the post, and free again when that is gone.
    server.check(r#"@pam POST /posts {"body": {}, "external_id": "p"}"#, "201");
    server.check("@bob GET /users/pam/posts?external_id=p", "403 lists_hidden");
    server.check(&format!("@ann DELETE /posts/{id}"), "200");
    server.check(&format!("GET {named}"), r#"200 {"total": 0, "data": []}"#);
    let new = server.check(r#"@ann POST /posts {"body": {}, "external_id": "s/1 ☂"}"#, "201");
    assert_ne!(new.body["id"], made.body["id"]);
    server.check("DELETE /users/pam", "202");
    server.work_now();
    server.check("PUT /users/pam", "201");
    server.check("GET /users/pam/posts?external_id=p", r#"200 {"data": []}"#);
    server.check(r#"@pam POST /posts {"body": {}, "external_id": "p"}"#, "201");
}

#[test]
fn a_post_is_its_authors_to_change_and_for_whoever_may_see_it() {
    let server = started();
    let (open, hidden) = (post(&server, "ann", "{}"), post(&server, "pam", "{}"));
    server.check("@bob POST /users/pam/follow", "202");
    server.check("@pam POST /users/pam/follow-requests/bob/accept", "200");
    server.check("@ann PUT /users/ann/blocks/cleo", "201");
    let ask = |who: &str, method: &str, id: &str, expected: &str| {
        let body = if method == "PATCH" { r#"{"body": {"x": 1}}"# } else { "" };
        server.check(&format!("{who} {method} /posts/{id} {body}"), expected);
    };
    for (who, id, seen, changed) in [
        ("@bob", &open, "200", "403 forbidden"),
        ("@cleo", &open, "404 post_not_found", "404 post_not_found"),
        ("@bob", &hidden, "200", "403 forbidden"),
        ("@cleo", &hidden, "404 post_not_found", "404 post_not_found"),
        ("@pam", &hidden, "200", "200"),
        ("", &hidden, "200", "200"),
    ] {
        ask(who, "GET", id, seen);
        ask(who, "PATCH", id, changed);
        if changed != "200" {
            ask(who, "DELETE", id, changed);
        }
    }
    server.check_all(&[
        ("@bob GET /users/pam/posts", r#"200 {"total": 1}"#),
        ("@cleo GET /users/pam/posts", "403 lists_hidden"),
        ("@cleo GET /users/ann/posts", "403 lists_hidden"),
        ("@bob GET /users/ann/posts", r#"200 {"total": 1, "data": [{"author": "ann"}]}"#),
    ]);
    ask("@ann", "DELETE", &open, r#"200 {"changed": true}"#);
    ask("@ann", "DELETE", &open, "404 post_not_found");
    ask("@ann", "GET", &open, "404 post_not_found");
    ask("@ann", "PATCH", &open, "404 post_not_found");
    server.check("GET /users/ann/posts", r#"200 {"total": 0, "data": [], "next_cursor": null, "has_more": false}"#);
    server.check("DELETE /users/pam", "202");
    ask("", "GET", &hidden, "404 post_not_found");
    server.work_now();
    ask("", "GET", &hidden, "404 post_not_found");
}

#[test]
fn an_authors_posts_are_paged_in_any_size() {
    let server = started();
    let mut posts: Vec<String> = (0..7).map(|number| post(&server, "ann", &format!(r#"{{"n":{number}}}"#))).collect();
    posts.reverse();
    for limit in 1..9 {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.check(&format!("@bob GET /users/ann/posts?limit={limit}{cursor}"), r#"200 {"total": 7}"#);
            found.extend(page.ids().into_iter().map(str::to_owned));
            let Some(next) = page.body["next_cursor"].as_str() else { break };
            assert!(page.header("link").contains(next) && page.body["has_more"] == true);
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, posts, "limit {limit}");
    }
}

#[test]
fn retries_of_writes_to_posts_have_one_effect() {
    let server = started();
    let make = r#"@ann ^idempotency-key=k POST /posts {"body": {"a":  1}}"#;
    let (first, again) = (server.check(make, "201"), server.check(make, "201"));
    assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text));
    assert_eq!(again.header("location"), first.header("location"));
    server.check(r#"@ann ^idempotency-key=k POST /posts {"body": {"a": 1}}"#, "422 idempotency_mismatch");
    server.check(r#"@bob ^idempotency-key=k POST /posts {"body": {"a":  1}}"#, "201");
    server.check("GET /users/ann/posts", r#"200 {"total": 1}"#);
    let id = first.body["id"].as_str().unwrap();
    for (request, expected) in [
        (format!(r#"@ann ^idempotency-key=r PATCH /posts/{id} {{"body": {{"b": 2}}}}"#), r#"200 {"body": {"b": 2}}"#),
        (format!("@ann ^idempotency-key=d DELETE /posts/{id}"), r#"200 {"changed": true}"#),
    ] {
        let (first, again) = (server.check(&request, expected), server.check(&request, expected));
        assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text), "{request}");
    }
    // What was answered once is answered so again, whatever became of the post.
    assert_eq!(server.check(make, "201").text, first.text);
    for actor in ["@ann ", ""] {
        let id = server.check(r#"@ann POST /posts {"body": {}}"#, "201").body["id"].as_str().unwrap().to_owned();
        let patch = format!(r#"{actor}^idempotency-key=p PATCH /posts/{id} {{"body": {{"c": 3}}}}"#);
        let first = server.check(&patch, "200");
        server.check(&format!("@ann DELETE /posts/{id}"), "200");
        let again = server.check(&patch, "200");
        assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text));
        server.check(&format!(r#"{actor}^idempotency-key=q PATCH /posts/{id} {{"body": {{}}}}"#), "404 post_not_found");
    }
}

#[test]
fn every_change_of_a_post_is_an_event() {
    let server = started();
    let id = post(&server, "ann", r#"{"v":1}"#);
    server.check(&format!(r#"@ann PATCH /posts/{id} {{"body": {{"v":2}}}}"#), "200");
    server.check(&format!(r#"@ann PATCH /posts/{id} {{"body": {{"v":2}}}}"#), "200");
    server.check(&format!("@ann DELETE /posts/{id}"), "200");
    let events = server.check("GET /events?limit=200", "200");
    let rows = events.body["data"].as_array().unwrap().iter();
    let of_posts: Vec<String> = rows
        .filter(|row| row["type"].as_str().unwrap().starts_with("post."))
        .map(|row| {
            assert_eq!((&row["post_id"], &row["author"]), (&id.as_str().into(), &"ann".into()));
            format!("{} {}", row["type"].as_str().unwrap(), row["body"])
        })
        .collect();
    assert_eq!(of_posts, [r#"post.created {"v":1}"#, r#"post.updated {"v":2}"#, "post.deleted null"]);
}
