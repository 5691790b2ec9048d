//! While PostgreSQL is away memory answers checks, says how old that is, and stops when it is too old.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_postgres as postgres;
use entourage_service::{Limits, Rules};
use entourage_store::{Store, SystemClock, layers::cached};

use super::down::{FORWARD, Proxy, REFUSE, proxied};
use crate::kit::{server::Server, table::Reply};

/// `cache.max_stale` of these tests.
const MAX_STALE: Duration = Duration::from_secs(6);
/// Up to this age memory answers as if nothing had happened.
const FRESH: Duration = Duration::from_secs(2);
/// A refusal at once, on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(1);

/// One server whose PostgreSQL may go away, and one that keeps it.
struct World {
    proxy: Proxy,
    server: Server,
    other: Server,
}

fn world() -> World {
    let (proxy, direct, behind) = proxied();
    let schema = format!("test_{:016x}", rand::random::<u64>());
    // The pool's own tasks end with the runtime that made them, so it stays.
    let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new().unwrap()));
    let rules = || Rules { limits: Limits::NONE, audit_interval: None, auto_create: true, ..Rules::default() };
    let connect = |url: &str| {
        let (url, options) = (url.to_owned(), postgres::Options::default());
        let opened = runtime.block_on(postgres::Store::connect(&url, &schema, options, Arc::new(SystemClock)));
        Arc::new(opened.expect("the store opens")) as Arc<dyn Store>
    };
    let (inner, direct) = (connect(&behind), connect(&direct));
    let options = cached::Options { max_stale: MAX_STALE, ..cached::Options::default() };
    let layer = runtime.block_on(cached::Store::open(inner, options, cached::Surroundings::default()));
    World { proxy, server: Server::with(Arc::new(layer), rules()), other: Server::with(direct, rules()) }
}

fn sismember(server: &Server, follower: &str, target: &str) -> String {
    let mut stream = TcpStream::connect(server.resp).unwrap();
    let key = format!("following:{follower}");
    let words = ["SISMEMBER", &key, target].map(|word| format!("${}\r\n{word}\r\n", word.len())).concat();
    stream.write_all(format!("*3\r\n{words}").as_bytes()).unwrap();
    let mut bytes = [0; 512];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
}

fn age(reply: &Reply) -> Option<u64> {
    Some(reply.header("entourage-age")).filter(|age| !age.is_empty()).map(|age| age.parse().unwrap())
}

const CHECKS: &str = r#"POST /checks {"pairs": [["1", "2"], ["1", "3"], ["ann", "bob"]]}"#;

#[test]
fn memory_answers_with_its_age_up_to_a_bound_and_the_store_again_afterwards() {
    let World { proxy, server, other } = world();
    for (follower, target) in [("1", "2"), ("ann", "bob"), ("4", "5")] {
        server.check(&format!("PUT /users/{follower}/following/{target}"), "201");
    }
    server.check("PUT /users/3", "201");
    // Held from here on: the rows of 1 and of ann, and the ids of those with names.
    for _ in 0..3 {
        server.check(CHECKS, r#"200 {"results": [true, false, true]}"#);
        server.check("GET /users/ann/is-following/bob", r#"200 {"following": true}"#);
        std::thread::sleep(Duration::from_millis(150));
    }
    let known = server.check("PUT /users/1/following/6", "201").token();
    std::thread::sleep(Duration::from_millis(400));

    proxy.set(REFUSE);
    let gone = Instant::now();
    // Another server still has the store, and writes.
    let unseen = other.check("PUT /users/1/following/3", "201").token();
    let first = server.ask(CHECKS);
    if gone.elapsed() < FRESH {
        assert_eq!((first.status, age(&first)), (200, None), "within two seconds nothing changes: {}", first.text);
    }
    let mut last = 0;
    let mut told = Vec::new();
    loop {
        let (asked, reply) = (Instant::now(), server.ask(CHECKS));
        if reply.status == 503 {
            assert_eq!(reply.body["code"], "unavailable");
            assert!(gone.elapsed() > MAX_STALE - FRESH, "too early, after {:?}", gone.elapsed());
            break;
        }
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.body["results"], serde_json::json!([true, false, true]), "as it was, and it says so");
        if gone.elapsed() > FRESH + AT_ONCE {
            let age = age(&reply).expect("an age");
            assert!(age >= last && age <= MAX_STALE.as_secs(), "{age} after {last}");
            assert!(age.abs_diff(gone.elapsed().as_secs()) <= 1, "{age} s, and it is away for {:?}", gone.elapsed());
            assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
            (last, told) = (age, [told, vec![age]].concat());
            rules_hold(&server, &known, &unseen);
        }
        assert!(gone.elapsed() < 2 * MAX_STALE, "memory answers for ever");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(told.len() > 3 && last >= FRESH.as_secs(), "{told:?}");
    println!("answered with the ages {told:?}; then 503 after {:.1} s", gone.elapsed().as_secs_f64());
    // Too old: nobody waits to be told so.
    for request in [CHECKS, "GET /users/1/is-following/2", "GET /users/1", "PUT /users/7/following/8"] {
        let asked = Instant::now();
        server.check(request, r#"503 {"code": "unavailable"}"#);
        assert!(asked.elapsed() < AT_ONCE, "{request}: {:?}", asked.elapsed());
    }
    assert!(sismember(&server, "1", "2").starts_with("-UNAVAILABLE"));

    proxy.set(FORWARD);
    let back = Instant::now();
    loop {
        let reply = server.ask(CHECKS);
        if reply.status == 200 {
            assert_eq!(age(&reply), None);
            assert_eq!(reply.body["results"], serde_json::json!([true, true, true]), "what the other server wrote");
            break;
        }
        assert!(back.elapsed() < Duration::from_secs(10), "it is not found again: {}", reply.text);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("back after {:.2} s", back.elapsed().as_secs_f64());
    server.check(&format!("^entourage-token={unseen} {CHECKS}"), r#"200 {"results": [true, true, true]}"#);
}

/// An answer from memory is as careful as any other.
fn rules_hold(server: &Server, known: &str, unseen: &str) {
    // A token that memory covers is answered; one of a write it never heard of is not.
    let with_known = server.ask(&format!("^entourage-token={known} GET /users/1/is-following/6"));
    if with_known.status == 200 {
        assert_eq!(with_known.body["following"], true);
        assert!(with_known.body["since"].is_null() && age(&with_known).is_some());
    } else {
        assert_eq!(with_known.body["code"], "unavailable", "too old by now");
    }
    server.check(&format!("^entourage-token={unseen} GET /users/1/is-following/3"), r#"503 {"code": "stale"}"#);
    // What is not held is unknown, never no: alone, and among others.
    let unknown = r#"503 {"code": "unavailable"}"#;
    server.check("GET /users/4/is-following/5", unknown);
    server.check(r#"POST /checks {"pairs": [["1", "2"], ["4", "5"]]}"#, unknown);
    // An id that nobody has, with the key of somebody else, would be a yes; a person's own view needs the store.
    for actor in ["1", "ann", "9"] {
        server.check(&format!("@{actor} GET /users/1/is-following/2"), unknown);
        server.check(&format!("@{actor} GET /users/1/is-following/3"), unknown);
    }
    let heard = sismember(server, "1", "2");
    assert!([":1", "-UNAVAILABLE"].iter().any(|wanted| heard.starts_with(wanted)), "{heard}");
    server.check("PUT /users/7/following/8", unknown);
}
