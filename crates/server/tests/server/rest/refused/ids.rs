//! Ids that are none, in paths, queries, bodies and headers; and odd ones that are ids all the same.

use serde_json::json;

use super::{Ground, Sample};

/// As they stand in an address: too long, or with control characters.
fn bad_ids() -> Vec<String> {
    let long = ["x".repeat(129), "%F0%9F%98%80".repeat(32) + "x", "%C3%A9".repeat(65)];
    let control = ["%00", "a%00b", "a%0Ab", "%0D", "%1B", "%7F", "%C2%85"];
    long.into_iter().chain(control.map(str::to_owned)).collect()
}

/// What comes to no text, and what is no escape at all.
const BAD_ESCAPES: [&str; 9] = ["%FF", "%F0%9F%98", "%C0%80", "%ED%A0%80", "%", "%4", "%zz", "a%2", "%%30"];

/// The path with another text for its parameter at this place.
fn path_with(sample: &Sample, place: usize, text: &str) -> String {
    let parts = sample.path.split('/').enumerate().map(|(at, part)| if at == place { text } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn parameters(sample: &Sample) -> Vec<usize> {
    let parts = sample.template.split('/').enumerate();
    parts.filter(|(_, part)| part.starts_with('{')).map(|(at, _)| at).collect()
}

#[test]
fn no_path_takes_what_is_no_id() {
    let ground = Ground::new();
    let (mut table, mut bad) = (Vec::new(), bad_ids());
    bad.extend(BAD_ESCAPES.map(str::to_owned));
    for sample in ground.samples() {
        for place in parameters(&sample) {
            let ask = |text: &str| {
                format!("{}{} {} {}", sample.head, sample.method, path_with(&sample, place, text), sample.body)
            };
            table.extend(bad.iter().map(|text| (ask(text), "400 invalid_id".to_owned())));
            // At the end of a path, nothing is another path.
            let is_last = place + 1 == sample.template.split('/').count();
            table.push((ask(""), if is_last { "404 not_found" } else { "400 invalid_id" }.to_owned()));
        }
    }
    assert!(table.len() > 500, "{}", table.len());
    ground.refuses(table);
}

#[test]
fn a_slash_in_a_path_parts_it_unless_it_is_escaped() {
    let ground = Ground::new();
    ground.refuses([
        ("GET /users/a/b".to_owned(), "404 not_found".to_owned()),
        ("PUT /users/own/pal/following/fan".to_owned(), "404 not_found".to_owned()),
        ("GET /users/a%2Fb".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/a%2fb/followers".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/a%252Fb".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/..%2Fadmin".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/%F0%9F%98%80/followers".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/a:b/followers".to_owned(), "404 user_not_found".to_owned()),
        ("GET /users/a%3Ab/followers".to_owned(), "404 user_not_found".to_owned()),
        (format!("GET /users/{}/followers", "x".repeat(128)), "404 user_not_found".to_owned()),
    ]);
}

#[test]
fn no_query_takes_what_is_no_id() {
    let ground = Ground::new();
    let mut table = Vec::new();
    let wrong = bad_ids().into_iter().chain([String::new()]).map(|text| (text, "invalid_id"));
    for (text, code) in wrong.chain(BAD_ESCAPES.map(|text| (text.to_owned(), "invalid_request"))) {
        table.push((format!("GET /users/own/relationships?id={text}"), format!("400 {code} /id")));
        table.push((format!("GET /users/own/relationships?id=pal&id={text}"), format!("400 {code} /id")));
    }
    table.push(("GET /users/own/relationships?name=pal".to_owned(), "400 invalid_request /name".to_owned()));
    table.push(("GET /users/own/relationships?%FF=pal".to_owned(), "400 invalid_request /".to_owned()));
    for sample in ground.samples().filter(|sample| sample.query_names().next().is_some()) {
        if !sample.id.ends_with("relationships") {
            table.push((sample.with_query("zzz=1"), "400 invalid_request /zzz".to_owned()));
        }
        for name in sample.query_names().filter(|name| *name != "ticket" && *name != "id") {
            let expected = format!("400 invalid_request /{name}");
            table.push((sample.with_query(&format!("{name}=%FF")), expected.clone()));
            table.push((sample.with_query(&format!("{name}=%zz")), expected));
        }
    }
    ground.refuses(table);
    let odd = "GET /users/own/relationships?id=a%2Fb&id=a:b&id=%F0%9F%98%80&id=a%26b&id=%2500&id=a+b";
    let reply = ground.server.check(odd, "200 {}");
    assert_eq!(reply.ids(), ["a/b", "a:b", "😀", "a&b", "%00", "a b"]);
    ground.is_untouched();
}

#[test]
fn no_body_takes_what_is_no_id() {
    let ground = Ground::new();
    let mut bad: Vec<String> = vec![String::new(), "x".repeat(129), "😀".repeat(33), "é".repeat(65)];
    bad.extend(["\0", "a\0b", "a\nb", "\u{7f}", "\u{85}", "\u{1b}[2J"].map(str::to_owned));
    let mut table = Vec::new();
    for id in &bad {
        for (path, body, pointer) in [
            ("/checks", json!({ "pairs": [["own", "pal"], [id, "pal"]] }), "/pairs/1/0"),
            ("/checks", json!({ "pairs": [["own", id]] }), "/pairs/0/1"),
            ("/users/own/is-following", json!({ "targets": ["pal", id] }), "/targets/1"),
            ("/users/own/relationships", json!({ "ids": [id, "pal"] }), "/ids/0"),
            (
                "/follows:batch",
                json!({ "operations": [
                    { "op": "follow", "follower": "pal", "target": "fan" },
                    { "op": "follow", "follower": id, "target": "fan" },
                ] }),
                "/operations/1/follower",
            ),
            (
                "/follows:batch",
                json!({ "operations": [{ "op": "unfollow", "follower": "own", "target": id }] }),
                "/operations/0/target",
            ),
        ] {
            table.push((format!("POST {path} {body}"), format!("400 invalid_id {pointer}")));
        }
    }
    ground.refuses(table);
    // Escapes are no business of JSON.
    let body = json!({ "targets": ["a/b", "a:b", "😀", "%00", "%zz", " ", "x".repeat(128)] });
    let reply = ground.server.check(&format!("POST /users/own/is-following {body}"), "200");
    assert_eq!(reply.body["results"].as_object().unwrap().len(), 7);
    ground.is_untouched();
}

#[test]
fn no_header_takes_what_is_no_id() {
    let ground = Ground::new();
    ground.refuses([
        (format!("@{} POST /users/pal/follow", "x".repeat(129)), "400 invalid_id".to_owned()),
        ("@ POST /users/pal/follow".to_owned(), "400 invalid_id".to_owned()),
        ("@%00 POST /users/pal/follow".to_owned(), "404 actor_not_found".to_owned()),
    ]);
    let ask = |path: &[u8], actor: &[u8]| {
        let parts: [&[u8]; 5] = [
            b"POST ",
            path,
            b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\nentourage-actor: ",
            actor,
            b"\r\n\r\n",
        ];
        ground.server.raw(&parts.concat())
    };
    for actor in [&b"\xff"[..], b"fan\xc3", b"a\xc2\x85b"] {
        let (status, problem) = ask(b"/api/v1/users/pal/follow", actor);
        assert_eq!(status, 400, "{problem}");
    }
    // Escapes may be left out of UTF-8; what is no HTTP is not even a problem.
    assert_eq!(ask("/api/v1/users/😀/follow".as_bytes(), b"fan").0, 404);
    for path in [&b"/api/v1/users/\xf0\x9f/follow"[..], b"/api/v1/users/a\0b/follow", b"/api/v1/users/a b/follow"] {
        assert_eq!(ask(path, b"fan").0, 400, "{path:?}");
    }
    for actor in [&b"a\0b"[..], b"a\rb"] {
        assert_eq!(ask(b"/api/v1/users/pal/follow", actor).0, 400, "{actor:?}");
    }
    ground.is_untouched();
}
