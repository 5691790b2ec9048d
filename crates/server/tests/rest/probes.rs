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
    for line in [
        r#"entourage_http_requests_total{route="/api/v1/users/{id}/follow",method="POST",status="201"}"#,
        r#"entourage_http_request_seconds_bucket{route="/api/v1/users/{id}/follow",method="POST",le="0.001"}"#,
        r#"entourage_commits_total{operation="follow"}"#,
        r#"entourage_refusals_total{code="self_follow"}"#,
    ] {
        assert!(metrics.text.contains(line), "{line}\n{}", metrics.text);
    }
}
