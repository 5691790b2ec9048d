use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::server::Server;

#[test]
fn unknown_routes_and_methods_are_problems_too() {
    let server = Server::start();
    server.check_all(&[
        ("GET //", "404 not_found"),
        ("GET //api/v1", "404 not_found"),
        ("GET /nope", "404 not_found"),
        ("GET /users", "404 not_found"),
        ("GET /users/a/", "404 not_found"),
        ("GET /users//followers", "400 invalid_id"),
        ("GET //api/v2/users/a", "404 not_found"),
        ("POST //nope", "404 not_found"),
    ]);
    for (request, allow) in [
        ("POST /users/a", "PUT,PATCH,GET,HEAD,DELETE"),
        ("GET /users/a/follow", "POST,DELETE"),
        ("POST /users/a/followers", "GET,HEAD"),
        ("GET /checks", "POST"),
        ("PUT /events", "GET,HEAD"),
        ("POST /users/a/blocks/b", "PUT,DELETE"),
        ("POST //healthz", "GET,HEAD"),
    ] {
        let reply = server.check(request, "405 method_not_allowed");
        assert_eq!(reply.header("allow"), allow, "{request}");
    }
}

#[test]
fn bodies_and_addresses_have_a_limit_on_every_route() {
    let server = Server::start();
    let padded = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
    for route in
        ["PUT /users/a", "@b POST /users/a/follow", "PUT /users/a/following/b", "PUT /users/a/blocks/b", "PUT /nope"]
    {
        let reply = server.check(&format!("{route} {}", padded(64 * 1024 + 1)), "413 payload_too_large");
        assert!(reply.body["detail"].as_str().unwrap().contains("65536"));
    }
    server.check(&format!("PUT /users/a {}", padded(64 * 1024)), "201");
    let pairs = |bytes: usize| {
        let body = r#"{"pairs": []"#;
        format!("{body}{}}}", " ".repeat(bytes - body.len() - 1))
    };
    server.check(&format!("POST /checks {}", pairs(1024 * 1024)), r#"200 {"results": []}"#);
    server.check(&format!("POST /checks {}", pairs(1024 * 1024 + 1)), "413 payload_too_large");
    server.check(&format!("POST /users/a/is-following {}", pairs(1024 * 1024 + 1)), "413 payload_too_large");
    server.check(&format!("GET /users/a?x={}", "y".repeat(8 * 1024)), "414 uri_too_long");
    server.check(&format!("GET /nope?x={}", "y".repeat(8 * 1024)), "414 uri_too_long");
    server.check(&format!("GET /users/{}", "y".repeat(8 * 1024)), "414 uri_too_long");
}

#[test]
fn a_chunked_body_has_the_same_limit() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"PUT /api/v1/users/a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    // Neither is the end of the body waited for.
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    for _ in 0..5 {
        // The server may hang up as soon as it has seen enough.
        let _ = stream.write_all(chunk.as_bytes());
    }
    let mut reply = [0; 16];
    stream.read_exact(&mut reply[..12]).unwrap();
    assert_eq!(&reply[..12], b"HTTP/1.1 413");
}

#[test]
fn a_request_for_another_host_is_refused() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: evil.example:7070\r\n\r\n").unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 403");
}

#[test]
fn a_sane_request_id_comes_back_and_another_is_replaced() {
    let server = Server::start();
    let reply = server.check("^x-request-id=abc-1.2:3_X GET /nope", "404 not_found");
    assert_eq!(reply.header("x-request-id"), "abc-1.2:3_X");
    let long = "x".repeat(129);
    for id in ["", "a\"b", "<script>", &long] {
        let reply = server.check(&format!("^x-request-id={id} GET //healthz"), "200");
        assert_eq!(reply.header("x-request-id").len(), 32, "{id}");
    }
    let ids = [(); 2].map(|()| server.ask("GET //healthz").header("x-request-id").to_owned());
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_header_that_stands_twice_is_refused() {
    let server = Server::start();
    server.check("@a @b GET /users/a", "400 invalid_request");
    server.check("@a ^idempotency-key=x ^idempotency-key=y POST /users/b/follow", "400 invalid_request");
}

#[test]
fn a_body_that_does_not_arrive_is_not_waited_for() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    stream.write_all(b"PUT /api/v1/users/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{").unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 400");
    server.check("GET /users/a", "404 user_not_found");
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(40))).unwrap();
    let requests = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let error = loop {
        if let Err(error) = stream.write_all(requests.as_bytes()) {
            break error;
        }
    };
    let dropped = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
    assert!(dropped.contains(&error.kind()), "{error}");
}

#[test]
fn too_many_headers_are_refused() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(65)).as_bytes()).unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 431");
}
