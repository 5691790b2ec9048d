//! Transactions, tokens, and writes that do not wait for each other.

use entourage_service::{Limits, Rules};

use crate::kit::{
    credentials::Credentials,
    server::{Server, memory_store},
    wire::{Wire, encoded, words},
};

fn pipeline(wire: &mut Wire, lines: &[&str]) -> Vec<String> {
    let input: Vec<u8> = lines.iter().flat_map(|line| encoded(&words(line))).collect();
    wire.send(&input);
    lines.iter().map(|_| wire.reply().unwrap()).collect()
}

fn server() -> Server {
    let server = Server::start();
    for id in ["1", "2", "3", "4"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server
}

#[test]
fn reads_see_the_writes_before_them() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    let said = pipeline(
        &mut wire,
        &[
            "SISMEMBER following:1 2",
            "SADD following:1 2 3",
            "EG.UNFOLLOW 1 3",
            "SISMEMBER following:1 2",
            "SISMEMBER following:1 3",
            "SREM following:1 2",
            "SISMEMBER following:1 2",
            "SADD following:1 1",
            "SADD following:1 2",
            "EG.UNFOLLOW 1 2",
            "EG.UNFOLLOW 1 2",
            "SCARD following:1",
            "ECHO end",
        ],
    );
    assert_eq!(said[..7], ["0", "2", "1", "1", "0", "1", "0"]);
    assert_eq!(said[7], "-SELFFOLLOW follower and target are the same user; 0 of 1 applied");
    assert_eq!(said[8..], ["1", "1", "0", "0", "\"end\""]);
}

#[test]
fn limits_count_the_same_however_follows_are_sent() {
    let limits = Limits { follows_per_hour: 10, follow_burst: 5, flips_per_day: 2, ..Limits::NONE };
    let rules = Rules { auto_create: true, limits, following_max: Some(7), ..Rules::default() };
    for at_once in [false, true] {
        let server = Server::with(memory_store(1), rules);
        let mut wire = Wire::connect(server.resp);
        let ask = |wire: &mut Wire, lines: &[String]| -> Vec<String> {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            if at_once { pipeline(wire, &lines) } else { lines.iter().map(|line| wire.ask(line)).collect() }
        };
        let follows: Vec<String> = (1..=7).map(|target| format!("SADD following:a t{target}")).collect();
        let said = ask(&mut wire, &follows);
        assert_eq!(said[..5], ["1", "1", "1", "1", "1"], "{at_once}");
        for refused in &said[5..] {
            assert!(refused.starts_with("-RATELIMITED ") && refused.contains("retry after"), "{refused}");
        }
        // One edge too often.
        let flips: Vec<String> =
            ["SADD", "SREM"].iter().cycle().take(6).map(|verb| format!("{verb} following:b x")).collect();
        let said = ask(&mut wire, &flips);
        assert_eq!(said[..4], ["1", "1", "1", "1"], "{at_once} {said:?}");
        assert!(said[4].starts_with("-COOLINGDOWN "), "{said:?}");
        assert_eq!(said[5], "0");
        server.check("@b POST /users/x/follow", "429 cooling_down");
    }
    let rules = Rules { auto_create: true, limits: Limits::NONE, following_max: Some(7), ..Rules::default() };
    let server = Server::with(memory_store(1), rules);
    let mut wire = Wire::connect(server.resp);
    wire.check("SADD following:a 1 2 3 4 5 6 7 8 9", "-FOLLOWINGLIMIT …");
    wire.check("SCARD following:a", "7");
    server.check("@a POST /users/8/follow", "422 following_limit");
}

