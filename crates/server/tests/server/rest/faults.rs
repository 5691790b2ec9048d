use entourage_model::Code;
use entourage_store::Unhealthy;

use super::faulty::{Fault, faulty};

#[test]
fn what_the_store_refuses_is_said_with_when_to_try_again() {
    let (store, server) = faulty();
    for code in [Code::Unavailable, Code::StorageFull, Code::MemoryFull, Code::Overloaded] {
        store.hooks.set(Fault::Refuse(code));
        let reply = server.check("@a POST /users/b/follow", &format!("503 {}", code.as_str()));
        assert_eq!(reply.header("retry-after"), "1");
        server.check("GET /users/a", "200");
    }
    store.hooks.set(Fault::None);
    server.check("@a POST /users/b/follow", "201");
}

#[test]
fn a_panic_is_a_problem_and_the_server_goes_on() {
    let (store, server) = faulty();
    for fault in [Fault::Panic, Fault::Refuse(Code::Internal)] {
        store.hooks.set(fault);
        let reply = server.check("@a POST /users/b/follow", "500 internal");
        assert!(!reply.text.contains("told to"), "what went wrong inside stays inside");
    }
    store.hooks.set(Fault::None);
    server.check("@a POST /users/b/follow", "201");
}

#[test]
fn a_read_behind_its_token_is_stale_never_old() {
    let (store, server) = faulty();
    let token = server.check("@a POST /users/b/follow", "201").token();
    store.hooks.set(Fault::Behind);
    let reply = server.check(&format!("^entourage-token={token} GET /users/a/is-following/b"), "503 stale");
    assert_eq!(reply.header("retry-after"), "1");
    server.check("GET /users/a/is-following/b", r#"200 {"following": true}"#);
    store.hooks.set(Fault::None);
    server.check(&format!("^entourage-token={token} GET /users/a/is-following/b"), r#"200 {"following": true}"#);
}

#[test]
fn unknown_to_memory_is_not_a_no() {
    let (_store, server) = faulty();
    server.check_all(&[
        ("@a POST /users/b/follow", "201"),
        ("GET /users/a/is-following/b", r#"200 {"following": true, "since": "*"}"#),
        (r#"POST /checks {"pairs": [["a", "b"], ["b", "a"]]}"#, r#"200 {"results": [true, false]}"#),
        (r#"PUT /users/p {"private": true}"#, "201"),
        ("@a POST /users/p/follow", "202"),
        ("GET /users/a/is-following/p", r#"200 {"following": false, "since": null}"#),
    ]);
}

#[test]
fn expired_events_name_the_cursor_to_resume_from() {
    let (store, server) = faulty();
    let beginning = server.check("GET /events?limit=1", "200 {}").body["next_cursor"].as_str().unwrap().to_owned();
    store.hooks.set(Fault::Expired(2));
    server.check("PUT /users/c", "201");
    let reply = server.check(&format!("GET /events?after={beginning}"), "410 events_expired");
    let cursor = reply.body["resume_cursor"].as_str().unwrap();
    let left = r#"200 {"data": [{"user": {"id": "c"}}]}"#;
    server.check(&format!("GET /events?after={cursor}"), left);
    // Who has no cursor begins at the oldest one that is kept.
    server.check("GET /events", left);
}

#[test]
fn readiness_says_why_not() {
    let (store, server) = faulty();
    store.hooks.set(Fault::Degraded(Unhealthy::StorageFull("no room".to_owned())));
    server.check_all(&[
        ("GET //readyz", r#"503 {"status": "degraded", "reason": "storage full: no room"}"#),
        ("GET //healthz", r#"200 {"status": "ok"}"#),
        ("GET /users/a", "200"),
    ]);
    store.hooks.set(Fault::None);
    server.check("GET //readyz", r#"200 {"status": "ready"}"#);
}

#[test]
fn a_second_request_with_a_running_key_waits_for_nobody() {
    let (store, server) = faulty();
    store.hooks.set(Fault::Hang);
    let request = "@a ^idempotency-key=k POST /users/b/follow";
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.check(request, "201 {}"));
        store.hooks.wait_for_a_commit();
        let second = server.check(request, "409 request_in_progress");
        assert_eq!(second.header("retry-after"), "1");
        store.hooks.let_go();
        let first = first.join().unwrap();
        let third = server.check(request, "201 {}");
        assert_eq!(third.header("idempotent-replayed"), "true");
        assert_eq!(third.text, first.text);
    });
}

#[test]
fn a_request_that_takes_too_long_is_answered_all_the_same() {
    let (store, server) = faulty();
    store.hooks.set(Fault::Hang);
    let reply = server.check("@a POST /users/b/follow", "503 overloaded");
    assert!(reply.body["detail"].as_str().unwrap().contains("may or may not"));
    store.hooks.let_go();
    // What was under way comes to its end, though nobody waits for it any more.
    let began = std::time::Instant::now();
    while server.ask("GET /users/b").body["counts"]["followers"] != 1 {
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "the follow was let go of with its request");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.check("@a POST /users/b/follow", "200");
}
