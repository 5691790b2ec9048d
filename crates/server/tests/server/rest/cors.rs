//! Pages of other sites: which may call, and what they may read.

use std::sync::Arc;

use entourage_server::Front;
use entourage_service::Rules;
use entourage_store::SystemClock;
use ureq::http::{HeaderMap, Request};

use super::{
    credentials::Credentials,
    server::{Server, memory_store},
};

const SITE: &str = "https://app.example";
/// What a page may read of any answer; the transport's own headers are no page's business.
const ALWAYS_READABLE: &[&str] = &[
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "vary",
    "connection",
    "transfer-encoding",
    "content-encoding",
];

fn serving(front: Front) -> Server {
    let cors_origins = vec![SITE.to_owned(), "http://localhost:5173".to_owned()];
    Server::behind(Front { cors_origins, ..front }, memory_store(1), Rules::default())
}

/// Status and headers of what a page of a site asks.
fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap) {
    let mut request = Request::builder().method(method).uri(format!("http://{}{path}", server.address));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let reply = server.agent.run(request.body(()).unwrap()).unwrap();
    (reply.status().as_u16(), reply.headers().clone())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn names(headers: &HeaderMap, name: &str) -> Vec<String> {
    text(headers, name).split(',').map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn preflight(server: &Server, origin: &str) -> (u16, HeaderMap) {
    let asked = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "PUT"),
        ("Access-Control-Request-Headers", "authorization,entourage-actor,idempotency-key,content-type"),
    ];
    ask(server, "OPTIONS", "/api/v1/users/alice", &asked)
}

fn says_nothing_of_origins(headers: &HeaderMap) -> bool {
    !headers.keys().any(|name| name.as_str().starts_with("access-control-"))
}

#[test]
fn no_site_may_call_unless_it_is_listed() {
    let server = Server::start();
    let (status, headers) = preflight(&server, SITE);
    assert!(status == 405 && says_nothing_of_origins(&headers), "{status} {headers:?}");
    let (status, headers) = ask(&server, "GET", "/healthz", &[("Origin", SITE)]);
    assert!(status == 200 && says_nothing_of_origins(&headers), "{status} {headers:?}");
}

#[test]
fn a_listed_site_may_ask_with_every_header_of_the_api() {
    let credentials = Credentials::new();
    let server = serving(credentials.front());
    let (status, headers) = preflight(&server, SITE);
    assert_eq!((status, text(&headers, "access-control-allow-origin")), (200, SITE), "{headers:?}");
    let methods = names(&headers, "access-control-allow-methods");
    assert!(["get", "put", "post", "patch", "delete"].iter().all(|name| methods.contains(&(*name).to_owned())));
    let allowed = names(&headers, "access-control-allow-headers");
    let document = entourage_server::http::document();
    let described = document["components"]["parameters"].as_object().unwrap().keys();
    for name in described.map(String::as_str).chain(["Authorization", "Content-Type", "Last-Event-ID", "X-Request-Id"])
    {
        assert!(allowed.contains(&name.to_ascii_lowercase()), "{name} may not be sent: {allowed:?}");
    }
    assert!(text(&headers, "access-control-max-age").parse::<u64>().unwrap() > 60);
    assert!(!text(&headers, "x-request-id").is_empty() && !headers.contains_key("access-control-allow-credentials"));
    let (_, headers) = preflight(&server, "https://evil.example");
    assert_eq!(text(&headers, "access-control-allow-origin"), "", "{headers:?}");
}

