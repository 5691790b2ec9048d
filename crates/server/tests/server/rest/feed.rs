//! Feeds: whose posts, in which order, page by page, and why.

use std::time::{Duration, Instant};

use entourage_server::Audit;
use entourage_service::{FeedRules, Limits, Rules};
use serde_json::Value;

use super::{
    credentials::Credentials,
    server::{Server, memory_store},
};

pub(crate) fn with_rules(feed: FeedRules) -> Server {
    Server::with(memory_store(1), Rules { limits: Limits::NONE, feed, ..Rules::default() })
}

pub(crate) fn users(server: &Server, names: &[&str]) {
    for name in names {
        server.check(&format!(r#"PUT /users/{name} {{"name": "Name of {name}"}}"#), "201");
    }
}

/// A post that says who wrote it; its id.
pub(crate) fn post(server: &Server, author: &str) -> String {
    let made = server.check(&format!(r#"@{author} POST /posts {{"body": {{"by":"{author}"}}}}"#), "201");
    made.body["id"].as_str().unwrap().to_owned()
}

/// The ids of all pages.
pub(crate) fn walk(server: &Server, path: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.check(&format!("GET {path}?limit={limit}{cursor}"), r#"200 {"partial": false}"#);
        let ids = page.ids();
        assert!(ids.len() <= limit);
        found.extend(ids.into_iter().map(str::to_owned));
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[test]
fn a_post_is_in_its_followers_feeds_at_once() {
    let server = with_rules(FeedRules::default());
    users(&server, &["ann", "bob", "cleo"]);
    server.check("@bob POST /users/ann/follow", "201");
    server.check("@bob GET /users/bob/feed", r#"200 {"data": [], "next_cursor": null, "has_more": false}"#);
    for number in 0..20 {
        let made = server.check(&format!(r#"@ann POST /posts {{"body": {{"n":{number}}}}}"#), "201");
        // With the token and without.
        for head in [String::new(), format!("^entourage-token={} ", made.token())] {
            let newest = server.check(&format!("{head}@bob GET /users/bob/feed?limit=1"), "200");
            assert_eq!(newest.body["data"][0]["id"], made.body["id"]);
            let row = &newest.body["data"][0];
            assert_eq!((&row["author"], &row["body"]["n"]), (&"ann".into(), &number.into()));
            assert_eq!((&row["profile"]["name"], &row["edited_at"]), (&"Name of ann".into(), &Value::Null));
        }
    }
    server.check_all(&[
        ("@ann GET /users/ann/feed?limit=1", r#"200 {"data": [{"author": "ann", "profile": {"avatar_url": null}}]}"#),
        ("@cleo GET /users/cleo/feed", r#"200 {"data": []}"#),
        ("@cleo GET /users/bob/feed", "403 forbidden"),
        ("GET /users/nobody/feed", "404 user_not_found"),
        ("GET /users/bob/feed?limit=0", "400 invalid_request /limit"),
        ("GET /users/bob/feed?limit=201", "400 invalid_request /limit"),
        ("GET /users/bob/feed?cursor=x", "400 invalid_cursor"),
        ("GET /users/bob/feed?after=x", "400 invalid_request /after"),
    ]);
}

#[test]
fn a_page_has_twenty_posts_unless_it_is_asked_for_more() {
    let server = with_rules(FeedRules::default());
    users(&server, &["ann", "bob"]);
    server.check("@bob POST /users/ann/follow", "201");
    let mut posts: Vec<String> = (0..25).map(|_| post(&server, "ann")).collect();
    posts.reverse();
    let page = server.check("@bob GET /users/bob/feed", r#"200 {"has_more": true, "partial": false}"#);
    assert_eq!(page.ids(), posts[..20]);
    let next = page.body["next_cursor"].as_str().unwrap();
    assert!(page.header("link").contains(&format!("cursor={next}&limit=20>; rel=\"next\"")), "{}", page.header("link"));
    let rest = server.check(&format!("@bob GET /users/bob/feed?cursor={next}"), r#"200 {"has_more": false}"#);
    assert_eq!(rest.ids(), posts[20..]);
    assert_eq!(server.check("GET /users/bob/feed?limit=200", "200").ids(), posts);
    // A cursor is its viewer's and its list's own.
    server.check(&format!("GET /users/bob/feed?cursor={next}"), "400 invalid_cursor");
    server.check(&format!("@ann GET /users/ann/feed?cursor={next}"), "400 invalid_cursor");
    server.check(&format!("@bob GET /users/bob/posts?cursor={next}"), "400 invalid_cursor");
}

/// Pushed, pulled and below the floor, with own posts, deleted ones and some of nobody's concern between them.
#[test]
fn pages_of_any_size_have_every_post_once() {
    let server = with_rules(FeedRules { inbox_cap: 8, ..FeedRules::default() });
    users(&server, &["me", "a", "b", "c", "star", "stranger"]);
    for author in ["a", "b", "c", "star"] {
        server.check(&format!("@me POST /users/{author}/follow"), "201");
    }
    let mut posts = Vec::new();
    for round in 0..12 {
        if round == 4 {
            server.check(r#"PUT /admin/users/star/fanout {"mode": "pull"}"#, "200");
        }
        for author in ["a", "b", "star", "c", "me", "stranger"] {
            let id = post(&server, author);
            if author != "stranger" {
                posts.push(id);
            }
        }
        let gone = posts.swap_remove(posts.len() - 1 - round % 4);
        server.check(&format!("DELETE /posts/{gone}"), "200");
    }
    posts.sort_by_key(|id| std::cmp::Reverse(id.parse::<u64>().unwrap()));
    for limit in [1, 2, 5, 16, 53, 100] {
        assert_eq!(walk(&server, "/users/me/feed", limit), posts, "limit {limit}");
    }
    for _ in 0..2 {
        server.check("DELETE /admin/users/me/feed", r#"200 {"id": "me", "forgotten": true}"#);
        assert_eq!(walk(&server, "/users/me/feed", 7), posts, "after the inbox was forgotten");
        server.check("POST /admin/users/me/feed/rebuild", r#"200 {"id": "me", "rebuilt": true}"#);
        assert_eq!(walk(&server, "/users/me/feed", 3), posts, "after it was built anew");
    }
}

#[test]
fn a_groups_feed_has_its_followed_members() {
    let server = with_rules(FeedRules::default());
    users(&server, &["me", "a", "b", "fan"]);
    let made = server.check(r#"@me POST /users/me/groups {"name": "G"}"#, "201");
    let group = format!("/users/me/groups/{}", made.body["id"].as_str().unwrap());
    for request in ["@me POST /users/a/follow", "@me POST /users/b/follow", "@fan POST /users/me/follow"] {
        server.check(request, "201");
    }
    for member in ["a", "fan"] {
        server.check(&format!("@me PUT {group}/members/{member}"), "201");
    }
    let posts: Vec<String> = ["a", "b", "fan", "me", "a"].iter().map(|author| post(&server, author)).collect();
    let feed = format!("{group}/feed");
    for limit in 1..4 {
        assert_eq!(walk(&server, &feed, limit), [posts[4].clone(), posts[0].clone()]);
    }
    server.check("@me PUT /users/me/mutes/a", "201");
    server.check(&format!("@me GET {feed}"), r#"200 {"data": []}"#);
    server.check("@me DELETE /users/me/mutes/a", "200");
    server.check("@me POST /users/fan/follow", "201");
    assert_eq!(walk(&server, &feed, 2), [4, 2, 0].map(|at: usize| posts[at].clone()));
    server.check(&format!("@a GET {feed}"), "403 forbidden");
    server.check("@me GET /users/me/groups/7/feed", "404 group_not_found");
    server.check("@me GET /users/me/groups/none/feed", "404 group_not_found");
}

/// Until the post was delivered.
fn because(server: &Server, reader: &str, id: &str, wanted: &str) {
    let (started, request) = (Instant::now(), format!("@{reader} GET /users/{reader}/feed/explain/{id}"));
    loop {
        let told = server.check(&request, "200");
        let is_shown = !["not_followed", "muted", "blocked"].contains(&wanted);
        if told.body["because"] == wanted {
            assert_eq!((&told.body["shown"], &told.body["post_id"]), (&is_shown.into(), &id.into()), "{}", told.text);
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{wanted} is not {}", told.text);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_line_of_a_feed_is_explained() {
    let server = with_rules(FeedRules { inbox_cap: 3, pull_above_following: Some(2), ..FeedRules::default() });
    users(&server, &["me", "many", "a", "star", "x", "y", "z", "foe"]);
    server.check(r#"PUT /users/pam {"private": true}"#, "201");
    server.check(r#"PUT /admin/users/star/fanout {"mode": "pull"}"#, "200");
    for (reader, author) in [("me", "a"), ("me", "star"), ("many", "x"), ("many", "y"), ("many", "z")] {
        server.check(&format!("@{reader} POST /users/{author}/follow"), "201");
    }
    server.check("@me GET /users/me/feed", "200");
    let posts: Vec<String> = (0..8).map(|_| post(&server, "a")).collect();
    let [star, own, x, y, pam, foe] = ["star", "me", "x", "y", "pam", "foe"].map(|author| post(&server, author));
    because(&server, "me", &posts[7], "pushed");
    because(&server, "me", &posts[0], "below_floor");
    because(&server, "me", &star, "pulled");
    because(&server, "me", &own, "own");
    // An inbox that is made anew holds what was pulled as well; how a post travels was said when it was written.
    server.check("DELETE /admin/users/me/feed", "200");
    server.check("@me GET /users/me/feed", "200");
    because(&server, "me", &star, "pulled");
    because(&server, "me", &posts[7], "pushed");
    because(&server, "me", &x, "not_followed");
    because(&server, "many", &x, "no_inbox");
    server.check("@me PUT /users/me/mutes/a", "201");
    because(&server, "me", &posts[7], "muted");
    server.check("@foe PUT /users/foe/blocks/me", "201");
    server.check_all(&[
        // Who blocks them is not there for them.
        (&format!("@me GET /users/me/feed/explain/{foe}"), "404 post_not_found"),
        (&format!("GET /users/me/feed/explain/{foe}"), r#"200 {"because": "blocked", "shown": false}"#),
    ]);
    // Their own block explains what they would see without it, and nothing else.
    for author in ["foe", "pam", "y"] {
        server.check(&format!("@me PUT /users/me/blocks/{author}"), "201");
    }
    because(&server, "me", &y, "blocked");
    server.check_all(&[
        (&format!("@me GET /users/me/feed/explain/{foe}"), "404 post_not_found"),
        (&format!("@me GET /users/me/feed/explain/{pam}"), "404 post_not_found"),
        ("@me DELETE /users/me/blocks/pam", "200"),
        // What they may not see is not there for them; a service hears why.
        (&format!("@me GET /users/me/feed/explain/{pam}"), "404 post_not_found"),
        (&format!("GET /users/me/feed/explain/{pam}"), r#"200 {"because": "not_followed", "author": "pam"}"#),
        ("@me GET /users/me/feed/explain/7", "404 post_not_found"),
        ("@me GET /users/me/feed/explain/none", "404 post_not_found"),
        (&format!("@x GET /users/me/feed/explain/{x}"), "403 forbidden"),
        (&format!("GET /users/nobody/feed/explain/{x}"), "404 user_not_found"),
    ]);
}

#[test]
fn who_reads_their_feed_exists_where_ids_do_on_first_use() {
    let server = Server::with(memory_store(1), Rules { auto_create: true, ..Rules::default() });
    server.check("@reader GET /users/other/feed", "403 forbidden");
    server.check("GET /users/other", "404 user_not_found");
    server.check("@reader GET /users/reader/feed", r#"200 {"data": []}"#);
    server.check("GET /users/reader", r#"200 {"id": "reader"}"#);
    with_rules(FeedRules::default()).check("@reader GET /users/reader/feed", "404 user_not_found");
}

#[test]
fn an_admin_decides_how_posts_travel_and_it_is_written_down() {
    let credentials = Credentials::new();
    let path = credentials.path("audit.log");
    let front = credentials.front_with(Audit::open(Some(&path)).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let boss = format!("!{}", credentials.admin_key);
    for user in ["ann", "bob"] {
        server.check(&format!("{boss} PUT /users/{user}"), "201");
    }
    server.check(&format!("{boss} PUT /users/bob/following/ann"), "201");
    let fanout = "/admin/users/ann/fanout";
    server.check(&format!("{boss} GET {fanout}"), r#"200 {"id": "ann", "mode": "auto", "pulls": false}"#);
    for (mode, pulls) in [("pull", true), ("push", false), ("auto", false)] {
        let done = server.check(
            &format!(r#"{boss} PUT {fanout} {{"mode": "{mode}"}}"#),
            &format!(r#"200 {{"id": "ann", "mode": "{mode}"}}"#),
        );
        assert!(!done.token().is_empty());
        server.check(&format!("{boss} GET {fanout}"), &format!(r#"200 {{"mode": "{mode}", "pulls": {pulls}}}"#));
        server.check(&format!(r#"{boss} @ann POST /posts {{"body": {{}}}}"#), "201");
    }
    assert_eq!(server.check(&format!("{boss} GET /users/bob/feed"), "200").ids().len(), 3);
    for body in [r#"{"mode": "both"}"#, r#"{"mode": null}"#, r#"{"mode": {"pull": null}}"#, "{}"] {
        server.check(&format!("{boss} PUT {fanout} {body}"), "400 invalid_request /mode");
    }
    let standing = server.check(&format!("{boss} GET /admin/feed"), r#"200 {"streams": 0, "pulled_authors": 1}"#);
    let names = standing.body["lanes"].as_array().unwrap().iter().map(|lane| lane["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["small", "medium", "large"]);
    assert!(standing.body["lanes"][0]["lag_seconds"].is_number() && standing.body["inbox_bytes"].as_u64() > Some(0));
    for request in ["PUT /admin/users/x/fanout {\"mode\": \"pull\"}", "GET /admin/users/x/fanout"] {
        server.check(&format!("{boss} {request}"), "404 user_not_found");
    }
    for request in ["POST /admin/users/x/feed/rebuild", "DELETE /admin/users/x/feed"] {
        server.check(&format!("{boss} {request}"), "404 user_not_found");
    }
    let lines = std::fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["action"], &last["result"]), (&"admin".into(), &"user_not_found".into()), "{last}");
    let written = lines.lines().filter(|line| line.contains("/admin/users/ann/fanout")).count();
    // What may change something is written down before and after.
    assert_eq!(written, 1 + 3 * (2 + 1) + 4 * 2);
}
