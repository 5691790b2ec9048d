//! The gate with callers from elsewhere, which a test on one machine cannot be.

use std::path::PathBuf;

use axum::{Router, body::Body, http::StatusCode, routing::get};
use entourage_model::{ManualClock, Millis};
use tower::ServiceExt;

use super::*;
use crate::{
    auth::{Pass, ServiceKey},
    config::{Origin, Raw, Settings},
    http::router,
    wire::wire,
};

/// A service behind a front that knows two service keys, in a file that goes with it.
struct World {
    service: Arc<Service>,
    front: Arc<Front>,
    clock: Arc<ManualClock>,
    web: String,
    boss: String,
    file: PathBuf,
}

impl World {
    async fn new() -> Self {
        let [(web, web_key), (boss, boss_key)] = [("web", false), ("boss", true)]
            .map(|(name, admin)| ServiceKey::generate(name, admin, Millis::default()).unwrap());
        let file = std::env::temp_dir().join(format!("entourage-gate-{:032x}", rand::random::<u128>()));
        std::fs::write(&file, format!("{web}\n{boss}\n")).unwrap();
        let mut raw = Raw::default();
        raw.set("store.url", "memory:", Origin::Flag("--test")).unwrap();
        raw.set("auth.service_keys_file", file.to_str().unwrap(), Origin::Flag("--test")).unwrap();
        let settings = Settings::check(&raw).unwrap();
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(1_000_000)));
        let front = Arc::new(Front::open(&settings, Arc::clone(&clock) as _).unwrap());
        let service = wire(&settings).await.unwrap().service;
        Self { service, front, clock, web: web_key, boss: boss_key, file }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn request(method: Method, uri: &str, peer: &str, key: Option<&str>) -> Request {
    let mut request = Request::builder().method(method).uri(uri).header("host", "graph.example");
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(Peer(peer.parse().unwrap()));
    request
}

#[tokio::test]
async fn metrics_are_open_to_this_machine_and_to_admins() {
    let world = World::new().await;
    let router = router(Arc::clone(&world.service), Arc::clone(&world.front));
    for (peer, key, status) in [
        ("127.0.0.1:1", None, 200),
        ("[::1]:1", None, 200),
        ("[::ffff:127.0.0.1]:1", None, 200),
        ("203.0.113.7:1", None, 401),
        ("[2001:db8::1]:1", None, 401),
        ("203.0.113.7:1", Some(&world.web), 403),
        ("203.0.113.7:1", Some(&world.boss), 200),
    ] {
        let asked = request(Method::GET, "/metrics", peer, key.map(String::as_str));
        let response = router.clone().oneshot(asked).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{peer} {key:?}");
    }
    for probe in ["/healthz", "/readyz", "/version"] {
        let response = router.clone().oneshot(request(Method::GET, probe, "203.0.113.7:1", None)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{probe}");
    }
}

#[tokio::test]
async fn a_ticket_opens_a_stream_once_for_its_caller_and_nothing_else() {
    let world = World::new().await;
    let gate = Gate { front: Arc::clone(&world.front), service: Arc::clone(&world.service) };
    let shown = async |request: Request| {
        let caller = request.extensions().get::<Known>().unwrap().caller.clone();
        format!("{:?} {} {}", caller.actor, caller.admin, request.uri())
    };
    let router = Router::new()
        .route("/api/v1/x/stream", get(shown).post(shown))
        .route("/api/v1/x", get(shown))
        .layer(axum::middleware::from_fn_with_state(gate, admit));
    let caller =
        || Caller { actor: Actor::User("alice".try_into().unwrap()), admin: false, credential: Credential::User };
    let ticket = || world.front.access.ticket(Known { caller: caller(), pass: Pass::default() }).unwrap().text;
    let ask = async |method: Method, uri: String, key: Option<&str>| {
        let response = router.clone().oneshot(request(method, &uri, "203.0.113.7:1", key)).await.unwrap();
        let code = response.extensions().get::<Error>().map(Error::code);
        let bytes = axum::body::to_bytes(response.into_body(), 4_096).await.unwrap();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    };
    let refused = (Some(Code::Unauthenticated), String::new());
    let (first, late) = (ticket(), ticket());
    let (code, said) = ask(Method::GET, format!("/api/v1/x/stream?after=7&ticket={first}"), None).await;
    assert_eq!(code, None);
    assert!(said.contains("alice") && said.ends_with("false /api/v1/x/stream?after=7"), "{said}");
    assert_eq!(ask(Method::GET, format!("/api/v1/x/stream?ticket={first}"), None).await, refused, "used twice");
    assert_eq!(ask(Method::GET, format!("/api/v1/x?ticket={}", ticket()), None).await, refused, "not a stream");
    assert_eq!(ask(Method::POST, format!("/api/v1/x/stream?ticket={}", ticket()), None).await, refused, "not a GET");
    assert_eq!(ask(Method::GET, "/api/v1/x/stream?ticket=".to_owned(), None).await, refused);
    assert_eq!(ask(Method::GET, "/api/v1/x/stream".to_owned(), None).await, refused);
    let (code, said) = ask(Method::GET, "/api/v1/x/stream".to_owned(), Some(&world.boss)).await;
    assert!(code.is_none() && said.starts_with("Service true"), "{said}");
    world.clock.advance(60_000);
    let (code, _) = ask(Method::GET, format!("/api/v1/x/stream?ticket={late}"), None).await;
    assert_eq!(code, None, "a clock that was set took the minute away");
}

#[test]
fn a_ticket_is_taken_out_of_the_query() {
    for (uri, rest, ticket) in [
        ("/a/stream", "/a/stream", None),
        ("/a/stream?after=x", "/a/stream?after=x", None),
        ("/a/stream?ticket=t", "/a/stream", Some("t")),
        ("/a/stream?after=x&ticket=t&limit=2", "/a/stream?after=x&limit=2", Some("t")),
    ] {
        let (shorter, found) = without_ticket(&uri.parse().unwrap());
        assert_eq!((shorter.to_string().as_str(), found.as_deref()), (rest, ticket));
    }
}

#[test]
fn blocks_and_admins_are_written_down() {
    for (method, route, action) in [
        (Method::PUT, "/api/v1/users/{id}/blocks/{other}", Some("block")),
        (Method::DELETE, "/api/v1/users/{id}/blocks/{other}", Some("unblock")),
        (Method::GET, "/api/v1/users/{id}/blocks", None),
        (Method::POST, "/api/v1/admin/backup", Some("admin")),
        (Method::GET, "/api/v1/admin/jobs", Some("admin")),
        (Method::POST, "/api/v1/users/{id}/follow", None),
    ] {
        assert_eq!(audited(&method, route), action, "{method} {route}");
    }
}
