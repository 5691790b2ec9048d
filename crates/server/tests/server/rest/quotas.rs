//! Limits as a client sees them: codes, `Retry-After`, the headers that say what is left.

use std::{io::Write, net::TcpStream, sync::Arc, time::Duration};

use entourage_service::{Limits, Rules};
use serde_json::json;

use super::{
    credentials::{Credentials, hs256},
    faulty::{Fault, Faulty},
    server::{Server, memory_store},
};

fn rules(limits: Limits) -> Rules {
    Rules { limits, ..Rules::default() }
}

fn serving(credentials: &Credentials, limits: Limits) -> Server {
    let server = Server::behind(credentials.front(), memory_store(1), rules(limits));
    for user in ["alice", "bob", "carol", "dora"] {
        server.check(&format!("!{} PUT /users/{user}", credentials.service_key), "201");
    }
    server
}

#[test]
fn answers_say_what_is_left() {
    let credentials = Credentials::new();
    let server = serving(&credentials, Limits::default());
    let alice = credentials.token("alice");
    let reply = server.check(&format!("!{alice} GET /users/bob"), "200");
    assert_eq!(reply.header("ratelimit-policy"), r#""requests";q=600;w=60, "follows";q=100;w=1800"#);
    assert_eq!(reply.header("ratelimit"), r#""requests";r=599;t=1, "follows";r=100;t=0"#);
    assert_eq!(reply.header("x-ratelimit-limit"), "600");
    assert_eq!(reply.header("x-ratelimit-remaining"), "599");
    assert_eq!(reply.header("x-ratelimit-reset"), "1");
    let reply = server.check(&format!("!{alice} POST /users/bob/follow"), "201");
    assert!(reply.header("ratelimit").ends_with(r#""follows";r=99;t=18"#), "{}", reply.header("ratelimit"));
    // Refusals say it as well. Services have no quota of requests, but the one they act for has one of follows.
    let reply = server.check(&format!("!{alice} GET /users/nobody"), "404 user_not_found");
    assert_eq!(reply.header("x-ratelimit-limit"), "600");
    let reply = server.check(&format!("!{} @alice GET /users/bob", credentials.service_key), "200");
    assert_eq!(reply.header("ratelimit-policy"), r#""follows";q=100;w=1800"#);
    assert_eq!(reply.header("x-ratelimit-remaining"), "99");
    let reply = server.check(&format!("!{} GET /users/bob", credentials.service_key), "200");
    assert_eq!(reply.header("ratelimit"), "");
    let development = Server::start();
    development.check("PUT /users/alice", "201");
    let reply = development.check("@alice GET /users/alice", "200");
    assert_eq!(reply.header("ratelimit-policy"), r#""follows";q=100;w=1800"#);
}

#[test]
fn too_many_requests_of_a_user_are_refused_and_others_are_not() {
    let credentials = Credentials::new();
    let server = serving(&credentials, Limits { requests_per_minute: 5, ..Limits::default() });
    let (alice, bob) = (credentials.token("alice"), credentials.token("bob"));
    for _ in 0..4 {
        server.check(&format!("!{alice} GET /users/bob"), "200");
    }
    // Every try counts.
    server.check(&format!("!{alice} GET /users/nobody"), "404 user_not_found");
    let reply = server.check(&format!("!{alice} GET /users/bob"), "429 rate_limited");
    assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    let wait: u64 = reply.header("retry-after").parse().unwrap();
    assert!((1..=12).contains(&wait), "{wait}");
    server.check(&format!("!{bob} GET /users/bob"), "200");
    for _ in 0..10 {
        server.check(&format!("!{} @alice GET /users/bob", credentials.service_key), "200");
    }
    server.check("GET //healthz", "200");
}

#[test]
fn follow_rules_hold_for_services_and_in_development_too() {
    let limits = Limits { follow_burst: 2, ..Limits::default() };
    let credentials = Credentials::new();
    let server = serving(&credentials, limits);
    let key = &credentials.service_key;
    server.check(&format!("!{key} @alice POST /users/bob/follow"), "201");
    server.check(&format!("!{key} PUT /users/alice/following/carol"), "201");
    let reply = server.check(&format!("!{key} PUT /users/alice/following/dora"), "429 rate_limited");
    assert_eq!(reply.header("retry-after"), "18");
    server.check(&format!("!{} POST /users/dora/follow", credentials.token("alice")), "429 rate_limited");
    let development = Server::with(memory_store(1), rules(limits));
    for user in ["a", "b", "c", "d"] {
        development.check(&format!("PUT /users/{user}"), "201");
    }
    development.check_all(&[
        ("@a POST /users/b/follow", "201"),
        ("@a POST /users/c/follow", "201"),
        ("@a POST /users/d/follow", "429 rate_limited"),
        ("PUT /users/a/following/d", "429 rate_limited"),
        ("@a POST /users/c/follow", "200"),
        ("@b POST /users/d/follow", "201"),
    ]);
}

#[test]
fn an_edge_that_flips_cools_down() {
    let server = Server::start();
    server.check_all(&[("PUT /users/a", "201"), ("PUT /users/b", "201")]);
    for _ in 0..3 {
        server.check_all(&[("@a POST /users/b/follow", "201"), ("@a DELETE /users/b/follow", "200")]);
    }
    let reply = server.check("@a POST /users/b/follow", "429 cooling_down");
    let wait: u64 = reply.header("retry-after").parse().unwrap();
    assert!((86_000..=86_400).contains(&wait), "{wait}");
    server.check("@b POST /users/a/follow", "201");
}

#[test]
fn a_challenge_is_proved_by_a_short_token_for_the_actor() {
    let credentials = Credentials::new();
    let server = serving(&credentials, Limits { challenge_after: 1, ..Limits::default() });
    let alice = credentials.token("alice");
    server.check(&format!("!{alice} POST /users/bob/follow"), "201");
    server.check(&format!("!{alice} POST /users/carol/follow"), "403 challenge_required");
    let now = credentials.now();
    for (name, proof) in [
        ("somebody else's", credentials.proof("bob", 300)),
        ("expired", credentials.proof("alice", -60)),
        ("too long", credentials.proof("alice", 661)),
        ("no end", hs256(super::credentials::CHALLENGE_SECRET, &json!({ "sub": "alice" }).to_string())),
        ("no sub", hs256(super::credentials::CHALLENGE_SECRET, &json!({ "exp": now + 300 }).to_string())),
        ("another key", hs256(super::credentials::SECRET, &json!({ "sub": "alice", "exp": now + 300 }).to_string())),
        ("the user's own token", alice.clone()),
        ("nothing", "x".to_owned()),
    ] {
        let request = format!("!{alice} ^entourage-challenge={proof} POST /users/carol/follow");
        assert_eq!(server.ask(&request).body["code"], "challenge_required", "{name}");
    }
    let proof = credentials.proof("alice", 600);
    server.check(&format!("!{alice} ^entourage-challenge={proof} POST /users/carol/follow"), "201");
    server.check(&format!("!{alice} ^entourage-challenge={proof} POST /users/dora/follow"), "201");
    server.check(&format!("!{} ^entourage-challenge=x POST /users/alice/follow", credentials.token("bob")), "201");
}

/// Hanging up before the answer does not make a follow free.
#[test]
fn a_follow_whose_client_hung_up_counts() {
    let store = Faulty::over(memory_store(1));
    let limits = Limits { follow_burst: 1, ..Limits::default() };
    let server = Server::with(Arc::clone(&store) as _, rules(limits));
    server.check_all(&[("PUT /users/a", "201"), ("PUT /users/b", "201"), ("PUT /users/c", "201")]);
    store.hooks.set(Fault::Hang);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request =
        "POST /api/v1/users/b/follow HTTP/1.1\r\nhost: localhost\r\nentourage-actor: a\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    store.hooks.wait_for_a_commit();
    drop(stream);
    std::thread::sleep(Duration::from_millis(500));
    store.hooks.let_go();
    server.check("@a POST /users/c/follow", "429 rate_limited");
}

/// All of them are in their commit at the same time, so none can know how the others end.
#[test]
fn sixty_four_follows_at_once_stay_within_the_quota() {
    let store = Faulty::over(memory_store(1));
    let limits = Limits { follow_burst: 10, ..Limits::default() };
    let server = Server::with(Arc::clone(&store) as _, rules(limits));
    server.check("PUT /users/a", "201");
    for target in 0..64 {
        server.check(&format!("PUT /users/{target}"), "201");
    }
    store.hooks.set(Fault::Hang);
    let made = std::thread::scope(|scope| {
        let server = &server;
        let asking: Vec<_> = (0..64)
            .map(|target| scope.spawn(move || server.ask(&format!("@a POST /users/{target}/follow")).status))
            .collect();
        store.hooks.wait_for_commits(64);
        store.hooks.let_go();
        let statuses: Vec<u16> = asking.into_iter().map(|asking| asking.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| matches!(status, 201 | 429)), "{statuses:?}");
        statuses.iter().filter(|status| **status == 201).count()
    });
    assert_eq!(made, 10);
    server.check("GET /users/a", r#"200 {"counts": {"following": 10}}"#);
}

#[test]
fn a_batch_is_limited_operation_by_operation() {
    let server = Server::with(memory_store(1), rules(Limits { follow_burst: 2, ..Limits::default() }));
    for user in ["a", "b", "c", "d", "e"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    let follow = |follower: &str, target: &str| json!({ "op": "follow", "follower": follower, "target": target });
    let body = json!({ "operations": [follow("a", "b"), follow("a", "c"), follow("a", "d"), follow("e", "d")] });
    server.check(
        &format!("POST /follows:batch {body}"),
        r#"200 {"results": [{"status": 201}, {"status": 201}, {"status": 429, "code": "rate_limited"}, {"status": 201}]}"#,
    );
}
