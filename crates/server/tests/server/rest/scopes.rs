//! What each kind of caller may do.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use entourage_server::auth::ServiceKey;
use entourage_service::Rules;
use serde_json::json;

use super::{
    credentials::Credentials,
    server::{Server, memory_store},
};

fn serving(credentials: &Credentials) -> Server {
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    for user in ["alice", "bob"] {
        server.check(&format!("!{} PUT /users/{user}", credentials.service_key), "201");
    }
    server
}

#[test]
fn without_a_credential_only_probes_answer() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    for probe in ["//healthz", "//readyz", "//version", "//metrics"] {
        server.check(&format!("GET {probe}"), "200");
    }
    server.check("GET /nope", "404 not_found");
    for request in [
        "GET /users/alice",
        "PUT /users/alice",
        "POST /users/alice",
        "@alice POST /users/bob/follow",
        "POST /checks",
        "GET /events",
        "POST /tickets",
        "POST /admin/backup",
    ] {
        let reply = server.check(request, "401 unauthenticated");
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"entourage\"", "{request}");
    }
}

#[test]
fn a_header_that_is_no_bearer_token_is_refused() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let (token, key) = (credentials.token("alice"), &credentials.service_key);
    let ask = |headers: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let request = format!("GET /api/v1/users/alice HTTP/1.1\r\nhost: graph.example\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[9..]).into_owned()
    };
    for (headers, status) in [
        (format!("authorization: Bearer {token}\r\n"), "200"),
        (format!("authorization: bEARER {key}\r\n"), "200"),
        (format!("authorization: Bearer {token} {token}\r\n"), "401"),
        (format!("authorization: Bearer  {token}\r\n"), "401"),
        (format!("authorization: {token}\r\n"), "401"),
        (format!("authorization: Basic {token}\r\n"), "401"),
        ("authorization: Bearer\r\n".to_owned(), "401"),
        ("authorization: \r\n".to_owned(), "401"),
        ("authorization: Bearer \u{fe}\r\n".to_owned(), "401"),
        (format!("authorization: Bearer {token}\r\nauthorization: Bearer {token}\r\n"), "401"),
        (format!("x-authorization: Bearer {token}\r\n"), "401"),
        (format!("cookie: token={token}\r\n"), "401"),
    ] {
        assert_eq!(ask(&headers), status, "{headers}");
    }
    server.check(&format!("GET /users/alice?access_token={token}"), "401 unauthenticated");
    server.check(&format!("GET /users/alice?ticket={token}"), "401 unauthenticated");
}

