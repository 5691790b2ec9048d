//! `check(request, expected)`: one line asks, one line says what must come back.
//!
//! A request is `[@actor] [!bearer] [^header=value …] METHOD path [body]`, with the path below `/api/v1` unless it
//! starts with `//`. Expected is `status code [pointer]` for a problem, or `status {json}` where the object may leave
//! fields out and `"*"` stands for anything but `null`.

use serde_json::Value;
use ureq::http;

use super::{
    described::{Sent, compare},
    server::Server,
};

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn token(&self) -> String {
        self.header("entourage-token").to_owned()
    }

    /// The ids of a list's rows.
    pub(crate) fn ids(&self) -> Vec<&str> {
        self.body["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
    }
}

impl Server {
    pub(crate) fn ask(&self, request: &str) -> Reply {
        let mut builder = http::Request::builder();
        let mut rest = request.trim();
        let (method, target) = loop {
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = tail.trim_start();
            if let Some(actor) = word.strip_prefix('@') {
                builder = builder.header("Entourage-Actor", actor);
            } else if let Some(bearer) = word.strip_prefix('!') {
                builder = builder.header("Authorization", format!("Bearer {bearer}"));
            } else if let Some((name, value)) = word.strip_prefix('^').and_then(|pair| pair.split_once('=')) {
                builder = builder.header(name, value);
            } else {
                break (word, rest);
            }
        };
        let (path, body) = target.split_once(' ').unwrap_or((target, ""));
        let path =
            path.strip_prefix('/').filter(|path| path.starts_with('/')).map_or(format!("/api/v1{path}"), str::to_owned);
        let has_type = builder.headers_ref().is_some_and(|headers| headers.contains_key("content-type"));
        if !body.is_empty() && !has_type {
            builder = builder.header("Content-Type", "application/json");
        }
        let request = builder.method(method).uri(format!("http://{}{path}", self.address));
        let response = if body.is_empty() {
            self.agent.run(request.body(()).unwrap())
        } else {
            let request = request.body(body.to_owned()).unwrap();
            let request = self.agent.configure_request(request).allow_non_standard_methods(true).build();
            self.agent.run(request)
        };
        let reply = read(response.unwrap());
        if let Err(why) = compare(&Sent { method, path: &path, body }, &reply) {
            panic!("{method} {path} {body}\n{why}\ngot {} {}", reply.status, reply.text);
        }
        reply
    }

    pub(crate) fn check(&self, request: &str, expected: &str) -> Reply {
        let reply = self.ask(request);
        let asked: String = request.chars().take(1_000).collect();
        let fail = |why: &str| panic!("{asked}\nexpected {expected}\nbut {why}\ngot {} {}", reply.status, reply.text);
        let (status, rest) = expected.split_once(' ').unwrap_or((expected, ""));
        if reply.status.to_string() != status {
            fail("the status differs");
        }
        if reply.header("x-request-id").is_empty() || !reply.header("server-timing").starts_with("app;dur=") {
            fail("a header is missing");
        }
        if rest.starts_with('{') {
            let wanted: Value = serde_json::from_str(rest).unwrap_or_else(|error| panic!("{rest}: {error}"));
            if !contains(&reply.body, &wanted) {
                fail("the body differs");
            }
        } else if !rest.is_empty() {
            let (code, pointer) = rest.split_once(' ').map_or((rest, None), |(code, pointer)| (code, Some(pointer)));
            if let Err(why) = check_problem(&reply, code, pointer) {
                fail(&why);
            }
        }
        reply
    }

    pub(crate) fn check_all(&self, table: &[(&str, &str)]) {
        for (request, expected) in table {
            self.check(request, expected);
        }
    }
}

fn check_problem(reply: &Reply, code: &str, pointer: Option<&str>) -> Result<(), String> {
    let body = &reply.body;
    if reply.header("content-type") != "application/problem+json" {
        return Err("it is no problem".to_owned());
    }
    let texts = ["type", "title", "detail"].map(|name| body[name].as_str().unwrap_or_default());
    if texts.contains(&"") || !texts[0].ends_with(&code.replace('_', "-")) {
        return Err("a member is missing".to_owned());
    }
    if body["code"] != code || body["status"] != reply.status || body["request_id"] != reply.header("x-request-id") {
        return Err("code, status or request_id differ".to_owned());
    }
    let pointers: Vec<_> = body["errors"].as_array().into_iter().flatten().map(|error| &error["pointer"]).collect();
    match pointer {
        Some(pointer) if pointers != [pointer] => Err("the pointer differs".to_owned()),
        None if !pointers.is_empty() => Err("there is a pointer".to_owned()),
        _ => Ok(()),
    }
}

fn read(mut response: http::Response<ureq::Body>) -> Reply {
    let text = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Reply { status: response.status().as_u16(), headers: response.headers().clone(), body, text }
}

fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (found, Value::String(any)) if any == "*" => !found.is_null(),
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| contains(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| contains(found, wanted))
        }
        _ => found == wanted,
    }
}

#[test]
fn a_check_can_fail() {
    let found = serde_json::json!({ "a": [1, { "b": null }], "c": "x" });
    for (wanted, same) in [
        (r#"{"a": [1, {"b": null}]}"#, true),
        (r#"{"c": "*"}"#, true),
        (r#"{"a": [1]}"#, false),
        (r#"{"a": [1, {"b": "*"}]}"#, false),
        (r#"{"c": "y"}"#, false),
        (r#"{"d": null}"#, false),
    ] {
        assert_eq!(contains(&found, &serde_json::from_str(wanted).unwrap()), same, "{wanted}");
    }
}
