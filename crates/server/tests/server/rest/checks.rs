use super::server::Server;

#[test]
fn three_shapes_give_one_answer() {
    let server = Server::start();
    for id in ["a", "b", "c", "7"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    let follow = server.check("@a POST /users/b/follow", "201 {}");
    server.check("@7 POST /users/a/follow", "201");
    let one =
        server.check("GET /users/a/is-following/b", r#"200 {"following": true, "is_following": true, "since": "*"}"#);
    assert_eq!(one.body["since"], follow.body["created_at"]);
    server.check_all(&[
        ("GET /users/b/is-following/a", r#"200 {"following": false, "is_following": false, "since": null}"#),
        ("GET /users/7/is-following/a", r#"200 {"following": true}"#),
        ("GET /users/nobody/is-following/b", r#"200 {"following": false}"#),
        ("GET /users/a/is-following/nobody", r#"200 {"following": false}"#),
        ("GET /users/a/is-following/a", r#"200 {"following": false}"#),
        (
            r#"POST /users/a/is-following {"targets": ["c", "b", "nobody", "a", "b"]}"#,
            r#"200 {"results": {"b": true, "c": false, "nobody": false, "a": false}}"#,
        ),
        (r#"POST /users/a/is-following {"targets": []}"#, r#"200 {"results": {}}"#),
        (
            r#"POST /checks {"pairs": [["a", "b"], ["b", "a"], ["7", "a"], ["a", "b"]]}"#,
            r#"200 {"results": [true, false, true, true]}"#,
        ),
        (r#"POST /checks {"pairs": []}"#, r#"200 {"results": []}"#),
        ("POST /checks", "415 unsupported_media_type"),
        (r#"POST /checks {}"#, "400 invalid_request /pairs"),
        (r#"POST /checks {"pairs": [["a"]]}"#, "400 invalid_request /pairs/0"),
        (r#"POST /checks {"pairs": [["a", "b", "c"]]}"#, "400 invalid_request /pairs/0"),
        (r#"POST /checks {"pairs": [{"0": "a"}]}"#, "400 invalid_request /pairs/0"),
        (r#"POST /checks {"pairs": [["a", 7]]}"#, "400 invalid_request /pairs/0/1"),
        (r#"POST /checks {"pairs": [["a", "b"], ["", "b"]]}"#, "400 invalid_id /pairs/1/0"),
        (r#"POST /users/a/is-following {"targets": ["b", "\u0000"]}"#, "400 invalid_id /targets/1"),
        (r#"POST /users/a/is-following {"targets": "b"}"#, "400 invalid_request /targets"),
    ]);
}

#[test]
fn a_thousand_at_once_and_no_more() {
    let server = Server::start();
    server.check("PUT /users/a", "201");
    server.check("PUT /users/t999", "201");
    server.check("@a POST /users/t999/follow", "201");
    let targets = |count: usize| (0..count).map(|n| format!("\"t{n}\"")).collect::<Vec<_>>().join(",");
    let pairs = |count: usize| (0..count).map(|n| format!("[\"a\",\"t{n}\"]")).collect::<Vec<_>>().join(",");
    let each = |count| format!(r#"POST /users/a/is-following {{"targets": [{}]}}"#, targets(count));
    let any = |count| format!(r#"POST /checks {{"pairs": [{}]}}"#, pairs(count));
    let reply = server.check(&each(1_000), r#"200 {"results": {"t999": true, "t0": false}}"#);
    assert_eq!(reply.body["results"].as_object().unwrap().len(), 1_000);
    let reply = server.check(&any(1_000), "200 {}");
    let results = reply.body["results"].as_array().unwrap();
    assert_eq!(results.iter().filter(|found| **found == true).count(), 1);
    assert_eq!(results.len(), 1_000);
    server.check(&each(1_001), "400 invalid_request /targets");
    server.check(&any(1_001), "400 invalid_request /pairs");
}