#[test]
fn a_user_is_who_the_token_says_and_nobody_else() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let alice = format!("!{}", credentials.token("alice"));
    server.check_all(&[
        (&format!("{alice} POST /users/bob/follow"), r#"201 {"follower_id": "alice"}"#),
        (&format!("{alice} @alice POST /users/bob/follow"), "200"),
        (&format!("{alice} @bob POST /users/alice/follow"), "403 forbidden"),
        (&format!("{alice} @ GET /users/alice"), "403 forbidden"),
        (&format!("{alice} PUT /users/bob/following/alice"), "403 forbidden"),
        (&format!(r#"{alice} PATCH /users/bob {{"name": "B"}}"#), "403 forbidden"),
        (&format!("{alice} GET /users/bob/blocks"), "403 forbidden"),
        (&format!("{alice} GET /events"), "403 forbidden"),
        (&format!(r#"{alice} POST /admin/backup {{"to": "/tmp/x"}}"#), "403 forbidden"),
        (&format!(r#"{alice} PATCH /users/alice {{"name": "A"}}"#), "200"),
    ]);
}

#[test]
fn the_scope_admin_is_a_word_of_its_own() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    for (scope, admin) in [
        (json!("admin"), true),
        (json!("read admin write"), true),
        (json!(["read", "admin"]), true),
        (json!("administrator"), false),
        (json!("admin,read"), false),
        (json!("Admin"), false),
        (json!(["read admin"]), false),
        (json!(""), false),
        (json!([]), false),
    ] {
        let token = credentials.token_with("scope", scope.clone());
        // The memory store has no backup of its own: whoever may ask hears that.
        let status = if admin { "400 invalid_request" } else { "403 forbidden" };
        server.check(&format!(r#"!{token} POST /admin/backup {{"to": "/tmp/x"}}"#), status);
        server.check(&format!("!{token} GET /events"), if admin { "200" } else { "403 forbidden" });
        let patch = format!(r#"!{token} PATCH /users/bob {{"name": "Bob"}}"#);
        server.check(&patch, if admin { "200" } else { "403 forbidden" });
    }
}

#[test]
fn a_service_key_acts_for_whom_it_names_or_for_nobody() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let (web, boss) = (format!("!{}", credentials.service_key), format!("!{}", credentials.admin_key));
    let backup = r#"POST /admin/backup {"to": "/tmp/x"}"#;
    server.check_all(&[
        (&format!("{web} @alice POST /users/bob/follow"), r#"201 {"follower_id": "alice"}"#),
        (&format!("{web} @alice PUT /users/bob/following/alice"), "403 forbidden"),
        (&format!("{web} PUT /users/bob/following/alice"), "201"),
        (&format!("{web} GET /events"), "200"),
        (&format!("{web} @alice GET /events"), "403 forbidden"),
        (&format!("{web} {backup}"), "403 forbidden"),
        (&format!("{boss} {backup}"), "400 invalid_request"),
        (&format!("{boss} @alice {backup}"), "403 forbidden"),
        (&format!("{boss} @alice GET /events"), "403 forbidden"),
        (&format!("{web} POST /users/bob/follow"), "400 invalid_request"),
    ]);
}

#[test]
fn a_revoked_key_is_good_no_longer_and_a_new_one_is() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let file = credentials.path("service-keys");
    let (fresh, secret) = ServiceKey::generate("fresh", false, Default::default()).unwrap();
    server.check(&format!("!{secret} GET /users/alice"), "401 unauthenticated");
    let without = std::fs::read_to_string(&file).unwrap();
    let without: String =
        without.lines().filter(|line| !line.starts_with("web ")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, format!("{without}{fresh}\n")).unwrap();
    let known = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        server.ask(&format!("!{secret} GET /users/alice")).status == 200
    });
    assert!(known, "the new key is not known");
    server.check(&format!("!{} GET /users/alice", credentials.service_key), "401 unauthenticated");
    server.check(&format!("!{} GET /users/alice", credentials.admin_key), "200");
}

/// Two services with one key each, or one service for two users, never get each other's replies.
#[test]
fn idempotency_keys_belong_to_credential_and_actor() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let (web, boss) = (&credentials.service_key, &credentials.admin_key);
    let alice = credentials.token("alice");
    let replayed = |request: &str, status: &str| server.check(request, status).header("idempotent-replayed") == "true";
    assert!(!replayed(&format!("!{web} @alice ^idempotency-key=k POST /users/bob/follow"), "201"));
    assert!(replayed(&format!("!{web} @alice ^idempotency-key=k POST /users/bob/follow"), "201"));
    assert!(!replayed(&format!("!{boss} @alice ^idempotency-key=k POST /users/bob/follow"), "200"));
    assert!(!replayed(&format!("!{alice} ^idempotency-key=k POST /users/bob/follow"), "200"));
    let next = credentials.token_with("exp", json!(credentials.now() + 900));
    assert!(
        replayed(&format!("!{next} ^idempotency-key=k POST /users/bob/follow"), "200"),
        "a newer token of the same user"
    );
    let put = r#"^idempotency-key=k PUT /users/carol {"name": "C"}"#;
    assert!(!replayed(&format!("!{web} {put}"), "201"));
    assert!(!replayed(&format!("!{boss} {put}"), "200"));
}

#[test]
fn a_ticket_is_given_to_whoever_is_known() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let token = credentials.token("alice");
    let reply = server
        .check(&format!("!{token} POST /tickets"), r#"201 {"ticket": "*", "expires_at": "2026-11-15T12:01:00.000Z"}"#);
    assert_eq!(reply.body["ticket"].as_str().unwrap().len(), 64);
    server.check(&format!(r#"!{token} POST /tickets {{"x": 1}}"#), "400 invalid_request /x");
    let again = server.check(&format!("!{token} POST /tickets"), "201");
    assert_ne!(again.body["ticket"], reply.body["ticket"]);
}
