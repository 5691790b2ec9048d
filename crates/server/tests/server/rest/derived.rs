use entourage_service::{Limits, Rules};
use serde_json::{Value, json};

use super::server::{Server, memory_store};

/// `hub` follows everybody; every third follows back, every second follows `idol`.
fn hub(people: usize) -> Server {
    let server = Server::with(memory_store(1), Rules { auto_create: true, limits: Limits::NONE, ..Rules::default() });
    let mut operations: Vec<Value> = Vec::new();
    for number in 0..people {
        let id = number.to_string();
        operations.push(json!({ "op": "follow", "follower": "hub", "target": id }));
        if number % 3 == 0 {
            operations.push(json!({ "op": "follow", "follower": id, "target": "hub" }));
        }
        if number % 2 == 0 {
            operations.push(json!({ "op": "follow", "follower": id, "target": "idol" }));
            operations.push(json!({ "op": "follow", "follower": "idol", "target": id }));
        }
    }
    for chunk in operations.chunks(1_000) {
        server.check(&format!("POST /follows:batch {}", json!({ "operations": chunk })), "200");
    }
    server
}

fn paged(server: &Server, request: &str, limit: usize) -> (Vec<usize>, usize) {
    let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let reply = server.check(&format!("{request}?limit={limit}{cursor}"), "200 {}");
        assert!(reply.body.get("total").is_none(), "counting would be work");
        assert!(reply.ids().len() <= limit);
        assert!(reply.header("link").contains("rel=\"first\""));
        assert_eq!(reply.header("link").contains("rel=\"next\""), reply.body["has_more"] == true);
        seen.extend(reply.ids().iter().map(|id| id.parse::<usize>().unwrap()));
        pages += 1;
        let Some(next) = reply.body["next_cursor"].as_str() else { return (seen, pages) };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn derived_lists_are_exact_in_the_order_of_the_driving_list_whatever_the_page() {
    let server = hub(120);
    let all = |keep: fn(&usize) -> bool| (0..120).rev().filter(keep).collect::<Vec<usize>>();
    for limit in [1, 2, 7, 40, 200] {
        for (request, expected) in [
            ("GET /users/hub/mutuals", all(|number| number % 3 == 0)),
            ("GET /users/hub/not-following-back", all(|number| number % 3 != 0)),
            ("GET /users/hub/common-following/idol", all(|number| number % 2 == 0)),
            ("@hub GET /users/idol/followers-you-know", all(|number| number % 2 == 0)),
            ("GET /users/hub/common-followers/idol", all(|number| number % 6 == 0)),
            ("GET /users/idol/common-followers/hub", all(|number| number % 6 == 0)),
        ] {
            let (seen, pages) = paged(&server, request, limit);
            assert_eq!(seen, expected, "{request} by {limit}");
            assert_eq!(pages, expected.len().div_ceil(limit), "{request} by {limit}: no page is empty");
            let number = expected.len();
            let counted = format!(r#"200 {{"total": {number}, "total_is_exact": true}}"#);
            server.check(&format!("{request}?limit={limit}&count=true"), &counted);
        }
    }
}

#[test]
fn a_number_is_added_where_it_is_asked_for() {
    let server = hub(30);
    let reply = server.check("GET /users/hub/mutuals?count=false&limit=3", "200");
    assert!(reply.body.get("total").is_none() && reply.body.get("total_is_exact").is_none());
    let reply = server.check("GET /users/hub/mutuals?count=true&limit=3", r#"200 {"total": 10, "has_more": true}"#);
    assert!(!reply.header("link").contains("count"), "the next page is not counted again");
    // A number of what the viewer may see, whatever page it comes with.
    let cursor = reply.body["next_cursor"].as_str().unwrap();
    server.check(&format!("GET /users/hub/mutuals?count=true&limit=3&cursor={cursor}"), r#"200 {"total": 10}"#);
    server.check("PUT /users/0/blocks/3", "201");
    server.check("@3 GET /users/hub/mutuals?count=true", r#"200 {"total": 9, "total_is_exact": true}"#);
    server.check(r#"PATCH /users/6 {"private": true}"#, "200");
    server.check("@3 GET /users/hub/mutuals?count=true", r#"200 {"total": 8}"#);
    server.check("GET /users/hub/mutuals?count=true", r#"200 {"total": 10}"#);
    for path in ["hub/mutuals", "hub/not-following-back", "hub/common-following/idol", "hub/common-followers/idol"] {
        server.check(&format!("GET /users/{path}?count=perhaps"), "400 invalid_request /count");
    }
    server.check("GET /users/hub/followers?count=true", "400 invalid_request /count");
}

#[test]
fn the_shorter_list_of_followers_drives_from_the_first_page_to_the_last() {
    let server = hub(60);
    // `hub` has 20 followers, `idol` 30: until enough others follow `hub`, and meanwhile pages are read.
    let first = server.check("GET /users/idol/common-followers/hub?limit=4", r#"200 {"has_more": true}"#);
    let mut seen: Vec<String> = first.ids().into_iter().map(str::to_owned).collect();
    for number in (1..60).filter(|number| number % 3 == 1) {
        server.check(&format!("PUT /users/{number}/following/hub"), "201");
    }
    let mut cursor = first.body["next_cursor"].as_str().unwrap().to_owned();
    loop {
        let page = server.check(&format!("GET /users/idol/common-followers/hub?limit=4&cursor={cursor}"), "200");
        seen.extend(page.ids().into_iter().map(str::to_owned));
        let Some(next) = page.body["next_cursor"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(seen, (0..60).rev().filter(|n| n % 6 == 0).map(|n| n.to_string()).collect::<Vec<_>>());
    server.check(&format!("GET /users/hub/common-following/idol?cursor={cursor}"), "400 invalid_cursor");
    server.check("GET /users/hub/common-followers/nobody", "404 user_not_found");
    server.check(r#"PATCH /users/hub {"hide_lists": true}"#, "200");
    server.check("@1 GET /users/hub/common-followers/idol", "403 lists_hidden");
    server.check("@1 GET /users/idol/common-followers/hub", "403 lists_hidden");
}

#[test]
fn a_long_list_without_a_hit_is_one_empty_page() {
    let server = hub(3_001);
    let (seen, pages) = paged(&server, "GET /users/hub/common-following/3000", 200);
    assert_eq!((seen.len(), pages), (0, 1));
    let (seen, pages) = paged(&server, "GET /users/hub/common-followers/3000", 200);
    assert_eq!((seen.len(), pages), (0, 1));
    let (seen, _) = paged(&server, "GET /users/hub/mutuals", 200);
    assert_eq!(seen, (0..3_001).rev().filter(|number| number % 3 == 0).collect::<Vec<_>>());
}

#[test]
fn cursors_belong_to_one_derived_list_of_one_pair_and_one_viewer() {
    let server = hub(12);
    let lists = [
        "GET /users/hub/following",
        "GET /users/hub/mutuals",
        "GET /users/hub/not-following-back",
        "GET /users/hub/common-following/idol",
        "GET /users/hub/common-following/hub",
        "GET /users/hub/common-followers/idol",
        "@hub GET /users/idol/followers-you-know",
        "@hub GET /users/hub/followers-you-know",
        "@hub GET /users/hub/mutuals",
        "@idol GET /users/hub/mutuals",
        "GET /leaderboards/followers",
    ];
    for made in lists {
        let reply = server.check(&format!("{made}?limit=1"), r#"200 {"next_cursor": "*"}"#);
        let cursor = reply.body["next_cursor"].as_str().unwrap().to_owned();
        for used in lists {
            let expected = if made == used { "200" } else { "400 invalid_cursor" };
            server.check(&format!("{used}?limit=1&cursor={cursor}"), expected);
        }
        let cut = &cursor[..cursor.len() - 1];
        server.check(&format!("{made}?limit=1&cursor={cut}"), "400 invalid_cursor");
    }
    for path in [
        "hub/mutuals",
        "hub/not-following-back",
        "hub/common-following/idol",
        "hub/mutes",
        "hub/follow-requests",
        "hub/common-followers/idol",
    ] {
        for limit in ["0", "201", "-1", "ten"] {
            server.check(&format!("GET /users/{path}?limit={limit}"), "400 invalid_request /limit");
        }
    }
    server.check("GET /users/idol/followers-you-know", "400 invalid_request");
}

#[test]
fn distances_are_found_up_to_three() {
    let server = Server::start();
    for id in ["a", "b", "c", "d", "e", "island"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    for edge in ["a/following/b", "b/following/c", "c/following/d", "d/following/e"] {
        server.check(&format!("PUT /users/{edge}"), "201");
    }
    server.check_all(&[
        ("GET /users/a/distance/a", r#"200 {"distance": 0}"#),
        ("GET /users/a/distance/b", r#"200 {"distance": 1}"#),
        ("GET /users/a/distance/c", r#"200 {"distance": 2}"#),
        ("GET /users/a/distance/d", r#"200 {"distance": 3}"#),
        ("GET /users/a/distance/e", r#"200 {"distance": null}"#),
        ("GET /users/b/distance/a", r#"200 {"distance": null}"#),
        ("GET /users/a/distance/island", r#"200 {"distance": null}"#),
    ]);
}
