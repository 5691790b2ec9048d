use super::server::{Server, memory_store};

#[test]
fn every_write_returns_a_token_that_reads_accept() {
    let server = Server::start();
    let mut tokens = Vec::new();
    for request in [
        "PUT /users/a",
        "PUT /users/b",
        r#"PATCH /users/a {"name": "x"}"#,
        "@a POST /users/b/follow",
        "@a DELETE /users/b/follow",
        "@a PUT /users/a/blocks/b",
        "@a DELETE /users/a/blocks/b",
        // Also a write that found everything done.
        "@a DELETE /users/a/blocks/b",
    ] {
        let token = server.ask(request).token();
        assert!(!token.is_empty(), "{request}");
        tokens.push(token);
    }
    let reads = [
        "GET /users/a",
        "GET /users/a/followers",
        "GET /users/a/following",
        "GET /users/a/blocks",
        "GET /users/a/is-following/b",
        r#"POST /users/a/is-following {"targets": ["b"]}"#,
        r#"POST /checks {"pairs": [["a", "b"]]}"#,
        "GET /events",
    ];
    let stranger = Server::with(memory_store(2), Default::default());
    let foreign = stranger.ask("PUT /users/a").token();
    for read in reads {
        for token in &tokens {
            server.check(&format!("^entourage-token={token} {read}"), "200");
        }
        for bad in [foreign.as_str(), "x", ""] {
            server.check(&format!("^entourage-token={bad} {read}"), "400 invalid_token");
        }
    }
    server.check(&format!("^entourage-token={foreign} PUT /users/a"), "400 invalid_token");
    server.check(&format!("^entourage-token={} @a POST /users/b/follow", tokens[0]), "201");
}
