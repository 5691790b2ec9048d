use std::sync::{Arc, Barrier};

use entourage_service::{Limits, Rules};

use super::{
    credentials::Credentials,
    server::{Server, memory_store},
};

fn with_users(ids: &[&str]) -> Server {
    let server = Server::start();
    for id in ids {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server
}

#[test]
fn the_same_key_and_body_replays_status_and_body() {
    let server = with_users(&["a", "b", "c"]);
    for (request, undo, status) in [
        ("@a ^idempotency-key=k1 POST /users/b/follow", "@a DELETE /users/b/follow", 201),
        ("^idempotency-key=k1 PUT /users/a/following/c", "DELETE /users/a/following/c", 201),
        ("^idempotency-key=k1 PUT /users/a/blocks/c", "DELETE /users/a/blocks/c", 201),
        (r#"^idempotency-key=k1 PUT /users/d {"name": "D"}"#, r#"PUT /users/d {"name": "E"}"#, 201),
        (r#"^idempotency-key=k2 PATCH /users/d {"name": "D"}"#, r#"PUT /users/d {"name": "E"}"#, 200),
    ] {
        let first = server.check(request, &status.to_string());
        assert_eq!(first.header("idempotent-replayed"), "", "{request}");
        server.check(undo, "200");
        let again = server.check(request, &status.to_string());
        assert_eq!(again.header("idempotent-replayed"), "true", "{request}");
        assert_eq!(again.text, first.text);
    }
    // The retries came after the undoing, and undid nothing of it.
    server.check_all(&[
        ("GET /users/a/is-following/b", r#"200 {"following": false}"#),
        ("GET /users/a/blocks", r#"200 {"total": 0}"#),
        ("GET /users/d", r#"200 {"name": "E"}"#),
    ]);
}

#[test]
fn another_body_is_refused_and_another_scope_is_another_key() {
    let server = with_users(&["a", "b", "c"]);
    server.check_all(&[
        ("@a ^idempotency-key=k POST /users/b/follow", "201"),
        (r#"@a ^idempotency-key=k POST /users/b/follow {"quiet": true}"#, "422 idempotency_mismatch"),
        ("@c ^idempotency-key=k POST /users/b/follow", "201"),
        ("@a ^idempotency-key=k POST /users/c/follow", "201"),
        ("@a ^idempotency-key=k DELETE /users/b/follow", r#"200 {"changed": true}"#),
    ]);
    let replay = server.check("@a ^idempotency-key=k DELETE /users/b/follow", r#"200 {"changed": true}"#);
    assert_eq!(replay.header("idempotent-replayed"), "true");
}

#[test]
fn refusals_are_not_recorded_and_keys_are_checked() {
    let server = with_users(&["a"]);
    server.check("@a ^idempotency-key=k POST /users/b/follow", "404 user_not_found");
    server.check("PUT /users/b", "201");
    let now = server.check("@a ^idempotency-key=k POST /users/b/follow", "201");
    assert_eq!(now.header("idempotent-replayed"), "");
    let longest = "k".repeat(255);
    server.check(&format!("@a ^idempotency-key={longest} POST /users/b/follow"), "200");
    server.check(&format!("@a ^idempotency-key={longest}k POST /users/b/follow"), "400 invalid_request");
    server.check("@a ^idempotency-key= POST /users/b/follow", "400 invalid_request");
    server.check(&format!("^idempotency-key={longest}k GET /users/b"), "200");
}

#[test]
fn two_actors_of_one_service_key_may_use_one_key() {
    let credentials = Credentials::new();
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    let service = format!("!{}", credentials.service_key);
    for user in ["alice", "bob", "star"] {
        server.check(&format!("{service} PUT /users/{user}"), "201");
    }
    let follow = |actor: &str| {
        let request = format!("{service} {actor} ^idempotency-key=k POST /users/star/follow");
        server.check(&request, r#"201 {"following": true}"#)
    };
    let (alice, bob) = (follow("@alice"), follow("@bob"));
    assert_eq!((&alice.body["follower_id"], &bob.body["follower_id"]), (&"alice".into(), &"bob".into()));
    for (actor, first) in [("@alice", &alice), ("@bob", &bob)] {
        assert_eq!(first.header("idempotent-replayed"), "");
        let again = follow(actor);
        assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text));
    }
    // The same by path, where the service acts for nobody.
    let put = |follower: &str| {
        let request = format!("{service} ^idempotency-key=k PUT /users/{follower}/following/star");
        server.check(&request, "200").header("idempotent-replayed").to_owned()
    };
    assert_eq!([put("alice"), put("bob"), put("alice")], ["", "", "true"]);
    server.check(&format!("{service} GET /users/star"), r#"200 {"counts": {"followers": 2}}"#);
}

#[test]
fn equal_requests_at_once_have_one_effect() {
    const AT_ONCE: usize = 24;
    let server = Server::with(memory_store(1), Rules { limits: Limits::NONE, ..Rules::default() });
    server.check_all(&[("PUT /users/a", "201"), ("PUT /users/b", "201")]);
    for round in 0..20 {
        let (follow, key) = (round % 2 == 0, format!("^idempotency-key=k{round}"));
        let request = match follow {
            true => format!("@a {key} POST /users/b/follow"),
            false => format!("@a {key} DELETE /users/b/follow"),
        };
        let start = Arc::new(Barrier::new(AT_ONCE));
        let replies: Vec<_> = std::thread::scope(|scope| {
            let ask = |_| {
                let (server, request, start) = (&server, &request, Arc::clone(&start));
                scope.spawn(move || {
                    start.wait();
                    server.ask(request)
                })
            };
            let asking: Vec<_> = (0..AT_ONCE).map(ask).collect();
            asking.into_iter().map(|each| each.join().unwrap()).collect()
        });
        let done: Vec<_> = replies.iter().filter(|reply| reply.status < 300).collect();
        let first: Vec<_> = done.iter().filter(|reply| reply.header("idempotent-replayed").is_empty()).collect();
        assert_eq!(first.len(), 1, "one has the effect");
        assert!(done.iter().all(|reply| reply.text == first[0].text), "all hear the same");
        assert_eq!(first[0].status, if follow { 201 } else { 200 });
        for reply in replies.iter().filter(|reply| reply.status >= 300) {
            assert_eq!(reply.body["code"], "request_in_progress", "{}", reply.text);
        }
        let total = usize::from(follow);
        server.check("GET /users/b/followers", &format!(r#"200 {{"total": {total}}}"#));
    }
    let events = server.check("GET /events?limit=200", "200").body;
    let of_edge = events["data"].as_array().unwrap().iter().filter(|event| event["follower"] == "a");
    assert_eq!(of_edge.count(), 20, "one event for each effect");
}

#[test]
fn a_reply_is_replayed_by_the_server_that_comes_after() {
    let store = memory_store(1);
    let request = "@a ^idempotency-key=k POST /users/b/follow";
    let first = {
        let server = Server::with(Arc::clone(&store), Rules::default());
        server.check_all(&[("PUT /users/a", "201"), ("PUT /users/b", "201")]);
        let first = server.check(request, "201");
        server.check("@a DELETE /users/b/follow", "200");
        first
    };
    let server = Server::with(store, Rules::default());
    let again = server.check(request, "201");
    assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text));
    server.check(r#"@a ^idempotency-key=k POST /users/b/follow {"quiet": true}"#, "422 idempotency_mismatch");
    server.check("GET /users/b/followers", r#"200 {"total": 0}"#);
}