/// What is spent over one front is spent over the other: the actor is the same.
#[test]
fn an_actor_has_one_quota_over_both_fronts() {
    const LEFT: &str = "-RATELIMITED …";
    let limits = Limits { follows_per_hour: 10, follow_burst: 4, ..Limits::NONE };
    let rules = Rules { auto_create: true, limits, ..Rules::default() };
    let server = Server::with(memory_store(1), rules);
    let mut alice = Wire::acting(server.resp, Some("alice"));
    alice.check("SADD following:alice t1 t2 t3", "3");
    alice.check("EG.FOLLOW alice t4", "[\"state\" \"active\"…");
    alice.check("EG.FOLLOW alice t5", LEFT);
    let refused = server.check("@alice POST /users/t5/follow", "429 rate_limited");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    server.check("PUT /users/alice/following/t5", "429 rate_limited");
    // And the other way about.
    for target in 1..=4 {
        server.check(&format!("@bob POST /users/t{target}/follow"), "201");
    }
    server.check("@bob POST /users/t5/follow", "429 rate_limited");
    let mut bob = Wire::acting(server.resp, Some("bob"));
    bob.check("SADD following:bob t5", LEFT);
    bob.check("EG.FOLLOW bob t5", LEFT);
    // However the connection is called: it is the follower who has spent it.
    Wire::connect(server.resp).check("SADD following:bob t5", LEFT);
    // Half of it on each.
    let mut carol = Wire::acting(server.resp, Some("carol"));
    carol.check("SADD following:carol t1 t2", "2");
    server.check("@carol POST /users/t3/follow", "201");
    carol.check("EG.FOLLOW carol t4", "[\"state\" \"active\"…");
    server.check("@carol POST /users/t5/follow", "429 rate_limited");
    carol.check("SADD following:carol t5", LEFT);
    // What was there already is no follow, and others have their own.
    carol.check("SADD following:carol t1", "0");
    Wire::acting(server.resp, Some("dora")).check("SADD following:dora t5", "1");
}

#[test]
fn an_actor_is_challenged_over_both_fronts() {
    let credentials = Credentials::new();
    let limits = Limits { challenge_after: 2, ..Limits::NONE };
    let rules = Rules { auto_create: true, limits, ..Rules::default() };
    let server = Server::behind(credentials.front(), memory_store(1), rules);
    let service = &credentials.service_key;
    let acting = |user: &str| {
        let mut wire = Wire::connect(server.resp);
        wire.check(&format!("AUTH {service}"), "OK");
        wire.check(&format!("EG.AS {user}"), "OK");
        wire
    };
    let mut alice = acting("alice");
    alice.check("SADD following:alice t1 t2", "2");
    alice.check("EG.FOLLOW alice t3", "-CHALLENGEREQUIRED …");
    server.check(&format!("!{} POST /users/t3/follow", credentials.token("alice")), "403 challenge_required");
    server.check(&format!("!{service} @alice POST /users/t3/follow"), "403 challenge_required");
    alice.check(&format!("EG.FOLLOW alice t3 CHALLENGE {}", credentials.proof("alice", 60)), "[\"state\"…");
    for target in ["t1", "t2"] {
        server.check(&format!("!{} POST /users/{target}/follow", credentials.token("bob")), "201");
    }
    let mut bob = acting("bob");
    bob.check("SADD following:bob t3", "-CHALLENGEREQUIRED …");
    bob.check("EG.FOLLOW bob t3", "-CHALLENGEREQUIRED …");
    let proof = credentials.proof("bob", 60);
    let solved = format!("!{} ^entourage-challenge={proof} POST /users/t3/follow", credentials.token("bob"));
    server.check(&solved, "201");
}

#[test]
fn a_solved_challenge_lets_follows_through() {
    let credentials = Credentials::new();
    let limits = Limits { challenge_after: 2, ..Limits::NONE };
    let rules = Rules { auto_create: true, limits, ..Rules::default() };
    let server = Server::behind(credentials.front(), memory_store(1), rules);
    let mut wire = Wire::connect(server.resp);
    wire.check(&format!("AUTH {}", credentials.service_key), "OK");
    wire.check("SADD following:a 1 2", "2");
    wire.check("EG.FOLLOW a 3", "-CHALLENGEREQUIRED …");
    wire.check("EG.FOLLOW a 3 CHALLENGE wrong", "-CHALLENGEREQUIRED …");
    wire.check(&format!("EG.FOLLOW a 3 CHALLENGE {}", credentials.proof("b", 60)), "-CHALLENGEREQUIRED …");
    wire.check(&format!("EG.FOLLOW a 3 CHALLENGE {}", credentials.proof("a", 60)), "[\"state\" \"active\"…");
    wire.check("EG.FOLLOW a 3 LOUDLY", "-ERR syntax error");
}

