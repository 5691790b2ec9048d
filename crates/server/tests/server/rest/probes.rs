use std::time::Duration;

use entourage_server::{
    config::{Origin, Raw, Settings},
    wire::wire,
};
use entourage_service::{Limits, Rules};

use super::server::Server;

#[test]
fn probes_answer_outside_the_api() {
    let server = Server::start();
    server.check_all(&[
        ("GET //healthz", r#"200 {"status": "ok"}"#),
        ("GET //readyz", r#"200 {"status": "ready"}"#),
        ("GET //version", r#"200 {"name": "entourage", "version": "*"}"#),
        ("PUT /users/a", "201"),
        ("PUT /users/b", "201"),
        ("@a POST /users/b/follow", "201"),
        ("@a POST /users/a/follow", "400 self_follow"),
    ]);
    let metrics = server.ask("GET //metrics");
    assert!(metrics.header("content-type").starts_with("text/plain"));
    let lines = [
        r#"entourage_http_requests_total{route="/api/v1/users/{id}/follow",method="POST",status="2xx"}"#,
        r#"entourage_http_request_seconds_bucket{route="/api/v1/users/{id}/follow",method="POST",le="0.001"}"#,
        r#"entourage_commits_total{operation="follow"}"#,
        r#"entourage_refusals_total{code="self_follow"}"#,
        r#"entourage_http_in_flight{route="/metrics",method="GET"} 1"#,
    ];
    for line in lines {
        assert!(metrics.text.contains(line), "{line}\n{}", metrics.text);
    }
    // Tests beside this one have the same recorder.
    let nobody = r#"entourage_http_in_flight{route="/api/v1/users/{id}/follow",method="POST"} 0"#;
    let is_free = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.ask("GET //metrics").text.contains(nobody)
    });
    assert!(is_free, "requests stay in flight");
}

#[test]
fn an_embedded_store_measures_itself() {
    let folder = std::env::temp_dir().join(format!("entourage-test-{:032x}", rand::random::<u128>()));
    let mut raw = Raw::default();
    raw.set("data.dir", folder.to_str().unwrap(), Origin::Flag("--data")).unwrap();
    let settings = Settings::check(&raw).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::with(runtime.block_on(wire(&settings)).unwrap().store, Rules::default());
    server.check_all(&[("PUT /users/measured", "201"), ("PUT /users/followed", "201")]);
    for _ in 0..Limits::default().flips_per_day {
        server.check("@measured POST /users/followed/follow", "201");
        server.check("@measured DELETE /users/followed/follow", "200");
    }
    server.check("@measured POST /users/followed/follow", "429 cooling_down");
    let metrics = server.ask("GET //metrics").text;
    for name in [r#"entourage_limiter_refusals_total{limit="flips"} "#, r#"entourage_limiter_keys{limit="follows"} "#] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.parse().ok());
        assert!(value.is_some_and(|value: f64| value >= 1.0), "{name}\n{metrics}");
    }
    for name in [
        "entourage_batch_writes_bucket{le=\"1\"}",
        "entourage_sync_seconds_count",
        "entourage_queue_writes ",
        "entourage_log_bytes ",
        "entourage_memory_bytes ",
        "entourage_users ",
        "entourage_edges ",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name}\n{metrics}");
    }
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}
