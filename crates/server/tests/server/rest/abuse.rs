//! `/admin/abuse` and `/admin/users/{id}/follow-quota`.

use std::time::{Duration, Instant};

use entourage_service::{AbuseRules, Limits, Rules};
use serde_json::Value;

use super::server::{Server, memory_store};

fn rules(auto_suspend: bool) -> Rules {
    let abuse = AbuseRules { auto_suspend, ..AbuseRules::default() };
    Rules { limits: Limits::NONE, abuse, ..Rules::default() }
}

fn flip(server: &Server, follower: &str, target: &str, times: usize) {
    for _ in 0..times {
        server.check(&format!("@{follower} POST /users/{target}/follow"), "201");
        server.check(&format!("@{follower} DELETE /users/{target}/follow"), "200");
    }
}

/// A server where `ann` flips her follow of `bob` until there is a case; and that case.
fn flipped(auto_suspend: bool) -> (Server, String) {
    let server = Server::with(memory_store(1), rules(auto_suspend));
    server.detect_now();
    for user in ["ann", "bob", "cleo"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    flip(&server, "ann", "bob", 10);
    server.detect_now();
    let page = server.check("GET /admin/abuse?state=open", r#"200 {"next_cursor": null, "has_more": false}"#);
    let case = page.body["data"][0]["id"].as_str().unwrap().to_owned();
    (server, case)
}

#[test]
fn a_case_is_listed_shown_and_dismissed() {
    let (server, case) = flipped(false);
    let row = r#"{"kind": "pair_churn", "state": "open", "actors": [{"id": "ann", "paused": false}], "actor_count": 1,
        "targets": [{"id": "bob", "paused": false}], "figures": {"flips_in_7d": 10.0}, "count": 1, "closed_at": null}"#;
    server.check_all(&[
        ("GET /admin/abuse", &format!(r#"200 {{"data": [{row}]}}"#)),
        ("GET /admin/abuse?kind=pair_churn&state=open", &format!(r#"200 {{"data": [{row}]}}"#)),
        ("GET /admin/abuse?kind=surge", r#"200 {"data": []}"#),
        ("GET /admin/abuse?state=confirmed", r#"200 {"data": []}"#),
        ("GET /admin/abuse?state=closed", "400 invalid_request /state"),
        ("GET /admin/abuse?kind=", "400 invalid_request /kind"),
        ("GET /admin/abuse?limit=201", "400 invalid_request /limit"),
        ("GET /admin/abuse?cursor=x", "400 invalid_cursor"),
        ("GET /admin/abuse/x", "404 not_found"),
        ("GET /admin/abuse/7", "404 not_found"),
        ("@ann GET /admin/abuse", "403 forbidden"),
    ]);
    let listed = server.ask("GET /admin/abuse");
    assert!(listed.body["data"][0].get("evidence").is_none());
    let shown = server.check(&format!("GET /admin/abuse/{case}"), &format!("200 {row}"));
    let evidence = shown.body["evidence"].as_array().unwrap();
    assert!(
        !evidence.is_empty() && evidence.iter().all(|trace| trace["follower"] == "ann" && trace["target"] == "bob")
    );
    server.check_all(&[
        (&format!("@ann POST /admin/abuse/{case}/dismiss"), "403 forbidden"),
        (
            &format!("POST /admin/abuse/{case}/dismiss"),
            r#"200 {"changed": true, "case": {"state": "dismissed", "closed_at": "*"}}"#,
        ),
        (&format!("POST /admin/abuse/{case}/dismiss"), r#"200 {"changed": false, "case": {"state": "dismissed"}}"#),
        (&format!(r#"POST /admin/abuse/{case}/dismiss {{"why": 1}}"#), "400 invalid_request /why"),
        (&format!("GET /admin/abuse/{case}"), r#"200 {"state": "dismissed"}"#),
    ]);
    flip(&server, "ann", "bob", 20);
    server.detect_now();
    server.check("GET /admin/abuse?state=open", r#"200 {"data": []}"#);
    // Another subject is another case; its id is that of nobody.
    flip(&server, "ann", "cleo", 10);
    server.detect_now();
    let page = server.check("GET /admin/abuse?limit=1", r#"200 {"data": [{"state": "open"}], "has_more": true}"#);
    let next = page.body["next_cursor"].as_str().unwrap();
    server.check(&format!("GET /admin/abuse?limit=1&cursor={next}"), r#"200 {"data": [{"state": "dismissed"}]}"#);
    server.check(&format!("GET /admin/abuse?state=open&cursor={next}"), "400 invalid_cursor");
}

#[test]
fn services_hear_of_cases_as_events() {
    let (server, case) = flipped(false);
    server.check(&format!("POST /admin/abuse/{case}/confirm"), r#"200 {"changed": true}"#);
    let events = server.ask("GET /events?limit=200");
    let told: Vec<&Value> = events.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("abuse."))
        .collect();
    let names: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["abuse.opened", "abuse.confirmed"]);
    for (event, state) in told.iter().zip(["open", "confirmed"]) {
        let expected = serde_json::json!({
            "id": case, "kind": "pair_churn", "state": state, "actor": "ann", "target": "bob", "actors": 1, "count": 1
        });
        assert_eq!(event["case"], expected);
    }
    server.check("POST /admin/verify", r#"200 {"clean": true}"#);
}

#[test]
fn a_case_pauses_and_an_admin_suspends() {
    let (server, case) = flipped(true);
    server.check_all(&[
        (&format!("GET /admin/abuse/{case}"), r#"200 {"actors": [{"id": "ann", "paused": true}]}"#),
        ("@ann POST /users/bob/follow", "403 follow_suspended"),
        ("@ann GET /users/ann", r#"200 {"follow_suspended": true}"#),
        (&format!("POST /admin/abuse/{case}/confirm"), r#"200 {"case": {"actors": [{"id": "ann", "paused": false}]}}"#),
        ("@ann POST /users/bob/follow", "201"),
    ]);
    let (server, case) = flipped(true);
    server.check_all(&[
        ("PUT /admin/users/ann/suspend", "200"),
        (&format!("GET /admin/abuse/{case}"), r#"200 {"actors": [{"id": "ann", "paused": false}]}"#),
        (&format!("POST /admin/abuse/{case}/dismiss"), "200"),
        ("@ann POST /users/bob/follow", "403 follow_suspended"),
        ("DELETE /admin/users/ann/suspend", "200"),
        ("@ann POST /users/bob/follow", "201"),
    ]);
}

#[test]
fn the_quota_of_one_target_is_set_shown_and_removed() {
    let server = Server::with(memory_store(1), rules(false));
    for user in ["star", "a", "b", "c", "d"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    let quota = "/admin/users/star/follow-quota";
    server.check_all(&[
        (&format!("GET {quota}"), r#"200 {"id": "star", "per_minute": null, "default_per_minute": 0}"#),
        (&format!(r#"PUT {quota} {{"per_minute": 2}}"#), r#"200 {"id": "star", "per_minute": 2}"#),
        (&format!("GET {quota}"), r#"200 {"per_minute": 2, "default_per_minute": 0}"#),
        ("@a POST /users/star/follow", "201"),
        ("@b POST /users/star/follow", "201"),
        ("@c POST /users/star/follow", "429 rate_limited"),
        ("@a POST /users/star/follow", "200"),
        ("@c POST /users/d/follow", "201"),
        (&format!("@a PUT {quota} {{\"per_minute\": 2}}"), "403 forbidden"),
        (&format!(r#"PUT {quota} {{"per_minute": 1000001}}"#), "400 invalid_request /per_minute"),
        (&format!(r#"PUT {quota} {{"per_minute": -1}}"#), "400 invalid_request /per_minute"),
        (&format!(r#"PUT {quota} {{"per_minute": "2"}}"#), "400 invalid_request /per_minute"),
        (&format!("PUT {quota} {{}}"), "400 invalid_request /per_minute"),
        (r#"PUT /admin/users/nobody/follow-quota {"per_minute": 1}"#, "404 user_not_found"),
        ("GET /admin/users/nobody/follow-quota", "404 user_not_found"),
        (&format!("DELETE {quota}"), r#"200 {"per_minute": null}"#),
        (&format!("DELETE {quota}"), r#"200 {"per_minute": null}"#),
        ("@c POST /users/star/follow", "201"),
    ]);
}

#[test]
fn clusters_are_looked_for_on_demand() {
    let server = Server::with(memory_store(1), rules(false));
    let put = |user: String| server.check(&format!("PUT /users/{user}"), "201");
    (0..200).for_each(|other| drop(put(format!("other{other}"))));
    for member in 0..25 {
        put(format!("m{member}"));
        for target in 0..8 {
            server.check(&format!("PUT /users/m{member}/following/other{target}"), "201");
        }
    }
    server.check("POST /admin/jobs/co_follow_clusters/run", "202");
    let began = Instant::now();
    while !server.check("GET /admin/jobs", "200").text.contains("1 clusters among 225 users") {
        assert!(began.elapsed() < Duration::from_secs(20), "the search does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.check(
        "GET /admin/abuse?kind=cluster",
        r#"200 {"data": [{"kind": "cluster", "actor_count": 25, "figures": {"members": 25.0, "common_targets": 8.0}}]}"#,
    );
}
