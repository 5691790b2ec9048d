//! Follows, blocks, mutes and deletions act on a feed at once, on what is already there too.

use entourage_service::FeedRules;

use super::{
    feed::{post, users, walk, with_rules},
    server::Server,
};

const FEED: &str = "/users/me/feed";

fn shown(server: &Server) -> Vec<String> {
    walk(server, FEED, 3)
}

/// Pushed, pulled, and for a reader who has no inbox at all.
fn each_way(check: impl Fn(&Server)) {
    for (mode, above) in [("push", Some(5_000)), ("pull", Some(5_000)), ("auto", Some(0))] {
        let server = with_rules(FeedRules { pull_above_following: above, ..FeedRules::default() });
        users(&server, &["me", "a", "b"]);
        server.check(&format!(r#"PUT /admin/users/a/fanout {{"mode": "{mode}"}}"#), "200");
        for author in ["a", "b"] {
            server.check(&format!("@me POST /users/{author}/follow"), "201");
        }
        server.check("@me GET /users/me/feed", "200");
        check(&server);
    }
}

#[test]
fn whatever_hides_an_author_hides_what_is_there() {
    each_way(|server| {
        let [one, other, two] = ["a", "b", "a"].map(|author| post(server, author));
        let (all, rest) = (vec![two.clone(), other.clone(), one.clone()], vec![other.clone()]);
        assert_eq!(shown(server), all);
        for (hide, show) in [
            ("@me DELETE /users/a/follow", "@me POST /users/a/follow"),
            ("@me PUT /users/me/mutes/a", "@me DELETE /users/me/mutes/a"),
            ("@a DELETE /users/a/followers/me", "@me POST /users/a/follow"),
        ] {
            assert!(server.ask(hide).status < 300, "{hide}");
            assert_eq!(shown(server), rest, "{hide}");
            assert!(server.ask(show).status < 300, "{show}");
            assert_eq!(shown(server), all, "{show}");
        }
        for (block, unblock) in [
            ("@me PUT /users/me/blocks/a", "@me DELETE /users/me/blocks/a"),
            ("@a PUT /users/a/blocks/me", "@a DELETE /users/a/blocks/me"),
        ] {
            server.check(block, "201");
            assert_eq!(shown(server), rest, "{block}");
            server.check(unblock, "200");
            assert_eq!(shown(server), rest, "an unblock restores nothing");
            server.check("@me POST /users/a/follow", "201");
            assert_eq!(shown(server), all);
        }
        server.check(&format!("@a DELETE /posts/{two}"), "200");
        assert_eq!(shown(server), [other.clone(), one.clone()]);
        server.check(&format!(r#"@a PATCH /posts/{one} {{"body": {{"new": true}}}}"#), "200");
        let page = server.check("@me GET /users/me/feed", "200");
        assert_eq!((page.ids(), &page.body["data"][1]["body"]["new"]), (vec![&*other, &*one], &true.into()));
        server.check("DELETE /users/a", "202");
        assert_eq!(shown(server), [other]);
    });
}

#[test]
fn a_private_accounts_posts_are_for_those_it_accepted() {
    each_way(|server| {
        server.check(r#"PATCH /users/a {"private": true}"#, "200");
        server.check("PUT /users/new", "201");
        let hidden = post(server, "a");
        assert_eq!(shown(server), std::slice::from_ref(&hidden), "who followed before still does");
        server.check("@new POST /users/a/follow", "202");
        server.check("@new GET /users/new/feed", r#"200 {"data": []}"#);
        server.check("@a POST /users/a/follow-requests/new/accept", "200");
        assert_eq!(server.check("@new GET /users/new/feed", "200").ids(), [hidden.as_str()]);
    });
}

#[test]
fn own_posts_can_be_left_out() {
    for own_posts in [true, false] {
        let server = with_rules(FeedRules { own_posts, ..FeedRules::default() });
        users(&server, &["me", "a"]);
        server.check("@me POST /users/a/follow", "201");
        let [own, other] = ["me", "a"].map(|author| post(&server, author));
        let expected = if own_posts { vec![other, own] } else { vec![other] };
        assert_eq!(shown(&server), expected);
    }
}
