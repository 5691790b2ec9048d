//! Jobs: started by a request, done in chunks, seen by admins.

use entourage_model::Code;
use entourage_service::Rules;

use super::server::{Server, memory_store};

fn people(server: &Server, names: &[&str]) {
    for name in names {
        server.check(&format!("PUT /users/{name}"), "201");
    }
}

/// A private account that `asking` people asked.
fn asked(server: &Server, asking: usize) {
    server.check(r#"PUT /users/star {"private": true}"#, "201");
    for number in 0..asking {
        server.check(&format!("PUT /users/{number}"), "201");
        server.check(&format!("@{number} POST /users/star/follow"), "202");
    }
}

#[test]
fn accepting_all_is_a_job() {
    let server = Server::start();
    asked(&server, 5);
    let started = server.check(
        "@star POST /users/star/follow-requests:accept-all",
        r#"202 {"job": {"id": "*", "kind": "accept_all", "state": "running", "subject": "star", "edges": 0, "finished_at": null}}"#,
    );
    let job = started.body["job"]["id"].as_str().unwrap().to_owned();
    server.check("PUT /users/late", "201");
    server.check("@late POST /users/star/follow", "202");
    server.work_now();
    server.check(
        &format!("GET /admin/jobs/{job}"),
        r#"200 {"state": "done", "edges": 5, "finished_at": "*", "error": null}"#,
    );
    let followers = server.check("GET /users/star/followers", r#"200 {"total": 5}"#);
    assert_eq!(followers.ids(), ["4", "3", "2", "1", "0"], "who asked last stands on top");
    server.check("GET /users/star/follow-requests", r#"200 {"data": [{"id": "late"}], "total": 1}"#);
    server.check("POST /users/nobody/follow-requests:accept-all", "404 user_not_found");
    server.check("@late POST /users/star/follow-requests:accept-all", "403 forbidden");
}

#[test]
fn an_account_that_goes_public_has_nobody_waiting() {
    for (request, status) in
        [(r#"PATCH /users/star {"private": false}"#, "200"), (r#"PUT /users/star {"private": false}"#, "200")]
    {
        let server = Server::start();
        asked(&server, 3);
        server.check(request, &format!(r#"{status} {{"changed": true, "version": "*"}}"#));
        server.check(
            "GET /admin/jobs",
            r#"200 {"data": [{"kind": "going_public", "state": "running", "subject": "star"}]}"#,
        );
        server.work_now();
        server.check("GET /users/star", r#"200 {"counts": {"followers": 3, "requests": 0}}"#);
        server.check("GET /admin/jobs", r#"200 {"data": [{"state": "done", "edges": 3}]}"#);
    }
}

#[test]
fn an_account_that_stays_private_keeps_its_requests() {
    let server = Server::start();
    asked(&server, 2);
    server.check(r#"PATCH /users/star {"name": "Star", "private": true}"#, "200");
    server.check(r#"PUT /users/star {"private": false, "name": 7}"#, "400 invalid_request /name");
    server.check(r#"@0 PATCH /users/star {"private": false}"#, "403 forbidden");
    server.check(r#"^idempotency-key=k PATCH /users/star {"private": true}"#, "200");
    server.check(r#"^idempotency-key=k PATCH /users/star {"private": false}"#, "422 idempotency_mismatch");
    server.work_now();
    server.check("GET /users/star", r#"200 {"counts": {"followers": 0, "requests": 2}}"#);
    server.check("GET /admin/jobs", r#"200 {"data": [], "has_more": false}"#);
}

#[test]
fn an_old_request_to_go_public_does_not_open_the_account_again() {
    let server = Server::start();
    asked(&server, 1);
    let open = r#"^idempotency-key=k PATCH /users/star {"private": false}"#;
    server.check(open, "200");
    server.work_now();
    server.check(r#"PATCH /users/star {"private": true}"#, "200");
    server.check("PUT /users/late", "201");
    server.check("@late POST /users/star/follow", "202");
    assert_eq!(server.check(open, "200").header("idempotent-replayed"), "true");
    server.work_now();
    server.check("GET /users/star/follow-requests", r#"200 {"data": [{"id": "late"}]}"#);
}

#[test]
fn erasing_forgets_at_once_and_takes_edges_later() {
    let server = Server::start();
    people(&server, &["a", "b", "c"]);
    for line in
        ["PUT /users/a/following/b", "PUT /users/b/following/a", "PUT /users/c/following/a", "PUT /users/b/blocks/c"]
    {
        server.check(line, "201");
    }
    server.check("@b DELETE /users/a", "403 forbidden");
    server.check("DELETE /users/nobody", "404 user_not_found");
    let erase = "@a ^idempotency-key=k DELETE /users/a";
    let started = server.check(erase, r#"202 {"job": {"kind": "erase", "state": "running"}}"#);
    let token = started.token();
    server.check(&format!("^entourage-token={token} GET /users/a"), "404 user_not_found");
    server.check("GET /users/b/followers", r#"200 {"data": []}"#);
    server.check("PUT /users/a", "409 request_in_progress");
    let again = server.check(erase, "202");
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.body["job"]["id"], started.body["job"]["id"]);
    server.check("@a DELETE /users/a", "404 user_not_found");
    server.work_now();
    let job = started.body["job"]["id"].as_str().unwrap();
    server.check(&format!("GET /admin/jobs/{job}"), r#"200 {"state": "done", "edges": 3, "subject": null}"#);
    server.check("GET /users/b", r#"200 {"counts": {"followers": 0, "following": 0}}"#);
    server.check("PUT /users/a", "201");
    server.check(erase, "202");
    server.work_now();
    server.check("GET /users/a", r#"200 {"counts": {"followers": 0, "following": 0}}"#);
    let types: Vec<String> = server.ask("GET /events?limit=200").body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .filter(|name| name == "user.erased")
        .collect();
    assert_eq!(types.len(), 1);
}

#[test]
fn jobs_page_newest_first_and_belong_to_admins() {
    let server = Server::start();
    people(&server, &["a"]);
    for _ in 0..5 {
        server.check("@a POST /users/a/follow-requests:accept-all", "202");
    }
    let whole = server.ask("GET /admin/jobs");
    let ids: Vec<u64> = whole.ids().into_iter().map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 5 && ids.is_sorted_by(|a, b| a > b), "{ids:?}");
    let first = server.check("GET /admin/jobs?limit=3", r#"200 {"has_more": true}"#);
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let second = server
        .check(&format!("GET /admin/jobs?limit=3&cursor={cursor}"), r#"200 {"has_more": false, "next_cursor": null}"#);
    assert_eq!([first.ids(), second.ids()].concat(), whole.ids());
    server.check(&format!("GET /users/a/followers?cursor={cursor}"), "400 invalid_cursor");
    for path in ["/admin/jobs", "/admin/jobs/1"] {
        server.check(&format!("@a GET {path}"), "403 forbidden");
    }
    for id in ["1", "x", "-1", "99999999999999999999"] {
        server.check(&format!("GET /admin/jobs/{id}"), "404 not_found");
    }
}

#[test]
fn suspension_refuses_follows_and_nothing_else() {
    let server = Server::with(memory_store(1), Rules::default());
    people(&server, &["a", "b", "c"]);
    server.check("@a POST /users/b/follow", "201");
    server.check_all(&[
        ("@a PUT /admin/users/a/suspend", "403 forbidden"),
        ("PUT /admin/users/a/suspend", r#"200 {"id": "a", "follow_suspended": true, "changed": true}"#),
        ("PUT /admin/users/a/suspend", r#"200 {"changed": false}"#),
        ("@a POST /users/c/follow", "403 follow_suspended"),
        ("@a POST /users/b/follow", "403 follow_suspended"),
        ("PUT /users/a/following/c", "403 follow_suspended"),
        ("@a GET /users/a", r#"200 {"follow_suspended": true}"#),
        ("@a DELETE /users/b/follow", "200"),
        ("@b POST /users/a/follow", "201"),
        ("PUT /users/a", "200"),
        ("@a POST /users/c/follow", "403 follow_suspended"),
        ("DELETE /admin/users/a/suspend", r#"200 {"follow_suspended": false, "changed": true}"#),
        ("@a POST /users/c/follow", "201"),
        ("PUT /admin/users/nobody/suspend", "404 user_not_found"),
    ]);
    assert!(server.ask("@b GET /users/a").body.get("follow_suspended").is_none());
    assert_eq!(Code::FollowSuspended.http_status(), 403);
}

#[test]
fn a_store_without_a_disk_of_its_own_says_so() {
    let server = Server::start();
    server.check("POST /admin/erase-now", "400 invalid_request");
    server.check("PUT /users/a", "201");
    server.check("@a POST /admin/erase-now", "403 forbidden");
}
