//! The gate with callers from elsewhere, which a test on one machine cannot be.

use std::path::PathBuf;

use axum::{body::Body, http::StatusCode};
use entourage_model::{ManualClock, Millis};
use tower::ServiceExt;

use super::*;
use crate::{
    auth::{ServiceKey, Validity},
    config::{Origin, Raw, Settings},
    http::{
        openapi::{Group, Operation, get, post},
        router, router_of,
    },
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

/// Asks a router with these operations alone. What came back: a code, or what the handler said.
async fn ask(world: &World, operations: Vec<Operation>, request: Request) -> Result<String, String> {
    let groups = vec![Group::new("Planted", "", operations)];
    let router = router_of(groups, Arc::clone(&world.service), Arc::clone(&world.front));
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), 4_096).await.unwrap();
    if status.is_success() {
        return Ok(String::from_utf8(bytes.to_vec()).unwrap());
    }
    let problem: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    Err(problem["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_ticket_opens_a_stream_once_for_its_caller_and_nothing_else() {
    let world = World::new().await;
    let shown = async |request: Request| {
        let caller = request.extensions().get::<Authenticated>().unwrap().caller.clone();
        format!("{:?} {} {}", caller.actor, caller.admin, request.uri())
    };
    let operations = || {
        vec![
            get("/api/v1/x/stream", Access::Anyone, shown).streams(),
            post("/api/v1/x/stream", Access::Anyone, shown),
            get("/api/v1/x", Access::Anyone, shown),
        ]
    };
    let caller =
        || Caller { actor: Actor::User("alice".try_into().unwrap()), admin: false, credential: Credential::User };
    let ticket =
        || world.front.access.ticket(Authenticated { caller: caller(), validity: Validity::default() }).unwrap().text;
    let ask = async |method: Method, uri: String, key: Option<&str>| {
        ask(&world, operations(), request(method, &uri, "203.0.113.7:1", key)).await
    };
    let refused = Err("unauthenticated".to_owned());
    let (first, late) = (ticket(), ticket());
    let said = ask(Method::GET, format!("/api/v1/x/stream?after=7&ticket={first}"), None).await.unwrap();
    assert!(said.contains("alice") && said.ends_with("false /api/v1/x/stream?after=7"), "{said}");
    assert_eq!(ask(Method::GET, format!("/api/v1/x/stream?ticket={first}"), None).await, refused, "used twice");
    assert_eq!(ask(Method::GET, format!("/api/v1/x?ticket={}", ticket()), None).await, refused, "not a stream");
    assert_eq!(ask(Method::POST, format!("/api/v1/x/stream?ticket={}", ticket()), None).await, refused, "not a GET");
    assert_eq!(
        ask(Method::PUT, format!("/api/v1/x/stream?ticket={}", ticket()), None).await,
        refused,
        "no such method"
    );
    assert_eq!(ask(Method::GET, "/api/v1/x/stream?ticket=".to_owned(), None).await, refused);
    assert_eq!(ask(Method::GET, "/api/v1/x/stream".to_owned(), None).await, refused);
    let said = ask(Method::GET, "/api/v1/x/stream".to_owned(), Some(&world.boss)).await.unwrap();
    assert!(said.starts_with("Service true"), "{said}");
    world.clock.advance(60_000);
    let said = ask(Method::GET, format!("/api/v1/x/stream?ticket={late}"), None).await;
    assert!(said.is_ok(), "a clock that was set took the minute away");
}

/// The handler checks nothing: what a policy says is enforced before it runs.
#[tokio::test]
async fn a_policy_is_enforced_whatever_its_handler_does() {
    let world = World::new().await;
    let careless = async || "done";
    let operations = || {
        vec![
            get("/open", Access::Open, careless),
            get("/local", Access::Local, careless),
            get("/anyone", Access::Anyone, careless),
            get("/actor", Access::Actor, careless),
            get("/own/{other}/{id}", Access::Own("id"), careless),
            get("/service", Access::Service, careless),
            get("/admin", Access::Admin, careless),
        ]
    };
    let (done, refused) = (Ok("done"), |code| Err::<&str, _>(code));
    let stranger = refused("unauthenticated");
    let forbidden = refused("forbidden");
    let nobody = refused("invalid_request");
    // Without a credential; a service for alice, for bob, for nobody; an admin.
    for (path, expected) in [
        ("/open", [done; 5]),
        ("/local", [stranger, forbidden, forbidden, forbidden, done]),
        ("/anyone", [stranger, done, done, done, done]),
        ("/actor", [stranger, done, done, nobody, nobody]),
        ("/own/bob/alice", [stranger, done, forbidden, done, done]),
        ("/own/bob/%61lice", [stranger, done, forbidden, done, done]),
        ("/own/alice/%ff", [stranger, refused("invalid_id"), refused("invalid_id"), done, done]),
        ("/service", [stranger, forbidden, forbidden, done, done]),
        ("/admin", [stranger, forbidden, forbidden, forbidden, done]),
        ("/nowhere", [refused("not_found"); 5]),
    ] {
        let callers = [
            (None, None),
            (Some(&world.web), Some("alice")),
            (Some(&world.web), Some("bob")),
            (Some(&world.web), None),
            (Some(&world.boss), None),
        ];
        for ((key, actor), expected) in callers.into_iter().zip(expected) {
            let mut asked = request(Method::GET, path, "203.0.113.7:1", key.map(String::as_str));
            asked.headers_mut().extend(actor.map(|actor| (ACTOR, HeaderValue::from_static(actor))));
            let found = ask(&world, operations(), asked).await;
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path} {actor:?} {}", key.is_some());
        }
    }
    assert_eq!(
        ask(&world, operations(), request(Method::GET, "/local", "127.0.0.1:1", None)).await.as_deref(),
        Ok("done")
    );
}

