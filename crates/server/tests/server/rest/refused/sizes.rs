//! One more than the most of everything: operations, pairs, ids, bytes of a body, of an address, of headers.

use serde_json::{Value, json};

use super::Ground;

#[test]
fn one_more_than_the_most_is_refused_with_its_field() {
    let ground = Ground::new();
    let ids = |count: usize| (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>();
    let operations = |count: usize, op: &str| {
        let each = |id: String| json!({ "op": op, "follower": "own", "target": id });
        json!({ "operations": ids(count).into_iter().map(each).collect::<Vec<Value>>() })
    };
    let pairs: Vec<[String; 2]> = ids(1_001).into_iter().map(|id| ["own".to_owned(), id]).collect();
    let query = ids(101).into_iter().map(|id| format!("id={id}")).collect::<Vec<_>>().join("&");
    ground.refuses([
        (format!("POST /follows:batch {}", operations(1_001, "follow")), "400 invalid_request /operations".to_owned()),
        (
            format!("POST /follows:batch {}", operations(1_001, "unfollow")),
            "400 invalid_request /operations".to_owned(),
        ),
        (format!("POST /checks {}", json!({ "pairs": pairs })), "400 invalid_request /pairs".to_owned()),
        (
            format!("POST /users/own/is-following {}", json!({ "targets": ids(1_001) })),
            "400 invalid_request /targets".to_owned(),
        ),
        (
            format!("POST /users/own/relationships {}", json!({ "ids": ids(101) })),
            "400 invalid_request /ids".to_owned(),
        ),
        (format!("GET /users/own/relationships?{query}"), "400 invalid_request /id".to_owned()),
    ]);
    ground.server.check(&format!("POST /users/own/relationships {}", json!({ "ids": ids(100) })), "200");
    ground.server.check(&format!("POST /checks {}", json!({ "pairs": pairs[1..] })), "200");
}

#[test]
fn no_operation_takes_a_body_or_an_address_beyond_its_bound() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for sample in ground.samples() {
        let long = format!("zzz={}", "y".repeat(8 * 1_024));
        table.push((sample.with_query(&long), "414 uri_too_long".to_owned()));
        if sample.method != "GET" {
            let good = if sample.body.is_empty() { "{}" } else { &sample.body };
            let padded = format!("{}{}}}", &good[..good.len() - 1], " ".repeat(1_024 * 1_024));
            table.push((sample.with_body(&padded), "413 payload_too_large".to_owned()));
        }
    }
    ground.refuses(table);
}

#[test]
fn headers_have_a_bound_in_number_and_bytes() {
    let ground = Ground::new();
    let ask = |headers: &str| {
        let request = format!(
            "POST /api/v1/users/x3/follow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             entourage-actor: fan\r\ncontent-length: 0\r\n{headers}\r\n"
        );
        ground.server.raw(request.as_bytes()).0
    };
    assert_eq!(ask(&"x: y\r\n".repeat(61)), 431);
    assert_eq!(ask(&format!("x: {}\r\n", "y".repeat(1 << 20))), 431);
    assert_eq!(ask(&format!("{}: y\r\n", "x".repeat(1 << 17))), 431);
    ground.is_untouched();
    assert_eq!(ask(&"x: y\r\n".repeat(60)), 201);
}

/// A length that does not fit what comes is nobody's request.
#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let ground = Ground::new();
    for headers in [
        "content-length: 0\r\ncontent-length: 5\r\n",
        "content-length: -1\r\n",
        "content-length: x\r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let request = format!(
            "POST /api/v1/users/x3/follow HTTP/1.1\r\nhost: localhost\r\nentourage-actor: fan\r\n{headers}\r\n"
        );
        assert_eq!(ground.server.raw(request.as_bytes()).0, 400, "{headers}");
    }
    // Both at once: what a proxy reads otherwise than this server must not become a second request.
    let both = "POST /api/v1/users/x3/follow HTTP/1.1\r\nhost: localhost\r\nentourage-actor: fan\r\n\
                connection: close\r\ncontent-length: 60\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\
                POST /api/v1/users/own/follow HTTP/1.1\r\nhost: localhost\r\nentourage-actor: x3\r\n\r\n";
    let (status, _) = ground.server.raw(both.as_bytes());
    assert!([201, 400].contains(&status), "{status}");
    ground.server.check("GET /users/x3/is-following/own", r#"200 {"following": false}"#);
}
