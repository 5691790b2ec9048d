//! `feed:{u}` as a sorted set and `EG.FEED`: what is in it, in which order, and for whom.

use std::{sync::Arc, time::Duration};

use entourage_server::{FeedMember, Front, RespLimits};
use entourage_service::{FeedRules, Limits, Rules};
use entourage_store::SystemClock;

use crate::kit::{
    server::{Server, memory_store},
    wire::Wire,
};

/// A post of `star`, with its id and time.
struct Posted {
    id: String,
    millis: i64,
}

fn post(server: &Server, author: &str, number: usize) -> Posted {
    let reply = server.check(&format!(r#"@{author} POST /posts {{"body": {{ "n" :{number} }}}}"#), "201");
    let id = reply.body["id"].as_str().unwrap().to_owned();
    let bits: u64 = id.parse().unwrap();
    let millis = entourage_model::Version::from_bits(bits).millis().to_unix();
    std::thread::sleep(Duration::from_millis(2));
    Posted { id, millis }
}

/// `fan` follows `star`, who has posts 1 to `count`, oldest first, each in a millisecond of its own.
fn posted(count: usize, rules: Rules) -> (Server, Wire, Vec<Posted>) {
    let server = Server::with(memory_store(1), rules);
    for id in ["star", "fan", "other"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check("@fan POST /users/star/follow", "201");
    let posts = (1..=count).map(|number| post(&server, "star", number)).collect();
    let wire = Wire::acting(server.resp, Some("fan"));
    (server, wire, posts)
}

fn ids<'a>(posts: impl Iterator<Item = &'a Posted>) -> String {
    format!("[{}]", posts.map(|post| format!("\"{}\"", post.id)).collect::<Vec<_>>().join(" "))
}

#[test]
fn ranks_and_times_of_a_feed() {
    let (server, mut wire, posts) = posted(6, Rules::default());
    let newest = || posts.iter().rev();
    let at = |number: usize| posts[number - 1].millis;
    let none = || "[]".to_owned();
    let cases: Vec<(String, String)> = vec![
        ("ZREVRANGE feed:fan 0 -1".into(), ids(newest())),
        ("ZREVRANGE feed:fan 0 0".into(), ids(newest().take(1))),
        ("ZREVRANGE feed:fan 2 3".into(), ids(newest().skip(2).take(2))),
        ("ZREVRANGE feed:fan 4 100000".into(), ids(newest().skip(4))),
        ("ZREVRANGE feed:fan 6 9".into(), none()),
        ("ZREVRANGE feed:fan 3 2".into(), none()),
        ("ZREVRANGE feed:fan -2 -1".into(), ids(newest().skip(4))),
        ("ZREVRANGE feed:fan -100 1".into(), ids(newest().take(2))),
        ("ZREVRANGE feed:fan 10001 10002".into(), none()),
        ("ZRANGE feed:fan 0 -1".into(), ids(posts.iter())),
        ("ZRANGE feed:fan 1 2".into(), ids(posts.iter().skip(1).take(2))),
        ("ZRANGE feed:fan -2 -1".into(), ids(posts.iter().skip(4))),
        (format!("ZRANGEBYSCORE feed:fan {} ({}", at(2), at(5)), ids(posts.iter().skip(1).take(3))),
        ("ZRANGEBYSCORE feed:fan -inf +inf LIMIT 4 5".into(), ids(posts.iter().skip(4))),
        (format!("ZRANGE feed:fan ({} +inf BYSCORE LIMIT 1 2", at(1)), ids(posts.iter().skip(2).take(2))),
        ("ZRANGE feed:fan 0 1 REV".into(), ids(newest().take(2))),
        ("ZREVRANGEBYSCORE feed:fan +inf -inf".into(), ids(newest())),
        (format!("ZREVRANGEBYSCORE feed:fan {} -inf", at(3)), ids(newest().skip(3))),
        (format!("ZREVRANGEBYSCORE feed:fan ({} -inf", at(3)), ids(newest().skip(4))),
        (format!("ZREVRANGEBYSCORE feed:fan +inf ({}", at(3)), ids(newest().take(3))),
        (format!("ZREVRANGEBYSCORE feed:fan {} {}", at(5), at(2)), ids(newest().skip(1).take(4))),
        (format!("ZREVRANGEBYSCORE feed:fan {} {}", at(2), at(5)), none()),
        ("ZREVRANGEBYSCORE feed:fan +inf -inf LIMIT 1 2".into(), ids(newest().skip(1).take(2))),
        ("ZRANGE feed:fan +inf -inf BYSCORE REV LIMIT 5 -1".into(), ids(newest().skip(5))),
        ("ZCARD feed:fan".into(), "6".into()),
        (format!("ZSCORE feed:fan {}", posts[2].id), format!("\"{}\"", at(3))),
        (format!("ZSCORE feed:fan 0{}", posts[2].id), "nil".into()),
        ("ZSCORE feed:fan 7".into(), "nil".into()),
        ("ZSCORE feed:fan star".into(), "nil".into()),
        ("EXISTS feed:fan".into(), "1".into()),
        ("TYPE feed:fan".into(), "zset".into()),
        ("TTL feed:fan".into(), "-1".into()),
        ("EXPIRE feed:fan 60".into(), "1".into()),
        (
            "ZREVRANGE feed:fan 0 1 WITHSCORES".into(),
            format!("[\"{}\" \"{}\" \"{}\" \"{}\"]", posts[5].id, at(6), posts[4].id, at(5)),
        ),
    ];
    for (line, expected) in cases {
        wire.check(&line, &expected);
    }
    for line in ["SCARD feed:fan", "SMEMBERS feed:fan", "SISMEMBER feed:fan 1", "GET feed:fan", "SINTER feed:fan"] {
        wire.check(line, "-WRONGTYPE …");
    }
    for line in ["SSCAN feed:fan 0", "EG.LIST feed:fan", "SADD feed:fan 1", "SREM feed:fan 1"] {
        wire.check(line, "-WRONGTYPE …");
    }
    wire.check("MGET feed:fan", "[nil]");
    wire.check("HELLO 3", "{…");
    wire.check("ZREVRANGE feed:fan 0 0 WITHSCORES", &format!("[[\"{}\" {:?}]]", posts[5].id, at(6) as f64));
    // What acts at once on the feed acts at once here.
    server.check(&format!("@star DELETE /posts/{}", posts[5].id), "200");
    wire.check("ZCARD feed:fan", "5");
    server.check("@fan PUT /users/fan/mutes/star", "201");
    wire.check("ZCARD feed:fan", "0");
    wire.check("EXISTS feed:fan", "0");
    wire.check(&format!("ZSCORE feed:fan {}", posts[2].id), "nil");
}

#[test]
fn nobody_reads_anothers_feed() {
    let (server, mut fan, posts) = posted(2, Rules::default());
    let mut other = Wire::acting(server.resp, Some("other"));
    let mut service = Wire::connect(server.resp);
    for line in [
        "ZREVRANGE feed:fan 0 -1",
        "ZREVRANGEBYSCORE feed:fan +inf -inf",
        "ZCARD feed:fan",
        "ZSCORE feed:fan 1",
        "EXISTS feed:fan",
        "EG.FEED fan",
    ] {
        other.check(line, "-FORBIDDEN …");
        assert!(!fan.ask(line).starts_with('-'), "{line}");
        assert!(!service.ask(line).starts_with('-'), "{line}");
    }
    service.check("EG.FEED nobody", "-USERNOTFOUND …");
    for (line, nothing) in [
        ("ZREVRANGE feed:nobody 0 -1", "[]"),
        ("ZRANGE feed:nobody 0 -1", "[]"),
        ("ZCARD feed:nobody", "0"),
        ("ZSCORE feed:nobody 1", "nil"),
        ("EXISTS feed:nobody", "0"),
        ("TYPE feed:nobody", "none"),
    ] {
        service.check(line, nothing);
    }
    service.check("EXISTS feed:nobody", "0");
    service.check("ZCARD feed:", "-INVALIDID …");
    other.check("ZREVRANGE feed:other 0 -1", "[]");
    other.check("EXISTS feed:other", "0");
    // Reads may be queued, and `EG.AS` counts from where it stands.
    service.check("MULTI", "OK");
    for line in ["ZCARD feed:fan", "EG.AS other", "ZCARD feed:fan"] {
        service.check(line, "QUEUED");
    }
    let said = service.ask("EXEC");
    assert!(said.starts_with(&format!("[{} OK -FORBIDDEN", posts.len())), "{said}");
}

#[test]
fn pages_of_a_feed() {
    let (server, mut wire, posts) = posted(25, Rules { limits: Limits::NONE, ..Rules::default() });
    let row = |number: usize| {
        let post = &posts[number - 1];
        format!("[\"{}\" \"star\" {} \"{{ \"n\" :{number} }}\" nil]", post.id, post.millis)
    };
    let rows = |numbers: std::ops::RangeInclusive<usize>| {
        format!("[{}]", numbers.rev().map(row).collect::<Vec<_>>().join(" "))
    };
    let first = wire.ask("EG.FEED fan");
    let (cursor, rest) = first.trim_start_matches("[\"").split_once("\" ").unwrap();
    assert_eq!(rest, format!("{} 0]", rows(6..=25)));
    wire.check(&format!("EG.FEED fan CURSOR {cursor}"), &format!("[nil {} 0]", rows(1..=5)));
    wire.check("eg.feed fan LIMIT 200", &format!("[nil {} 0]", rows(1..=25)));
    wire.check("EG.FEED fan LIMIT 2", "[\"…");
    for (line, expected) in [
        ("EG.FEED", "-ERR wrong number of arguments for 'eg.feed' command"),
        ("EG.FEED fan LIMIT", "-ERR syntax error"),
        ("EG.FEED fan 20", "-ERR syntax error"),
        ("EG.FEED fan LIMIT 0", "-INVALIDREQUEST …"),
        ("EG.FEED fan LIMIT 201", "-INVALIDREQUEST …"),
        ("EG.FEED fan CURSOR x", "-INVALIDCURSOR …"),
        ("EG.FEED \"\"", "-INVALIDID …"),
    ] {
        wire.check(line, expected);
    }
    // A cursor is the viewer's own.
    let mut service = Wire::connect(server.resp);
    service.check(&format!("EG.FEED fan CURSOR {cursor}"), "-INVALIDCURSOR …");
}

#[test]
fn ranks_go_on_below_the_floor() {
    let feed = FeedRules { inbox_cap: 7, ..FeedRules::default() };
    let (_server, mut wire, posts) = posted(30, Rules { feed, ..Rules::default() });
    let newest = || posts.iter().rev();
    wire.check("ZREVRANGE feed:fan 0 -1", &ids(newest()));
    wire.check("ZREVRANGE feed:fan 5 9", &ids(newest().skip(5).take(5)));
    wire.check("ZREVRANGE feed:fan 20 24", &ids(newest().skip(20).take(5)));
    wire.check(
        &format!("ZREVRANGEBYSCORE feed:fan {} -inf LIMIT 1 3", posts[9].millis),
        &ids(newest().skip(21).take(3)),
    );
    wire.check("ZCARD feed:fan", "30");
}

#[test]
fn posts_have_the_name_that_the_application_gave_them() {
    let resp = RespLimits { feed_member: FeedMember::ExternalId, ..RespLimits::default() };
    let front = Front { resp, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    for id in ["star", "fan", "stranger"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check("@fan POST /users/star/follow", "201");
    let named = |author: &str, name: &str| {
        let body = format!(r#"{{"body": {{}}, "external_id": "{name}"}}"#);
        let reply = server.check(&format!("@{author} POST /posts {body}"), "201");
        reply.body["id"].as_str().unwrap().to_owned()
    };
    let first = named("star", "blog/1");
    let plain = post(&server, "star", 2);
    named("stranger", "blog/2");
    let mut wire = Wire::acting(server.resp, Some("fan"));
    wire.check("ZREVRANGE feed:fan 0 -1", &format!("[\"{}\" \"blog/1\"]", plain.id));
    wire.check("ZRANGE feed:fan 0 0", "[\"blog/1\"]");
    let millis = entourage_model::Version::from_bits(first.parse().unwrap()).millis().to_unix();
    wire.check("ZSCORE feed:fan blog/1", &format!("\"{millis}\""));
    wire.check(&format!("ZSCORE feed:fan {}", plain.id), &format!("\"{}\"", plain.millis));
    // One name for each post, and nobody's but those in the feed.
    wire.check(&format!("ZSCORE feed:fan {first}"), "nil");
    wire.check("ZSCORE feed:fan blog/2", "nil");
    wire.check("ZSCORE feed:fan nothing", "nil");
    let page = wire.ask("EG.FEED fan");
    assert!(page.contains(&format!("[\"{first}\" \"star\" {millis} \"{{}}\" \"blog/1\"]")), "{page}");
    server.check("@fan PUT /users/fan/mutes/star", "201");
    wire.check("ZSCORE feed:fan blog/1", "nil");
}
