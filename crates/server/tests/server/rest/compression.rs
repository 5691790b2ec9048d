//! Large answers are compressed for whoever takes it, and nothing else is.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use ureq::http::{HeaderMap, Request};

use super::server::Server;

/// Headers and bytes of an answer to who takes these encodings.
fn ask(server: &Server, method: &str, path: &str, accepted: &str, media: &str) -> (HeaderMap, Vec<u8>) {
    let mut request = Request::builder().method(method).uri(format!("http://{}{path}", server.address));
    request = request.header("Accept", media);
    if !accepted.is_empty() {
        request = request.header("Accept-Encoding", accepted);
    }
    let mut reply = server.agent.run(request.body(()).unwrap()).unwrap();
    let bytes = reply.body_mut().read_to_vec().unwrap();
    (reply.headers().clone(), bytes)
}

fn encoding(headers: &HeaderMap) -> &str {
    headers.get("content-encoding").map_or("", |value| value.to_str().unwrap())
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

fn with_followers(count: usize) -> Server {
    let server = Server::start();
    server.check("PUT /users/star", "201");
    for number in 0..count {
        server.check(&format!(r#"PUT /users/fan{number} {{"name": "Somebody like many others"}}"#), "201");
        server.check(&format!("PUT /users/fan{number}/following/star"), "201");
    }
    server
}

#[test]
fn large_answers_come_compressed_to_who_takes_it() {
    let server = with_followers(60);
    let json = "application/json";
    // All of them: a cursor is another one each time.
    for path in ["/api/v1/users/star/followers?limit=200", "/openapi.json", "/metrics"] {
        let (headers, plain) = ask(&server, "GET", path, "", "*/*");
        assert_eq!(encoding(&headers), "", "{path}");
        for (accepted, wanted) in
            [("gzip", "gzip"), ("zstd", "zstd"), ("gzip, deflate, br, zstd", "zstd"), ("br", ""), ("gzip;q=0", "")]
        {
            let (headers, bytes) = ask(&server, "GET", path, accepted, "*/*");
            assert_eq!(encoding(&headers), wanted, "{path} {accepted}");
            let decoded = match wanted {
                "gzip" => gunzip(&bytes),
                "zstd" => zstd::decode_all(&bytes[..]).unwrap(),
                _ => bytes.clone(),
            };
            assert!(wanted.is_empty() || (bytes.len() < plain.len() / 2 && headers.contains_key("vary")), "{path}");
            // What is measured differs from one look to the next.
            assert!(path == "/metrics" || decoded == plain, "{path} {accepted}");
        }
    }
    let rows = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().count();
    let ndjson = "application/x-ndjson";
    let (headers, bytes) = ask(&server, "GET", "/api/v1/users/star/followers", "gzip", ndjson);
    assert_eq!((encoding(&headers), rows(&gunzip(&bytes))), ("gzip", 60));
    for (method, path) in [("GET", "/healthz"), ("GET", "/api/v1/users/star"), ("POST", "/api/v1/tickets")] {
        let (headers, bytes) = ask(&server, method, path, "gzip, zstd", json);
        assert_eq!(encoding(&headers), "", "{path} is small: {} bytes", bytes.len());
    }
}

#[test]
fn streams_of_events_are_never_compressed() {
    let server = with_followers(1);
    let mut stream = server.stream("^Accept-Encoding=gzip,zstd /events/stream");
    assert!(stream.status == 200 && !stream.headers.contains("content-encoding"), "{}", stream.headers);
    let began = Instant::now();
    server.check("PUT /users/later", "201");
    let told = stream.next().unwrap();
    assert_eq!(told.data["user"]["id"], "later", "{told:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "an event waited for more: {:?}", began.elapsed());
}
