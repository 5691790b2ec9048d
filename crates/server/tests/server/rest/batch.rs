use entourage_service::{Limits, Rules};
use serde_json::{Value, json};

use super::server::{Server, memory_store};

fn people() -> Server {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check(r#"PUT /users/shy {"private": true}"#, "201");
    server
}

#[test]
fn each_operation_is_done_by_itself_and_has_its_result() {
    let server = people();
    let body = json!({ "operations": [
        { "op": "follow", "follower": "a", "target": "b" },
        { "op": "follow", "follower": "a", "target": "b" },
        { "op": "follow", "follower": "a", "target": "nobody" },
        { "op": "follow", "follower": "nobody", "target": "a" },
        { "op": "follow", "follower": "a", "target": "a" },
        { "op": "follow", "follower": "a", "target": "shy" },
        { "op": "follow", "follower": "b", "target": "a", "quiet": true },
        { "op": "unfollow", "follower": "a", "target": "b" },
        { "op": "unfollow", "follower": "a", "target": "b" },
    ] });
    let reply = server.check(
        &format!("POST /follows:batch {body}"),
        r#"200 {"results": [
            {"status": 201, "code": null, "body": {"following": true, "follower_id": "a", "followee_id": "b"}},
            {"status": 200, "code": null, "body": {"following": true}},
            {"status": 404, "code": "user_not_found", "body": {"code": "user_not_found", "detail": "*"}},
            {"status": 404, "code": "actor_not_found"},
            {"status": 400, "code": "self_follow"},
            {"status": 202, "code": null, "body": {"state": "pending"}},
            {"status": 201, "code": null, "body": {"quiet": true}},
            {"status": 200, "code": null, "body": {"following": false, "changed": true}},
            {"status": 200, "code": null, "body": {"following": false, "changed": false}}]}"#,
    );
    let token = reply.token();
    server.check(&format!("^entourage-token={token} GET /users/a/following"), r#"200 {"total": 0}"#);
    server.check("GET /users/b/following", r#"200 {"data": [{"id": "a"}]}"#);
}

#[test]
fn what_is_refused_for_now_says_when_to_try_again() {
    let limits = Limits { follows_per_hour: 60, follow_burst: 1, ..Limits::NONE };
    let server = Server::with(memory_store(1), Rules { auto_create: true, limits, ..Rules::default() });
    let follow = |target: &str| json!({ "op": "follow", "follower": "a", "target": target });
    let body = json!({ "operations": [follow("b"), follow("c"), follow("a")] });
    let reply = server.check(
        &format!("POST /follows:batch {body}"),
        r#"200 {"results": [{"status": 201}, {"status": 429, "code": "rate_limited"}, {"status": 400}]}"#,
    );
    let results = reply.body["results"].as_array().unwrap();
    let wait = results[1]["body"]["retry_after"].as_u64().unwrap();
    assert!((50..=60).contains(&wait), "{}", reply.text);
    assert_eq!(results[2]["body"].get("retry_after"), None);
}

#[test]
fn a_batch_is_for_services_and_has_its_bounds() {
    let server = people();
    let many = |count: usize| {
        let one = json!({ "op": "follow", "follower": "a", "target": "b" });
        format!("POST /follows:batch {}", json!({ "operations": vec![one; count] }))
    };
    server.check(&format!("@a {}", many(1)), "403 forbidden");
    server.check(&many(1_001), "400 invalid_request /operations");
    server.check("GET /users/a/is-following/b", r#"200 {"following": false}"#);
    let reply = server.check(&many(1_000), "200 {}");
    assert_eq!(reply.body["results"].as_array().unwrap().len(), 1_000);
    server.check("GET /users/b/followers", r#"200 {"total": 1}"#);
    server.check_all(&[
        (r#"POST /follows:batch {"operations": []}"#, r#"200 {"results": []}"#),
        (r#"POST /follows:batch {"operations": [{"op": "block", "follower": "a", "target": "b"}]}"#, "400 invalid_request /operations/0/op"),
        (r#"POST /follows:batch {"operations": [{"op": "follow", "follower": "a"}]}"#, "400 invalid_request /operations/0/target"),
        (r#"POST /follows:batch {"operations": [{"op": "follow", "follower": "", "target": "b"}]}"#, "400 invalid_id /operations/0/follower"),
        (
            r#"POST /follows:batch {"operations": [{"op": "unfollow", "follower": "a", "target": "b", "quiet": true}]}"#,
            "400 invalid_request /operations/0/quiet",
        ),
        (r#"POST /follows:batch {"operations": [], "x": 1}"#, "400 invalid_request /x"),
        ("POST /follows:batch", "415 unsupported_media_type"),
    ]);
}

#[test]
fn a_retry_replays_what_was_done_and_repeats_what_was_refused() {
    let server = people();
    let body = json!({ "operations": [
        { "op": "follow", "follower": "a", "target": "b" },
        { "op": "follow", "follower": "a", "target": "late" },
        { "op": "follow", "follower": "a", "target": "c" },
    ] });
    let request = format!("^idempotency-key=k POST /follows:batch {body}");
    let first = server.check(&request, r#"200 {"results": [{"status": 201}, {"status": 404}, {"status": 201}]}"#);
    assert_eq!(first.header("idempotent-replayed"), "");
    server.check("DELETE /users/a/following/b", r#"200 {"changed": true}"#);
    server.check("PUT /users/late", "201");
    let again = server.check(&request, r#"200 {"results": [{"status": 201}, {"status": 201}, {"status": 201}]}"#);
    assert_eq!(again.header("idempotent-replayed"), "true");
    let body_of = |reply: &Value, index: usize| reply["results"][index]["body"].clone();
    assert_eq!(body_of(&first.body, 0), body_of(&again.body, 0));
    server.check("GET /users/a/following", r#"200 {"data": [{"id": "late"}, {"id": "c"}]}"#);
}

#[test]
fn a_known_key_with_another_body_changes_nothing() {
    let server = people();
    let follow = |follower: &str, target: &str| json!({ "op": "follow", "follower": follower, "target": target });
    let batch =
        |operations: Value| format!("^idempotency-key=k POST /follows:batch {}", json!({ "operations": operations }));
    server.check(&batch(json!([follow("a", "nobody")])), r#"200 {"results": [{"status": 404}]}"#);
    server.check(&batch(json!([follow("a", "b"), follow("b", "c")])), "422 idempotency_mismatch");
    server.check(&batch(json!([])), "422 idempotency_mismatch");
    for user in ["a", "b"] {
        server.check(&format!("GET /users/{user}/following"), r#"200 {"total": 0}"#);
    }
    server.check("PUT /users/nobody", "201");
    server.check(&batch(json!([follow("a", "nobody")])), r#"200 {"results": [{"status": 201}]}"#);
}

#[test]
fn ids_exist_on_first_use_where_that_is_set() {
    let rules = Rules { auto_create: true, limits: Limits::NONE, ..Default::default() };
    let server = Server::with(memory_store(1), rules);
    server.check(
        r#"POST /follows:batch {"operations": [{"op": "follow", "follower": "x", "target": "y"}, {"op": "unfollow", "follower": "v", "target": "w"}, {"op": "follow", "follower": "z", "target": "z"}]}"#,
        r#"200 {"results": [{"status": 201}, {"status": 200, "body": {"changed": false}}, {"status": 400}]}"#,
    );
    for (id, status) in [("x", "200"), ("y", "200"), ("v", "200"), ("w", "404"), ("z", "404")] {
        server.check(&format!("GET /users/{id}"), status);
    }
}
