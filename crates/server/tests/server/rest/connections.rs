//! More connections than there may be.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Connections, Front, StreamLimits, Streams};
use entourage_service::Rules;
use entourage_store::SystemClock;

use super::server::{Server, memory_store};

/// An answer with its headers, after which the connection is closed.
fn ask(server: &Server, path: &str, actor: Option<&str>) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let actor = actor.map(|actor| format!("entourage-actor: {actor}\r\n")).unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{actor}connection: close\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn past_the_bound_probes_and_admins_are_answered_and_others_are_told_so() {
    let connections = Connections { max: 2, per_address: None };
    let front = Front { connections, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let held: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/admin/jobs"] {
        let reply = ask(&server, path, None);
        assert!(reply.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    }
    let reply = ask(&server, "/api/v1/users/a", Some("a"));
    assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("\"overloaded\""), "{reply}");
    assert!(reply.to_ascii_lowercase().contains("retry-after: "), "{reply}");
    // Whoever holds one of them and asks for nothing loses it soon; as long as all are held others wait.
    let reserved: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let began = Instant::now();
    assert!(ask(&server, "/healthz", None).starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() < Duration::from_secs(8), "the others ended only after {:?}", began.elapsed());
    drop((held, reserved));
    let began = Instant::now();
    while !ask(&server, "/api/v1/users/a", Some("a")).starts_with("HTTP/1.1 404") {
        assert!(began.elapsed() < Duration::from_secs(10), "no connection comes back");
    }
}

#[test]
fn a_user_has_so_many_streams() {
    let streams = Arc::new(Streams::new(StreamLimits { per_user: Some(2), per_address: None }));
    let front = Front { streams, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    for user in ["a", "b"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    let paths = ["/users/a/feed/stream", "/users/a/notifications/stream"];
    let open: Vec<_> = paths.iter().map(|path| server.stream(&format!("@a {path}"))).collect();
    assert!(open.iter().all(|stream| stream.status == 200));
    for path in paths {
        let refused = server.stream(&format!("@a {path}"));
        assert_eq!((refused.status, &refused.problem["code"]), (429, &"rate_limited".into()));
        assert!(refused.headers.contains("retry-after: "), "{}", refused.headers);
    }
    // Others have their own, and services, who act for nobody, have as many as their address.
    let others: Vec<_> = (0..2).map(|_| server.stream("@b /users/b/feed/stream")).collect();
    let services: Vec<_> = (0..5).map(|_| server.stream("/events/stream")).collect();
    assert!(others.iter().chain(&services).all(|stream| stream.status == 200));
    drop(open);
    let began = Instant::now();
    while server.stream("@a /users/a/feed/stream").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(10), "streams that ended are counted on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_connection_is_kept_between_requests_for_longer_than_a_request_may_take() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for pause in [Duration::from_secs(12), Duration::ZERO] {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut reply = [0; 4_096];
        let count = stream.read(&mut reply).unwrap();
        assert!(reply[..count].starts_with(b"HTTP/1.1 200"), "the connection was closed");
        std::thread::sleep(pause);
    }
    // A request that has begun is not waited for that long.
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let began = Instant::now();
    assert!(stream.read(&mut [0; 1_024]).is_ok());
    assert!((8..25).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}
