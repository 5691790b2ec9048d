use super::server::Server;

#[test]
fn the_board_is_current_and_counts_what_everybody_may_know() {
    let server = Server::start();
    for id in ["a", "b", "c", "d"] {
        server.check(&format!(r#"PUT /users/{id} {{"name": "{}"}}"#, id.to_uppercase()), "201");
    }
    server.check("GET /leaderboards/followers", r#"200 {"data": [], "next_cursor": null, "has_more": false}"#);
    for edge in ["a/following/b", "c/following/b", "d/following/b", "a/following/c", "b/following/c", "a/following/d"] {
        server.check(&format!("PUT /users/{edge}"), "201");
    }
    server.check_all(&[
        (
            "GET /leaderboards/followers",
            r#"200 {"data": [
                {"rank": 1, "id": "b", "name": "B", "avatar_url": null, "created_at": "*", "followers": 3},
                {"rank": 2, "id": "c", "followers": 2}, {"rank": 3, "id": "d", "followers": 1}], "has_more": false}"#,
        ),
        (r#"PUT /users/c/following/d {"quiet": true}"#, "201"),
        (r#"PUT /users/d/following/b {"quiet": true}"#, "200"),
        ("DELETE /users/b/following/c", "200"),
        ("DELETE /users/a/following/b", "200"),
        ("PUT /users/b/following/d", "201"),
        (
            "GET /leaderboards/followers?limit=1",
            r#"200 {"data": [{"rank": 1, "id": "d", "followers": 2}], "has_more": true}"#,
        ),
        ("GET /leaderboards/followers?limit=201", "400 invalid_request /limit"),
        ("GET /leaderboards/followers?cursor=x", "400 invalid_cursor"),
        ("PUT /users/d/blocks/b", "201"),
        (r#"POST /follows:batch {"operations": [{"op": "follow", "follower": "d", "target": "a"}]}"#, "200"),
    ]);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let reply = server.check(&format!("GET /leaderboards/followers?limit=1{cursor}"), "200 {}");
        seen.push(format!("{} {}", reply.body["data"][0]["followers"], reply.body["data"][0]["rank"]));
        let Some(next) = reply.body["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["1 1", "1 2", "1 3", "1 4"]);
}
