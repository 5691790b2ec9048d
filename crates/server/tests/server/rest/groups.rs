//! Groups and history.

use super::server::Server;

fn started() -> Server {
    let server = Server::start();
    for name in ["a", "b", "c", "d", "quiet"] {
        server.check(&format!("PUT /users/{name}"), "201");
    }
    server.check("@a POST /users/b/follow", "201");
    server.check("@c POST /users/a/follow", "201");
    server.check(r#"@quiet POST /users/a/follow {"quiet": true}"#, "201");
    server
}

#[test]
fn a_group_is_made_renamed_filled_and_deleted() {
    let server = started();
    let made = server.check(
        r#"@a POST /users/a/groups {"name": "Friends"}"#,
        r#"201 {"id": "*", "name": "Friends", "created_at": "*"}"#,
    );
    let id = made.body["id"].as_str().unwrap().to_owned();
    let at = |request: &str, expected: &str| {
        server.check(&request.replace("{g}", &format!("/users/a/groups/{id}")), expected)
    };
    server.check("@a GET /users/a/groups", r#"200 {"data": [{"name": "Friends"}], "total": 1}"#);
    at(r#"@a PATCH {g} {"name": "Family"}"#, r#"200 {"name": "Family"}"#);
    at("@a PUT {g}/members/b", r#"201 {"member": true, "member_id": "b", "changed": true}"#);
    at("@a PUT {g}/members/b", r#"200 {"changed": false}"#);
    at("@a PUT {g}/members/c", "201");
    at("@a PUT {g}/members/d", "400 invalid_request");
    at("@a PUT {g}/members/nobody", "404 user_not_found");
    let first = at("@a GET {g}/members?limit=1", r#"200 {"has_more": true}"#);
    let next = first.header("link").split('>').next().unwrap().strip_prefix("</api/v1").unwrap();
    let second = server.check(&format!("@a GET {next}"), r#"200 {"has_more": false}"#);
    let mut both = [first.ids(), second.ids()].concat();
    both.sort_unstable();
    assert_eq!(both, ["b", "c"]);
    at("@a DELETE {g}/members/b", r#"200 {"member": false, "changed": true}"#);
    at("@a DELETE {g}/members/b", r#"200 {"changed": false}"#);
    server.check("@a DELETE /users/c/follow", "200");
    server.check("@c DELETE /users/a/follow", "200");
    at("@a GET {g}/members", r#"200 {"data": []}"#);
    for viewer in ["@b", "@d"] {
        for request in ["GET {g}/members", "PUT {g}/members/b", "DELETE {g}", r#"PATCH {g} {"name": "x"}"#] {
            at(&format!("{viewer} {request}"), "403 forbidden");
        }
    }
    at("@a DELETE {g}", r#"200 {"changed": true}"#);
    at("@a DELETE {g}", r#"200 {"changed": false}"#);
    at(r#"@a PATCH {g} {"name": "x"}"#, "404 group_not_found");
    at("@a GET {g}/members", "404 group_not_found");
    at("@a PUT {g}/members/b", "404 group_not_found");
    server.check("@a GET /users/a/groups/none/members", "404 group_not_found");
    let events = server.ask("GET /events?limit=200");
    let of_group = events.body["data"].as_array().unwrap().iter().filter(|event| event["group"] == id.as_str());
    let types: Vec<_> = of_group.map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "group.created",
            "group.updated",
            "group.member_added",
            "group.member_added",
            "group.member_removed",
            "group.removed",
            "group.member_removed"
        ]
    );
}

#[test]
fn a_quiet_follower_is_not_found_out_by_a_group() {
    let server = started();
    let made = server.check(r#"@a POST /users/a/groups {"name": "G"}"#, "201");
    let members = format!("/users/a/groups/{}/members", made.body["id"].as_str().unwrap());
    let stranger = server.check(&format!("@a PUT {members}/d"), "400 invalid_request");
    let quiet = server.check(&format!("@a ^idempotency-key=q PUT {members}/quiet"), "400 invalid_request");
    assert_eq!(stranger.body["detail"], quiet.body["detail"]);
    server.check(&format!("PUT {members}/quiet"), "400 invalid_request");
    // Somebody who was added while they followed openly is no member any more for those who may not know.
    server.check(r#"PUT /users/quiet/following/a {"quiet": false}"#, "200");
    server.check(&format!("PUT {members}/quiet"), "201");
    server.check(r#"PUT /users/quiet/following/a {"quiet": true}"#, "200");
    server.check(&format!("@a GET {members}"), r#"200 {"data": []}"#);
    server.check(&format!("GET {members}"), r#"200 {"data": [{"id": "quiet"}]}"#);
}

#[test]
fn names_are_1_to_100_characters_and_groups_at_most_100() {
    let server = started();
    for name in ["", &"x".repeat(101), r"a\u0007b"] {
        let body = format!(r#"{{"name": "{name}"}}"#);
        server.check(&format!("@a POST /users/a/groups {body}"), "400 invalid_request /name");
    }
    server.check("@a POST /users/a/groups {}", "400 invalid_request /name");
    server.check(&format!(r#"@a POST /users/a/groups {{"name": "{}"}}"#, "é".repeat(100)), "201");
    for number in 1..100 {
        server.check(&format!(r#"@a POST /users/a/groups {{"name": "{number}"}}"#), "201");
    }
    server.check(r#"@a POST /users/a/groups {"name": "one too many"}"#, "422 group_limit");
    server.check("@a GET /users/a/groups", r#"200 {"total": 100}"#);
    server.check(r#"@nobody POST /users/nobody/groups {"name": "x"}"#, "404 actor_not_found");
}

#[test]
fn retries_of_writes_to_groups_have_one_effect() {
    let server = started();
    let make = r#"@a ^idempotency-key=k POST /users/a/groups {"name": "G"}"#;
    let (first, again) = (server.check(make, "201"), server.check(make, "201"));
    assert_eq!((again.header("idempotent-replayed"), &again.body["id"]), ("true", &first.body["id"]));
    server.check("@a GET /users/a/groups", r#"200 {"total": 1}"#);
    let group = format!("/users/a/groups/{}", first.body["id"].as_str().unwrap());
    for (request, status) in [
        (format!(r#"@a ^idempotency-key=r PATCH {group} {{"name": "H"}}"#), "200"),
        (format!("@a ^idempotency-key=m PUT {group}/members/b"), "201"),
        (format!("@a ^idempotency-key=d DELETE {group}"), r#"200 {"changed": true}"#),
    ] {
        server.check(&request, status);
        assert_eq!(server.check(&request, status).header("idempotent-replayed"), "true", "{request}");
    }
    let rename = format!(r#"@a ^idempotency-key=r PATCH {group} {{"name": "H"}}"#);
    assert_eq!(server.check(&rename, "200").header("idempotent-replayed"), "true", "after the group is gone");
}

#[test]
fn history_says_how_each_follow_ended() {
    let server = started();
    server.check(r#"PUT /users/p {"private": true}"#, "201");
    for (begin, end) in [
        ("@a POST /users/d/follow", "@a DELETE /users/d/follow"),
        ("@a POST /users/d/follow", "@d DELETE /users/d/followers/a"),
        ("@a POST /users/p/follow", "@a DELETE /users/p/follow"),
        ("@a POST /users/p/follow", "@p POST /users/p/follow-requests/a/reject"),
        (r#"@a POST /users/d/follow {"quiet": true}"#, "@a DELETE /users/d/follow"),
        ("@a POST /users/c/follow", "@c PUT /users/c/blocks/a"),
    ] {
        server.ask(begin);
        assert!(server.ask(end).status < 300, "{end}");
    }
    let reply = server.check("@a GET /users/a/history", r#"200 {"has_more": false}"#);
    let rows: Vec<String> = reply.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["user"]["id"].as_str().unwrap(), row["how"].as_str().unwrap(), row["quiet"]))
        .collect();
    let expected = [
        "c blocked false",
        "d unfollowed true",
        "p rejected false",
        "p cancelled false",
        "d removed false",
        "d unfollowed false",
    ];
    assert_eq!(rows, expected);
    server.check("GET /users/a/history?limit=2", r#"200 {"has_more": true}"#);
    server.check("@d GET /users/a/history", "403 forbidden");
    server.check("GET /users/nobody/history", "404 user_not_found");
    server.check("DELETE /users/d", "202");
    let shown = server.ask("@a GET /users/a/history").text;
    assert!(!shown.contains(r#""id":"d""#), "{shown}");
    server.work_now();
    server.check("PUT /users/d", "201");
    let shown = server.ask("@a GET /users/a/history").text;
    assert!(!shown.contains(r#""id":"d""#), "the id is somebody else's now: {shown}");
}
