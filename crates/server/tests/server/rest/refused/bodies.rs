//! Bodies that are not what they should be, on every operation that changes something or takes a body.

use serde_json::{Value, json};

use super::{DOCUMENT, Ground, Sample};

const DEEP: usize = 30_000;

/// Fields of an operation's body, with the names of the types each of them may have.
fn fields(sample: &Sample) -> Vec<(&'static str, Vec<&'static str>, &'static Value)> {
    let schema = resolved(&sample.described["requestBody"]["content"]["application/json"]["schema"]);
    let properties = schema["properties"].as_object();
    let fields =
        properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), types(schema), resolved(schema)));
    fields.collect()
}

fn resolved(schema: &'static Value) -> &'static Value {
    match schema["$ref"].as_str() {
        Some(target) => DOCUMENT.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

fn types(schema: &'static Value) -> Vec<&'static str> {
    let schema = resolved(schema);
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema[*name].as_array()).flatten();
    let mut found: Vec<_> = parts.flat_map(types).collect();
    match &schema["type"] {
        Value::String(name) => found.push(name),
        Value::Array(names) => found.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    assert!(!found.is_empty(), "a field without a type: {schema}");
    found
}

/// The body that would be good, with one field given or replaced. Text, because a field may stand twice.
fn body_with(sample: &Sample, name: &str, value: &str) -> String {
    let mut good: Value = serde_json::from_str(&sample.body).unwrap_or_else(|_| json!({}));
    good.as_object_mut().unwrap().remove(name);
    let rest = good.to_string();
    let rest = rest[1..rest.len() - 1].to_owned();
    let comma = if rest.is_empty() { "" } else { ", " };
    format!("{{{rest}{comma}\"{name}\": {value}}}")
}

fn good_value(sample: &Sample, name: &str, types: &[&str], schema: &Value) -> String {
    let good: Value = serde_json::from_str(&sample.body).unwrap_or_default();
    match &good[name] {
        Value::Null if schema["format"] == "date-time" => r#""2030-01-02T03:04:05Z""#.to_owned(),
        Value::Null if types.contains(&"boolean") => "true".to_owned(),
        Value::Null if types.contains(&"array") => "[]".to_owned(),
        Value::Null if types.contains(&"object") => "{}".to_owned(),
        Value::Null => r#""x""#.to_owned(),
        given => given.to_string(),
    }
}

/// Whether a field's text is kept as it was sent.
fn is_kept(sample: &Sample, name: &str) -> bool {
    name == "body" && sample.id.ends_with("_post")
}

fn with_bodies(ground: &Ground) -> Vec<Sample> {
    let all: Vec<_> = ground.samples().filter(|sample| !sample.described["requestBody"].is_null()).collect();
    assert!(all.len() >= 12, "{}", all.len());
    all
}

#[test]
fn fields_that_are_unknown_or_stand_twice_are_named() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for sample in with_bodies(&ground) {
        for name in ["zzz", "version", "actor_id", "created_by", "Name", ""] {
            let expected = format!("400 invalid_request /{name}");
            table.push((sample.with_body(&body_with(&sample, name, "1")), expected.clone()));
            table.push((sample.with_body(&body_with(&sample, name, "null")), expected));
        }
        for (name, types, schema) in fields(&sample) {
            let good = good_value(&sample, name, &types, schema);
            let twice = format!("{good}, \"{name}\": {good}");
            table.push((sample.with_body(&body_with(&sample, name, &twice)), format!("400 invalid_request /{name}")));
        }
    }
    for nested in [
        r#"{"operations": [{"op": "follow", "follower": "pal", "target": "fan", "zzz": 1}]}"#,
        r#"{"operations": [{"zzz": 1, "op": "follow", "follower": "pal", "target": "fan"}]}"#,
    ] {
        table.push((format!("POST /follows:batch {nested}"), "400 invalid_request /operations/0/zzz".to_owned()));
    }
    for array in [r#"["follow", "pal", "fan", true]"#, r#"["follow", "pal", "fan"]"#, "[]", "7", "null"] {
        let body = format!(r#"{{"operations": [{array}]}}"#);
        table.push((format!("POST /follows:batch {body}"), "400 invalid_request /operations/0".to_owned()));
    }
    for op in [r#"{"follow": null}"#, r#"["follow"]"#, "null", "7", r#""Follow""#, r#""block""#] {
        let body = format!(r#"{{"operations": [{{"op": {op}, "follower": "pal", "target": "fan"}}]}}"#);
        table.push((format!("POST /follows:batch {body}"), "400 invalid_request /operations/0/op".to_owned()));
    }
    let twice = r#"{"operations": [{"op": "follow", "op": "unfollow", "follower": "pal", "target": "fan"}]}"#;
    table.push((format!("POST /follows:batch {twice}"), "400 invalid_request /operations/0/op".to_owned()));
    ground.refuses(table);
}

#[test]
fn operations_without_a_body_take_none() {
    let ground = Ground::new();
    let without = ground.samples().filter(|sample| sample.described["requestBody"].is_null() && sample.method != "GET");
    let table: Vec<_> =
        without.map(|sample| (sample.with_body(r#"{"zzz": 1}"#), "400 invalid_request /zzz".to_owned())).collect();
    assert!(table.len() > 10, "{}", table.len());
    ground.refuses(table);
}

#[test]
fn values_of_another_type_are_named() {
    let ground = Ground::new();
    let values = [
        ("null", "null"),
        ("boolean", "true"),
        ("integer", "7"),
        ("integer", "-1"),
        ("number", "1.5"),
        ("number", "1e400"),
        ("string", "\"x\""),
        ("array", "[]"),
        ("array", r#"[["x"]]"#),
        ("object", "{}"),
        ("object", r#"{"x": {"y": 1}}"#),
    ];
    let mut table = Vec::new();
    for sample in with_bodies(&ground) {
        for (name, types, _) in fields(&sample) {
            for (_, value) in values.iter().filter(|(of, _)| !types.contains(of)) {
                // What is no number at all is no JSON either, unless it is kept as text.
                let pointer =
                    if *value == "1e400" && !is_kept(&sample, name) { String::new() } else { format!("/{name}") };
                let expected = format!("400 invalid_request {pointer}");
                table.push((sample.with_body(&body_with(&sample, name, value)), expected));
            }
        }
    }
    assert!(table.len() > 100, "{}", table.len());
    ground.refuses(table);
}

#[test]
fn what_is_no_object_of_json_is_refused() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for sample in with_bodies(&ground) {
        for body in ["[]", "[1]", "\"x\"", "null", "7", "true", "{", "{\"", "{]", "{'a': 1}", "x", "{,}"] {
            table.push((sample.with_body(body), "400 invalid_request ".to_owned()));
        }
        let good = if sample.body.is_empty() { "{}" } else { &sample.body };
        for body in
            [format!("{good}{good}"), format!("{good},"), format!("\u{feff}{good}"), good[..good.len() - 1].into()]
        {
            table.push((sample.with_body(&body), "400 invalid_request ".to_owned()));
        }
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", "json"]
        {
            let request = format!("^content-type={kind} {}", sample.with_body(good));
            table.push((request, "415 unsupported_media_type".to_owned()));
        }
    }
    ground.refuses(table);
}

#[test]
fn json_of_any_depth_is_refused_without_harm() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for sample in with_bodies(&ground) {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(DEEP), close.repeat(DEEP));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
        for value in [deep("[", "]"), "[".repeat(60_000), objects] {
            let expected = "400 invalid_request /zzz".to_owned();
            table.push((sample.with_body(&body_with(&sample, "zzz", &value)), expected));
            for (name, types, _) in fields(&sample) {
                // A list is entered as far as it is one, then an element is of the wrong type.
                let inner = match types.contains(&"array") && value.starts_with('[') {
                    true if name == "pairs" => "/0/0",
                    true => "/0",
                    false => "",
                };
                // What is kept as text is read to its end, which is missing here.
                let is_open = is_kept(&sample, name) && !value.ends_with([']', '}']);
                let pointer = if is_open { String::new() } else { format!("/{name}{inner}") };
                table.push((
                    sample.with_body(&body_with(&sample, name, &value)),
                    format!("400 invalid_request {pointer}"),
                ));
            }
        }
    }
    ground.refuses(table);
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let ground = Ground::new();
    let ask = |sample: &Sample, body: &[u8]| {
        let head = format!(
            "{} /api/v1{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nentourage-actor: own\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            sample.method,
            sample.path,
            body.len()
        );
        ground.server.raw(&[head.as_bytes(), body].concat())
    };
    let put = ground.samples().find(|sample| sample.id == "put_user").unwrap();
    let broken: [&[u8]; 6] = [
        b"{\"name\": \"\xff\"}",
        b"{\"name\": \"\xc3\"}",
        b"{\"name\": \"\xed\xa0\x80\"}",
        b"{\"\xff\": 1}",
        b"{\"name\": \"\\ud800\"}",
        b"\xff\xfe{\0\"\0n\0a\0m\0e\0\"\0:\0\"\0x\0\"\0}\0",
    ];
    for body in broken {
        let (status, problem) = ask(&put, body);
        assert_eq!((status, &problem["code"]), (400, &json!("invalid_request")), "{body:?}: {problem}");
        assert!(problem["errors"][0]["pointer"].is_string(), "{body:?}: {problem}");
    }
    let (status, _) = ask(&put, b"{\"name\": \"\xc3\xa9\", \"zzz\": 1}");
    assert_eq!(status, 400);
    ground.is_untouched();
    assert_eq!(ask(&put, b"{\"name\": \"\xc3\xa9\"}").0, 200);
}