#[test]
fn a_transaction_answers_reads_together() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    wire.check("SADD following:1 2", "1");
    let said = pipeline(
        &mut wire,
        &[
            "MULTI",
            "SISMEMBER following:1 2",
            "GET follower_count:2",
            "SISMEMBER following:1 3",
            "SISMEMBER following:1 nobody",
            "GET following:1",
            "PING",
            "EXEC",
            "PING",
        ],
    );
    assert_eq!(said[..7], ["OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "QUEUED"]);
    assert!(said[7].starts_with("[1 \"1\" 0 0 -WRONGTYPE ") && said[7].ends_with(" PONG]"), "{}", said[7]);
    assert_eq!(said[8], "PONG");
    wire.check_all(&[
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
        ("MULTI", "OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("DISCARD", "OK"),
        ("MULTI", "OK"),
        ("EXEC", "[]"),
        ("WATCH following:1", "-ERR WATCH is not supported…"),
        ("UNWATCH", "OK"),
        ("UNWATCH x", "-ERR wrong number of arguments for 'unwatch' command"),
        // As Redis 7 has it: what follows is still answered.
        ("MULTI", "OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH following:1", "-ERR WATCH inside MULTI is not allowed"),
        ("DISCARD", "OK"),
        ("MULTI", "OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH following:1", "-ERR WATCH inside MULTI is not allowed"),
        ("PING", "QUEUED"),
        ("EXEC", "[PONG]"),
        ("MULTI", "OK"),
        ("EXEC x", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "OK"),
        ("AUTH x", "QUEUED"),
        ("SELECT 0", "QUEUED"),
        ("EXEC", "[-ERR AUTH <password> called without…"),
    ]);
    for line in ["SADD following:1 3", "EG.FOLLOW 1 3", "SMEMBERS", "FLUSHALL", "MULTI x", "DISCARD x"] {
        wire.check("MULTI", "OK");
        wire.check("PING", "QUEUED");
        assert!(wire.ask(line).starts_with("-ERR "), "{line}");
        wire.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    }
    wire.check("SISMEMBER following:1 3", "0");
    wire.check("MULTI", "OK");
    wire.check("RESET", "RESET");
    wire.check("EXEC", "-ERR EXEC without MULTI");
    // As many as redis-py puts into one pipeline, and more than there may be.
    let many: Vec<&str> = std::iter::once("MULTI")
        .chain(std::iter::repeat_n("SISMEMBER following:1 2", 3_000))
        .chain(std::iter::once("EXEC"))
        .collect();
    let said = pipeline(&mut wire, &many);
    assert_eq!(said.last().unwrap().matches('1').count(), 3_000);
    wire.check("MULTI", "OK");
    let more = pipeline(&mut wire, &vec!["PING"; 10_001]);
    assert_eq!(more[9_999], "QUEUED");
    assert_eq!(more[10_000], "-ERR the transaction is too large");
    wire.check("EXEC", "-EXECABORT …");
}

#[test]
fn tokens_are_those_of_rest() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    wire.check("EG.TOKEN", "nil");
    wire.check("SADD following:1 2", "1");
    let token = wire.ask("EG.TOKEN").trim_matches('"').to_owned();
    server.check(&format!("^entourage-token={token} GET /users/1/is-following/2"), r#"200 {"following": true}"#);
    let rest = server.check("PUT /users/1/following/3", "201").token();
    wire.check(&format!("EG.TOKEN {rest}"), "OK");
    wire.check("SISMEMBER following:1 3", "1");
    wire.check("EG.TOKEN \"\"", "OK");
    for wrong in ["x".to_owned(), format!("B{}", &token[1..])] {
        wire.check(&format!("EG.TOKEN {wrong}"), "-INVALIDTOKEN …");
    }
    let elsewhere = Server::with(memory_store(2), Rules::default());
    Wire::connect(elsewhere.resp).check(&format!("EG.TOKEN {token}"), "-INVALIDTOKEN …");
}
