use super::server::Server;

#[test]
fn one_object_comes_back_for_each_asked_id() {
    let server = Server::start();
    for id in ["me", "friend", "fan", "idol"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check(r#"PUT /users/shy {"private": true}"#, "201");
    for edge in ["me/following/friend", "friend/following/me", "fan/following/me", "me/following/idol"] {
        server.check(&format!("PUT /users/{edge}"), "201");
    }
    server.check("PUT /users/me/following/shy", "202");
    let none = r#""following": false, "followed_by": false, "mutual": false, "requested": false, "blocking": false,
        "blocked_by": false, "muting": false, "quiet": false, "since": null"#;
    let expected = format!(
        r#"200 {{"data": [
        {{"id": "friend", "unknown": false, "following": true, "followed_by": true, "mutual": true, "since": "*"}},
        {{"id": "nobody", "unknown": true, {none}}},
        {{"id": "fan", "following": false, "followed_by": true, "mutual": false, "since": null}},
        {{"id": "shy", "following": false, "requested": true, "since": null}},
        {{"id": "friend", "mutual": true}},
        {{"id": "me", "unknown": false, {none}}}]}}"#
    );
    server.check("@me GET /users/me/relationships?id=friend&id=nobody&id=fan&id=shy&id=friend&id=me", &expected);
    let body = r#"{"ids": ["friend", "nobody", "fan", "shy", "friend", "me"]}"#;
    server.check(&format!("POST /users/me/relationships {body}"), &expected);
    server.check_all(&[
        ("GET /users/me/relationships", r#"200 {"data": []}"#),
        ("GET /users/me/relationships?id=", "400 invalid_id /id"),
        ("GET /users/me/relationships?ids=fan", "400 invalid_request /ids"),
        (r#"POST /users/me/relationships {"ids": ["fan", ""]}"#, "400 invalid_id /ids/1"),
        (r#"POST /users/me/relationships {"id": ["fan"]}"#, "400 invalid_request /id"),
        ("POST /users/me/relationships", "415 unsupported_media_type"),
    ]);
    for (count, by_query, by_body) in
        [(100, "200 {}", "200 {}"), (101, "400 invalid_request /id", "400 invalid_request /ids")]
    {
        let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        server.check(&format!("GET /users/me/relationships?id={}", ids.join("&id=")), by_query);
        let body = serde_json::json!({ "ids": ids });
        let reply = server.check(&format!("POST /users/me/relationships {body}"), by_body);
        assert!(count > 100 || reply.body["data"].as_array().unwrap().len() == count);
    }
}