#[test]
fn a_listed_site_reads_every_header_of_every_answer() {
    let credentials = Credentials::new();
    let server = serving(credentials.front());
    let bearer = format!("Bearer {}", credentials.token("alice"));
    let service = format!("Bearer {}", credentials.service_key);
    let long = format!("/api/v1/users/{}", "x".repeat(9_000));
    for id in ["alice", "bob", "carol"] {
        ask(&server, "PUT", &format!("/api/v1/users/{id}"), &[("Authorization", &service)]);
    }
    ask(&server, "PUT", "/api/v1/users/carol/following/bob", &[("Authorization", &service)]);
    let key = ("Idempotency-Key", "k1");
    let actor = ("Authorization", bearer.as_str());
    for (method, path, sent, wanted) in [
        ("POST", "/api/v1/users/bob/follow", vec![actor, key], 201),
        ("POST", "/api/v1/users/bob/follow", vec![actor, key], 201),
        ("GET", "/api/v1/users/bob/followers?limit=1", vec![actor], 200),
        ("GET", "/api/v1/users/bob", vec![], 401),
        ("GET", "/api/v1/users/nobody/followers", vec![actor], 404),
        ("GET", "/api/v1/events", vec![actor], 403),
        ("GET", "/nowhere", vec![actor], 404),
        ("POST", "/healthz", vec![actor], 405),
        ("GET", &long, vec![actor], 414),
        ("GET", "/healthz", vec![], 200),
    ] {
        let (status, headers) = ask(&server, method, path, &[&sent[..], &[("Origin", SITE)]].concat());
        let place = format!("{method} {}", &path[..path.len().min(40)]);
        assert_eq!((status, text(&headers, "access-control-allow-origin")), (wanted, SITE), "{place} {headers:?}");
        assert!(names(&headers, "vary").contains(&"origin".to_owned()), "{place} {headers:?}");
        let exposed = names(&headers, "access-control-expose-headers");
        for name in headers.keys().map(|name| name.as_str().to_owned()) {
            let readable = exposed.contains(&name) || ALWAYS_READABLE.contains(&name.as_str());
            assert!(readable || name.starts_with("access-control-") || name == "allow", "{place}: {name} is hidden");
        }
        let (_, headers) = ask(&server, method, path, &[&sent[..], &[("Origin", "https://evil.example")]].concat());
        assert_eq!(text(&headers, "access-control-allow-origin"), "", "{place}");
    }
    let exposed = names(&ask(&server, "GET", "/healthz", &[("Origin", SITE)]).1, "access-control-expose-headers");
    for name in ["entourage-token", "x-request-id", "link", "ratelimit", "retry-after", "idempotent-replayed"] {
        assert!(exposed.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn a_stream_is_read_by_a_listed_site() {
    let server = serving(Front::development(Arc::new(SystemClock)));
    server.check("PUT /users/alice", "201");
    let stream = server.stream(&format!("^Origin={SITE} @alice /users/alice/notifications/stream"));
    assert!(stream.status == 200, "{} {}", stream.status, stream.headers);
    assert!(stream.headers.contains(&format!("access-control-allow-origin: {SITE}")), "{}", stream.headers);
}

#[test]
fn development_mode_takes_no_changes_from_pages_of_other_sites() {
    let server = serving(Front::development(Arc::new(SystemClock)));
    let own = format!("http://{}", server.address);
    for (method, path) in [("POST", "/api/v1/admin/recount"), ("PUT", "/api/v1/users/a"), ("DELETE", "/api/v1/users/a")]
    {
        for sent in [
            &[("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")][..],
            &[("Origin", "http://localhost:1"), ("Sec-Fetch-Site", "same-site")],
            &[("Origin", "null")],
            &[("Sec-Fetch-Site", "cross-site")],
        ] {
            assert_eq!(ask(&server, method, path, sent).0, 403, "{method} {path} {sent:?}");
        }
    }
    assert_eq!(server.ask("GET /users/a").status, 404, "nobody was made");
    for sent in [&[("Origin", SITE), ("Sec-Fetch-Site", "cross-site")][..], &[("Origin", own.as_str())], &[]] {
        assert!(ask(&server, "PUT", "/api/v1/users/a", sent).0 < 300, "{sent:?}");
    }
    // Where credentials are asked for, a page has none unless it was given one.
    let credentials = Credentials::new();
    let server = serving(credentials.front());
    let service = format!("Bearer {}", credentials.service_key);
    let sent = [("Authorization", service.as_str()), ("Origin", "https://evil.example")];
    assert_eq!(ask(&server, "PUT", "/api/v1/users/a", &sent).0, 201);
}
