use super::server::Server;

#[test]
fn a_quiet_edge_is_there_for_its_follower_and_for_services_only() {
    let server = Server::start();
    for id in ["a", "b", "loud", "other"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check(r#"@a POST /users/b/follow {"quiet": true}"#, r#"201 {"quiet": true}"#);
    server.check("@loud POST /users/b/follow", "201");
    server.check("@a POST /users/other/follow", "201");
    for viewer in ["", "@a "] {
        for (request, expected) in [
            ("GET /users/a/is-following/b", r#"200 {"following": true, "since": "*"}"#),
            (r#"POST /users/a/is-following {"targets": ["b"]}"#, r#"200 {"results": {"b": true}}"#),
            (r#"POST /checks {"pairs": [["a", "b"], ["loud", "b"]]}"#, r#"200 {"results": [true, true]}"#),
            ("GET /users/a/following/b", r#"200 {"quiet": true}"#),
            ("GET /users/a/following", r#"200 {"data": [{"id": "other"}, {"id": "b"}], "total": 2}"#),
            ("GET /users/b/followers", r#"200 {"data": [{"id": "loud"}, {"id": "a"}]}"#),
            ("GET /users/a", r#"200 {"counts": {"following": 2, "following_quiet": 1}}"#),
        ] {
            server.check(&format!("{viewer}{request}"), expected);
        }
    }
    for viewer in ["@b ", "@loud ", "@stranger "] {
        for (request, expected) in [
            ("GET /users/a/is-following/b", r#"200 {"following": false, "since": null}"#),
            (r#"POST /users/a/is-following {"targets": ["b"]}"#, r#"200 {"results": {"b": false}}"#),
            (r#"POST /checks {"pairs": [["a", "b"], ["loud", "b"]]}"#, r#"200 {"results": [false, true]}"#),
            ("GET /users/a/following/b", "404 not_found"),
            ("GET /users/a/following", r#"200 {"data": [{"id": "other"}], "total": 1}"#),
            ("GET /users/b/followers", r#"200 {"data": [{"id": "loud"}], "total": 1}"#),
            ("GET /users/b", r#"200 {"counts": {"followers": 1}}"#),
        ] {
            server.check(&format!("{viewer}{request}"), expected);
        }
        let counts = server.check(&format!("{viewer}GET /users/a"), r#"200 {"counts": {"following": 1}}"#);
        assert!(counts.body["counts"].get("following_quiet").is_none(), "{}", counts.text);
    }
    server.check("GET /users/b", r#"200 {"counts": {"followers": 2, "followers_quiet": 1}}"#);
    let own = server.check("@b GET /users/b", r#"200 {"counts": {"followers": 1}}"#);
    assert!(own.body["counts"].get("followers_quiet").is_none(), "{}", own.text);
    server.check("GET /users/b/followers", r#"200 {"total": 2}"#);
}

#[test]
fn pages_go_on_past_rows_that_are_hidden() {
    let server = Server::start();
    server.check("PUT /users/b", "201");
    for number in 0..12 {
        server.check(&format!("PUT /users/q{number}"), "201");
        let quiet = !matches!(number, 0 | 6);
        server.check(&format!(r#"@q{number} POST /users/b/follow {{"quiet": {quiet}}}"#), "201");
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = server.check(&format!("@b GET /users/b/followers?limit=2{cursor}"), r#"200 {"total": 2}"#);
        seen.extend(reply.ids().iter().map(|id| (*id).to_owned()));
        let Some(next) = reply.body["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["q6", "q0"]);
}

#[test]
fn hidden_lists_are_hidden_and_checks_do_not_tell() {
    let server = Server::start();
    for id in ["fan", "friend", "other"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check_all(&[
        ("PUT /users/shy", "201"),
        ("@friend POST /users/shy/follow", "201"),
        ("@shy POST /users/friend/follow", "201"),
        (r#"PATCH /users/shy {"private": true}"#, "200"),
        ("@fan GET /users/shy/followers", "403 lists_hidden"),
        ("@fan GET /users/shy/following", "403 lists_hidden"),
        ("@shy GET /users/shy/followers", "200"),
        ("@friend GET /users/shy/followers", r#"200 {"total": 1}"#),
        ("GET /users/shy/followers", "200"),
        ("@fan GET /users/shy", r#"200 {"counts": {"followers": 1, "following": 1}}"#),
        // The friend's own list shows the edge, so a check may tell.
        ("@fan GET /users/friend/is-following/shy", r#"200 {"following": true}"#),
        (r#"PATCH /users/friend {"hide_lists": true}"#, "200"),
        ("@fan GET /users/friend/is-following/shy", r#"200 {"following": false}"#),
        ("@fan GET /users/friend/following/shy", "404 not_found"),
        (
            r#"@fan POST /checks {"pairs": [["friend", "shy"], ["shy", "friend"]]}"#,
            r#"200 {"results": [false, false]}"#,
        ),
        ("GET /users/friend/is-following/shy", r#"200 {"following": true}"#),
        ("@shy GET /users/friend/is-following/shy", r#"200 {"following": true}"#),
        ("@fan GET /users/friend/followers", "403 lists_hidden"),
        ("@shy GET /users/friend/followers", "403 lists_hidden"),
        ("@friend GET /users/friend/followers", "200"),
        ("@other POST /users/shy/follow", "202"),
        ("@other GET /users/shy/followers", "403 lists_hidden"),
        ("@fan GET /users/other/following/shy", "404 not_found"),
    ]);
}