/// A method that a path does not have is told to those who may ask for one that it has.
#[tokio::test]
async fn other_methods_are_refused_as_the_path_is() {
    let world = World::new().await;
    for (path, key, code) in [
        ("/open", None, "method_not_allowed"),
        ("/mixed", None, "unauthenticated"),
        ("/mixed", Some(&world.web), "method_not_allowed"),
    ] {
        let operations = vec![
            get("/open", Access::Open, async || ""),
            get("/mixed", Access::Open, async || ""),
            post("/mixed", Access::Anyone, async || ""),
        ];
        let asked = request(Method::DELETE, path, "203.0.113.7:1", key.map(String::as_str));
        assert_eq!(ask(&world, operations, asked).await, Err(code.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn bodies_and_deadlines_are_those_of_the_policy() {
    let world = World::new().await;
    let slow = async || {
        tokio::time::sleep(std::time::Duration::from_secs(11)).await;
        "slow"
    };
    let operations = || {
        vec![
            post("/small", Access::Open, async || "done"),
            post("/large", Access::Open, async || "done").large_body(),
            get("/short", Access::Open, slow),
            get("/long", Access::Open, slow).takes_long(),
        ]
    };
    for (path, bytes, expected) in [
        ("/small", 64 * 1024, Ok("done")),
        ("/small", 64 * 1024 + 1, Err("payload_too_large")),
        ("/large", 1024 * 1024, Ok("done")),
        ("/large", 1024 * 1024 + 1, Err("payload_too_large")),
    ] {
        let mut asked = request(Method::POST, path, "203.0.113.7:1", None);
        *asked.body_mut() = Body::from(vec![b'x'; bytes]);
        let found = ask(&world, operations(), asked).await;
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path} {bytes}");
    }
    tokio::time::pause();
    for (path, expected) in [("/short", Err("overloaded")), ("/long", Ok("slow"))] {
        let found = ask(&world, operations(), request(Method::GET, path, "203.0.113.7:1", None)).await;
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
    }
}

#[test]
fn an_own_route_names_a_parameter_that_it_has() {
    for operation in crate::http::groups().iter().flat_map(|group| &group.operations) {
        if let Access::Own(parameter) = operation.policy.access {
            assert!(operation.path.contains(&format!("{{{parameter}}}")), "{}", operation.path);
        }
    }
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
