//! Who sees what: each row of the table of visibility on every route that could reveal an edge, for every kind of
//! viewer. `-` is a service.

use super::server::Server;

/// A world of users and edges: `a>b` follows, `a~b` follows quietly, `a!b` blocks, `a#b` mutes.
fn world(users: &str, edges: &str) -> Server {
    let server = Server::start();
    for id in users.split_whitespace() {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    for edge in edges.split_whitespace() {
        let (a, b) = edge.split_once(['>', '~', '!', '#']).unwrap();
        let request = match edge.chars().find(|c| !c.is_alphanumeric()).unwrap() {
            '>' => format!("PUT /users/{a}/following/{b}"),
            '~' => format!(r#"PUT /users/{a}/following/{b} {{"quiet": true}}"#),
            '!' => format!("PUT /users/{a}/blocks/{b}"),
            _ => format!("PUT /users/{a}/mutes/{b}"),
        };
        server.check(&request, "201");
    }
    server
}

/// Each row: viewers, path (below `/users` unless it starts with `/`), and what they see: ids of a list in their order, a problem, or JSON.
fn check_views(server: &Server, table: &[(&str, &str, &str)]) {
    for (viewers, path, expected) in table {
        for viewer in viewers.split_whitespace() {
            let actor = if viewer == "-" { String::new() } else { format!("@{viewer} ") };
            let path = if path.starts_with('/') { (*path).to_owned() } else { format!("/users/{path}") };
            let request = format!("{actor}GET {path}");
            if expected.starts_with('[') {
                let reply = server.check(&request, "200 {}");
                assert_eq!(format!("[{}]", reply.ids().join(" ")), *expected, "{request}");
            } else {
                server.check(&request, expected);
            }
        }
    }
}

#[test]
fn a_quiet_edge() {
    let server = world("a b c d", "a~b b>a a>c c>b d>a d>b");
    check_views(
        &server,
        &[
            ("a -", "a/following", "[c b]"),
            ("b c d", "a/following", "[c]"),
            ("a -", "b/followers", "[d c a]"),
            ("b c d", "b/followers", "[d c]"),
            ("-", "b/followers", r#"200 {"total": 3}"#),
            ("a b c d", "b/followers", r#"200 {"total": 2}"#),
            ("a -", "a", r#"200 {"counts": {"following": 2}}"#),
            ("b c d", "a", r#"200 {"counts": {"following": 1}}"#),
            ("a -", "a/is-following/b", r#"200 {"following": true}"#),
            ("b c d", "a/is-following/b", r#"200 {"following": false, "since": null}"#),
            ("a -", "a/following/b", r#"200 {"quiet": true}"#),
            ("b c d", "a/following/b", "404 not_found"),
            ("a -", "a/relationships?id=b", r#"200 {"data": [{"following": true, "quiet": true, "mutual": true}]}"#),
            (
                "b c d",
                "a/relationships?id=b",
                r#"200 {"data": [{"following": false, "quiet": false, "mutual": false, "followed_by": true, "since": null}]}"#,
            ),
            ("a -", "b/relationships?id=a", r#"200 {"data": [{"followed_by": true}]}"#),
            ("b c d", "b/relationships?id=a", r#"200 {"data": [{"following": true, "followed_by": false}]}"#),
            ("b", "a", r#"200 {"relationship": {"following": true, "followed_by": false, "mutual": false}}"#),
            ("a", "b", r#"200 {"relationship": {"following": true, "quiet": true, "mutual": true}}"#),
            ("a -", "a/mutuals", "[b]"),
            ("b c d", "a/mutuals", "[]"),
            ("a -", "b/mutuals", "[a]"),
            ("b c d", "b/mutuals", "[]"),
            ("a -", "b/not-following-back", "[]"),
            ("b c d", "b/not-following-back", "[a]"),
            ("a -", "a/not-following-back", "[c]"),
            ("b c d", "a/not-following-back", "[c]"),
            ("a -", "a/common-following/d", "[b]"),
            ("b c d", "a/common-following/d", "[]"),
            ("a -", "d/common-following/a", "[b]"),
            ("b c d", "d/common-following/a", "[]"),
            ("d", "b/followers-you-know", "[]"),
            ("a", "b/followers-you-know", "[c]"),
            ("a -", "a/distance/b", r#"200 {"distance": 1}"#),
            ("b c d", "a/distance/b", r#"200 {"distance": 2}"#),
            (
                "a b c d -",
                "/leaderboards/followers",
                r#"200 {"data": [{"followers": 2}, {"followers": 2}, {"id": "c", "followers": 1}]}"#,
            ),
        ],
    );
    server.check_all(&[
        (r#"@b POST /checks {"pairs": [["a", "b"]]}"#, r#"200 {"results": [false]}"#),
        (r#"@a POST /checks {"pairs": [["a", "b"]]}"#, r#"200 {"results": [true]}"#),
        (r#"@b POST /users/a/is-following {"targets": ["b", "c"]}"#, r#"200 {"results": {"b": false, "c": true}}"#),
        // What b can do about followers does not tell either.
        ("@b POST /users/b/follow-requests/a/accept", "404 not_found"),
        ("@b POST /users/b/follow-requests/d/accept", "200"),
        ("^idempotency-key=1 @b DELETE /users/b/followers/a", r#"200 {"following": false, "changed": false}"#),
        ("^idempotency-key=1 @b DELETE /users/b/followers/a", r#"200 {"following": false, "changed": false}"#),
        ("GET /users/a/is-following/b", r#"200 {"following": false}"#),
    ]);
}

#[test]
fn a_block() {
    let server = world("x y z w", "x>y y>x x>z y>z z>x z>y w>x w>y z>w x!y");
    check_views(
        &server,
        &[
            ("z w -", "z/followers", "[y x]"),
            ("x", "z/followers", "[x]"),
            ("y", "z/followers", "[y]"),
            ("x y z w -", "z/followers", r#"200 {"total": 2}"#),
            ("z w -", "z/following", "[w y x]"),
            ("x", "z/following", "[w x]"),
            ("y", "z/following", "[w y]"),
            ("y", "x/followers", "403 lists_hidden"),
            ("y", "x/following", "403 lists_hidden"),
            ("x", "y/followers", "403 lists_hidden"),
            ("x", "y/following", "403 lists_hidden"),
            ("z w - x", "x/followers", "[w z]"),
            ("y", "x", r#"200 {"counts": {"followers": 2, "following": 1}}"#),
            ("x y z w -", "x/is-following/y", r#"200 {"following": false}"#),
            ("x y z w -", "y/is-following/x", r#"200 {"following": false}"#),
            ("z w x -", "z/is-following/x", r#"200 {"following": true}"#),
            ("y", "z/is-following/x", r#"200 {"following": false}"#),
            ("y", "z/following/x", "404 not_found"),
            ("y", "z/relationships?id=x", r#"200 {"data": [{"following": false, "followed_by": false}]}"#),
            ("w", "z/relationships?id=x", r#"200 {"data": [{"following": true, "followed_by": true}]}"#),
            ("x -", "x/relationships?id=y", r#"200 {"data": [{"blocking": true, "blocked_by": false}]}"#),
            ("y -", "y/relationships?id=x", r#"200 {"data": [{"blocking": false, "blocked_by": true}]}"#),
            ("z w", "x/relationships?id=y", r#"200 {"data": [{"blocking": false, "blocked_by": false}]}"#),
            ("x", "y", r#"200 {"relationship": {"blocking": true, "blocked_by": false, "following": false}}"#),
            ("y", "x", r#"200 {"relationship": {"blocking": false, "blocked_by": true, "following": false}}"#),
            ("z w -", "z/mutuals", "[y x]"),
            ("x", "z/mutuals", "[x]"),
            ("y", "z/mutuals", "[y]"),
            ("y", "x/mutuals", "403 lists_hidden"),
            ("z - w", "z/not-following-back", "[w]"),
            ("z w -", "z/common-following/w", "[y x]"),
            ("x", "z/common-following/w", "[x]"),
            ("y", "w/common-following/z", "[y]"),
            ("y", "z/common-following/x", "403 lists_hidden"),
            ("x", "y/followers-you-know", "403 lists_hidden"),
            ("z", "x/followers-you-know", "[w]"),
            ("z w -", "z/distance/x", r#"200 {"distance": 1}"#),
            ("y", "z/distance/x", r#"200 {"distance": null}"#),
            ("y", "w/distance/x", r#"200 {"distance": null}"#),
            ("x", "x", r#"200 {"counts": {"followers": 2}}"#),
            ("x", "x/blocks", "[y]"),
            ("y z w", "x/blocks", "403 forbidden"),
            (
                "z w -",
                "/leaderboards/followers",
                r#"200 {"data": [{"followers": 2}, {"followers": 2}, {"followers": 2}, {"id": "w", "followers": 1}]}"#,
            ),
        ],
    );
    for (viewer, hidden) in [("x", "y"), ("y", "x")] {
        let reply = server.check(&format!("@{viewer} GET /leaderboards/followers"), "200 {}");
        assert!(reply.ids().contains(&viewer) && !reply.ids().contains(&hidden), "{}", reply.text);
    }
    // Both sides hear the same.
    let refusals = ["@x POST /users/y/follow", "@y POST /users/x/follow"].map(|request| {
        let mut body = server.check(request, "403 blocked").body;
        body.as_object_mut().unwrap().remove("request_id");
        body
    });
    assert_eq!(refusals[0], refusals[1]);
    server.check("DELETE /users/x/blocks/y", r#"200 {"changed": true}"#);
    check_views(
        &server,
        &[("x y z w -", "z/followers", "[y x]"), ("x y z", "x/is-following/y", r#"200 {"following": false}"#)],
    );
}

#[test]
fn a_mute() {
    let server = world("x y z", "x>y y>x z>x z>y x>z x#y");
    check_views(
        &server,
        &[
            ("x y z -", "x/followers", "[z y]"),
            ("x y z -", "x/following", "[z y]"),
            ("x y z -", "y/followers", r#"200 {"total": 2}"#),
            ("x y z -", "x/is-following/y", r#"200 {"following": true}"#),
            ("x y z -", "x/mutuals", "[z y]"),
            ("x y z -", "x/common-following/z", "[y]"),
            ("x y z -", "z/common-following/x", "[y]"),
            ("x", "y/followers-you-know", "[z]"),
            ("x y z -", "x/distance/y", r#"200 {"distance": 1}"#),
            ("x -", "x/relationships?id=y", r#"200 {"data": [{"muting": true, "mutual": true}]}"#),
            ("y z", "x/relationships?id=y", r#"200 {"data": [{"muting": false, "mutual": true}]}"#),
            ("y", "x", r#"200 {"relationship": {"muting": false}}"#),
            ("x", "y", r#"200 {"relationship": {"muting": true}}"#),
            ("x -", "x/mutes", "[y]"),
            ("y z", "x/mutes", "403 forbidden"),
        ],
    );
}

#[test]
fn a_private_account() {
    let server = world("p f o s r", "f>p o>p p>o f>o o>f s>o s>f");
    server.check(r#"PATCH /users/p {"private": true}"#, "200");
    server.check("@r POST /users/p/follow", "202");
    check_views(
        &server,
        &[
            ("p f o -", "p/followers", "[o f]"),
            ("p f o -", "p/following", "[o]"),
            ("s r", "p/followers", "403 lists_hidden"),
            ("s r", "p/following", "403 lists_hidden"),
            ("s r", "p", r#"200 {"counts": {"followers": 2, "following": 1}}"#),
            // The other end's list is open, so a check may tell.
            ("s p f o -", "f/is-following/p", r#"200 {"following": true}"#),
            ("s", "f/relationships?id=p", r#"200 {"data": [{"following": true}]}"#),
            ("p r -", "r/following/p", r#"200 {"state": "pending"}"#),
            ("s f o", "r/following/p", "404 not_found"),
            ("p r -", "r/relationships?id=p", r#"200 {"data": [{"requested": true, "following": false}]}"#),
            ("s f o", "r/relationships?id=p", r#"200 {"data": [{"requested": false, "following": false}]}"#),
            ("r", "p", r#"200 {"relationship": {"requested": true, "since": null}}"#),
            ("p -", "p/follow-requests", "[r]"),
            ("r s f o", "p/follow-requests", "403 forbidden"),
            ("s r", "p/mutuals", "403 lists_hidden"),
            ("p f o -", "p/mutuals", "[o]"),
            ("p f o -", "o/mutuals", "[f p]"),
            ("s r", "o/mutuals", "[f]"),
            ("p f o -", "f/common-following/o", "[p]"),
            ("s r", "f/common-following/o", "[]"),
            ("s r", "f/common-following/p", "403 lists_hidden"),
            ("s r", "p/common-following/f", "403 lists_hidden"),
            ("s", "p/followers-you-know", "403 lists_hidden"),
            ("f", "p/followers-you-know", "[o]"),
            ("s r", "p/not-following-back", "403 lists_hidden"),
            ("p f o -", "f/not-following-back", "[p]"),
            ("s r", "f/not-following-back", "[]"),
            ("s r", "s/distance/p", r#"200 {"distance": null}"#),
            ("p f o -", "s/distance/p", r#"200 {"distance": 2}"#),
            (
                "p f o s r -",
                "/leaderboards/followers",
                r#"200 {"data": [{"followers": 3}, {"followers": 2}, {"followers": 2}]}"#,
            ),
        ],
    );
    // Its friends hide their lists as well: now nothing tells.
    for friend in ["f", "o"] {
        server.check(&format!(r#"PATCH /users/{friend} {{"hide_lists": true}}"#), "200");
    }
    check_views(
        &server,
        &[
            ("s r", "f/is-following/p", r#"200 {"following": false}"#),
            ("s r", "f/following/p", "404 not_found"),
            ("s r", "f/relationships?id=p", r#"200 {"data": [{"following": false, "since": null}]}"#),
            ("p f -", "f/is-following/p", r#"200 {"following": true}"#),
        ],
    );
    server.check(r#"@s POST /checks {"pairs": [["f", "p"], ["s", "o"]]}"#, r#"200 {"results": [false, true]}"#);
}

#[test]
fn hidden_lists() {
    let server = world("h f o s", "f>h h>o h>f o>h f>o o>f s>h s>o");
    server.check(r#"PATCH /users/h {"hide_lists": true}"#, "200");
    check_views(
        &server,
        &[
            ("h -", "h/followers", "[s o f]"),
            ("f o s", "h/followers", "403 lists_hidden"),
            ("f o s", "h/following", "403 lists_hidden"),
            ("f o s", "h", r#"200 {"counts": {"followers": 3, "following": 2}}"#),
            ("h f o s -", "o/followers", "[s f h]"),
            ("h f o s -", "h/is-following/o", r#"200 {"following": true}"#),
            ("s", "h/relationships?id=o", r#"200 {"data": [{"following": true, "mutual": true}]}"#),
            ("f o s", "h/mutuals", "403 lists_hidden"),
            ("h o -", "o/mutuals", "[f h]"),
            ("f s", "o/mutuals", "[f]"),
            ("f o s", "h/not-following-back", "403 lists_hidden"),
            ("h -", "f/common-following/o", "[h]"),
            ("s", "f/common-following/o", "[]"),
            ("f s", "h/common-following/o", "403 lists_hidden"),
            ("f", "o/followers-you-know", "[]"),
            ("s", "o/followers-you-know", "[]"),
            ("f s", "h/followers-you-know", "403 lists_hidden"),
            ("s", "s/distance/f", r#"200 {"distance": 2}"#),
            ("s -", "s/distance/h", r#"200 {"distance": 1}"#),
            // Only by their own follow.
            ("f", "s/distance/h", r#"200 {"distance": 3}"#),
        ],
    );
    // Without o between them only h leads from s to f, and h is no evidence to others.
    server.check("DELETE /users/s/following/o", "200");
    check_views(
        &server,
        &[("s o", "s/distance/f", r#"200 {"distance": null}"#), ("h -", "s/distance/f", r#"200 {"distance": 2}"#)],
    );
}

#[test]
fn who_is_not_there() {
    let server = world("a b", "a>b");
    check_views(
        &server,
        &[
            ("- a b", "nobody/mutuals", "404 user_not_found"),
            ("- a b", "nobody/not-following-back", "404 user_not_found"),
            ("- a b", "a/common-following/nobody", "404 user_not_found"),
            ("- a b", "nobody/common-following/a", "404 user_not_found"),
            ("a b", "nobody/followers-you-know", "404 user_not_found"),
            ("- a b", "a/distance/nobody", "404 user_not_found"),
            ("- a b", "nobody/relationships?id=a", "404 user_not_found"),
            ("-", "nobody/follow-requests", "404 user_not_found"),
            ("-", "nobody/mutes", "404 user_not_found"),
            ("stranger", "a/following", "[b]"),
            ("stranger", "b/followers-you-know", "[]"),
            ("stranger", "a/distance/b", r#"200 {"distance": 1}"#),
        ],
    );
}
