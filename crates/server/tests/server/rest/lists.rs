use std::collections::HashSet;

use super::server::Server;

fn star(followers: usize) -> Server {
    let server = Server::start();
    server.check("PUT /users/star", "201");
    for number in 0..followers {
        server.check(&format!(r#"PUT /users/f{number} {{"name": "F{number}"}}"#), "201");
        server.check(&format!("@f{number} POST /users/star/follow"), "201");
    }
    server
}

#[test]
fn lists_are_newest_first_with_names_and_totals() {
    let server = star(3);
    server.check_all(&[
        (
            "GET /users/star/followers",
            r#"200 {"data": [
                {"id": "f2", "name": "F2", "avatar_url": null, "created_at": "*"}, {"id": "f1"}, {"id": "f0"}],
                "next_cursor": null, "has_more": false, "total": 3}"#,
        ),
        ("GET /users/f0/following", r#"200 {"data": [{"id": "star"}], "total": 1}"#),
        ("GET /users/star/following", r#"200 {"data": [], "next_cursor": null, "has_more": false, "total": 0}"#),
        ("GET /users/nobody/followers", "404 user_not_found"),
        ("GET /users/nobody/following", "404 user_not_found"),
        ("GET /users/star", r#"200 {"counts": {"followers": 3}}"#),
    ]);
}

#[test]
fn paging_shows_everybody_once_whatever_the_page() {
    let server = star(23);
    for limit in [1, 2, 5, 16, 23, 53] {
        let mut seen = Vec::new();
        let mut path = format!("/api/v1/users/star/followers?limit={limit}");
        loop {
            let reply = server.check(&format!("GET /{path}"), r#"200 {"total": 23}"#);
            seen.extend(reply.ids().iter().map(|id| (*id).to_owned()));
            let links: Vec<&str> = reply.header("link").split(", ").collect();
            let first = format!("</api/v1/users/star/followers?limit={limit}>; rel=\"first\"");
            assert_eq!(links.last(), Some(&first.as_str()));
            let next = links.iter().find_map(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
            assert_eq!(reply.body["has_more"], next.is_some());
            assert_eq!(reply.body["next_cursor"].is_null(), next.is_none());
            let Some(link) = next else {
                break;
            };
            path = link.to_owned();
        }
        let expected: Vec<String> = (0..23).rev().map(|number| format!("f{number}")).collect();
        assert_eq!(seen, expected, "limit {limit}");
    }
}

#[test]
fn paging_survives_writes_and_the_loss_of_its_own_row() {
    let server = star(10);
    let first = server.check("GET /users/star/followers?limit=4", "200 {}");
    let cursor = first.body["next_cursor"].as_str().unwrap().to_owned();
    server.check("@f6 DELETE /users/star/follow", r#"200 {"changed": true}"#);
    server.check("PUT /users/late", "201");
    server.check("@late POST /users/star/follow", "201");
    let second = server.check(&format!("GET /users/star/followers?limit=200&cursor={cursor}"), "200 {}");
    assert_eq!(first.ids(), ["f9", "f8", "f7", "f6"]);
    assert_eq!(second.ids(), ["f5", "f4", "f3", "f2", "f1", "f0"]);
    let all: HashSet<&str> = first.ids().into_iter().chain(second.ids()).collect();
    assert_eq!(all.len(), 10);
}

#[test]
fn limits_and_cursors_are_checked() {
    let server = star(3);
    let page = server.check("GET /users/star/followers?limit=1", "200 {}");
    let cursor = page.body["next_cursor"].as_str().unwrap();
    let mut flipped = cursor.to_owned();
    flipped.replace_range(8..9, if &cursor[8..9] == "A" { "B" } else { "A" });
    let token = server.check("@f0 POST /users/f1/follow", "201 {}").token();
    let requests = [
        format!("GET /users/star/following?cursor={cursor}"),
        format!("GET /users/f0/followers?cursor={cursor}"),
        format!("@f0 GET /users/star/followers?cursor={cursor}"),
        format!("GET /users/star/followers?cursor={flipped}"),
        format!("GET /users/star/followers?cursor={token}"),
        format!("GET /events?after={cursor}"),
        "GET /users/star/followers?cursor=".to_owned(),
        "GET /users/star/followers?cursor=%00".to_owned(),
    ];
    for request in requests {
        server.check(&request, "400 invalid_cursor");
    }
    server.check(
        &format!("GET /users/star/followers?cursor={cursor}&limit=200"),
        r#"200 {"data": [{"id": "f1"}, {"id": "f0"}]}"#,
    );
    for limit in ["0", "201", "-1", "ten", "", "1.5", "99999999999999999999", "%2010"] {
        server.check(&format!("GET /users/star/followers?limit={limit}"), "400 invalid_request /limit");
        server.check(&format!("GET /events?limit={limit}"), "400 invalid_request /limit");
        server.check(&format!("GET /users/star/blocks?limit={limit}"), "400 invalid_request /limit");
    }
    server.check_all(&[
        ("GET /users/star/followers?limit=200", "200"),
        ("GET /users/star/followers?limit=1&limit=2", "400 invalid_request /limit"),
        ("GET /users/star/followers?offset=3", "400 invalid_request /offset"),
    ]);
}
