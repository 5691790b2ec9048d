//! Every exchange of these tests is compared with the document: an operation for the route, a response for the
//! status, a schema that knows each key of the body, and for what was accepted also each key that was sent.

use std::{collections::HashMap, sync::LazyLock};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use super::table::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(entourage_server::http::document);
static COMPILED: LazyLock<Compiled> = LazyLock::new(Compiled::new);

/// Every schema of a body, by its address: of requests as they are, of replies without room for other keys.
struct Compiled {
    schemas: Schemas,
    by_address: HashMap<String, SchemaIndex>,
}

const REQUESTS: &str = "file:///requests";
const REPLIES: &str = "file:///replies";

/// What was asked, as the client wrote it.
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a str,
    /// With its query.
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
}

/// Says how an exchange differs from the document.
pub(crate) fn compare(sent: &Sent<'_>, reply: &Reply) -> Result<(), String> {
    let (path, query) = sent.path.split_once('?').unwrap_or((sent.path, ""));
    // What is wrong with the frame of a request can be said to any request.
    if matches!(reply.status, 413 | 414) {
        return Ok(());
    }
    let Some(template) = template(path) else {
        return if reply.status == 404 { Ok(()) } else { Err(format!("{path} is not described")) };
    };
    let method = if sent.method == "HEAD" { "get" } else { &sent.method.to_ascii_lowercase() };
    let operation = &DOCUMENT["paths"][template][method];
    if operation.is_null() {
        // Whoever is not let in hears nothing of methods.
        let fits = matches!(reply.status, 401 | 405);
        return if fits { Ok(()) } else { Err(format!("{method} {template} is not described")) };
    }
    let place = format!("{method} {template} {}", reply.status);
    let response = &operation["responses"][reply.status.to_string()];
    if response.is_null() {
        return Err(format!("{place} is not described"));
    }
    let media = reply.header("content-type").split(';').next().unwrap_or_default();
    let schema = &response["content"][media]["schema"];
    if schema.is_null() {
        return Err(format!("{place}: {media:?} is not described"));
    }
    if matches!(media, "application/json" | "application/problem+json") && sent.method != "HEAD" {
        let pointer = ["paths", template, method, "responses", &reply.status.to_string(), "content", media, "schema"];
        validate(&place, REPLIES, &pointer, &reply.body)?;
    }
    if (200..300).contains(&reply.status) { compare_request(sent, query, [template, method], &place) } else { Ok(()) }
}

/// What the server accepted, the document allows.
fn compare_request(sent: &Sent<'_>, query: &str, [path, method]: [&str; 2], place: &str) -> Result<(), String> {
    let operation = &DOCUMENT["paths"][path][method];
    let parameters = operation["parameters"].as_array().unwrap();
    for name in query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap()) {
        if !parameters.iter().any(|parameter| parameter["in"] == "query" && parameter["name"] == name) {
            return Err(format!("{place}: the query parameter {name} is not described"));
        }
    }
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    match (sent.body, schema) {
        ("", _) if operation["requestBody"]["required"] == true => Err(format!("{place}: no body was taken")),
        ("", _) | ("{}", Value::Null) => Ok(()),
        (body, Value::Null) => Err(format!("{place}: a body was taken: {body}")),
        (body, _) => {
            let pointer = ["paths", path, method, "requestBody", "content", "application/json", "schema"];
            validate(place, REQUESTS, &pointer, &serde_json::from_str(body).unwrap())
        }
    }
}

/// The path of the document that an address belongs to; fixed words win over names.
fn template(path: &str) -> Option<&'static str> {
    // Nothing at the end is no id, and no route.
    if path.ends_with('/') {
        return None;
    }
    let paths = DOCUMENT["paths"].as_object().unwrap().keys().map(String::as_str);
    let fits = |template: &&str| {
        template.split('/').count() == path.split('/').count()
            && template.split('/').zip(path.split('/')).all(|(part, given)| part.starts_with('{') || part == given)
    };
    paths.filter(fits).min_by_key(|template| template.matches('{').count())
}

fn validate(place: &str, document: &str, pointer: &[&str], body: &Value) -> Result<(), String> {
    let index = COMPILED.by_address.get(&address(document, pointer)).unwrap_or_else(|| panic!("{place}: no schema"));
    let result = COMPILED.schemas.validate(body, *index);
    result.map_err(|error| format!("{place} does not fit its schema: {error}"))
}

fn address(document: &str, pointer: &[&str]) -> String {
    let pointer: String = pointer.iter().map(|name| format!("/{}", escape(name))).collect();
    format!("{document}#{pointer}")
}

/// As a JSON pointer in an address.
fn escape(name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"~-_.".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Compiled {
    fn new() -> Self {
        let mut replies = DOCUMENT.clone();
        close_each(&mut replies["components"]["schemas"]);
        for operation in replies["paths"].as_object_mut().unwrap().values_mut().flat_map(values) {
            for response in values(&mut operation["responses"]) {
                values(&mut response["content"]).for_each(|content| close(&mut content["schema"], false));
            }
        }
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        compiler.add_resource(REQUESTS, DOCUMENT.clone()).unwrap();
        compiler.add_resource(REPLIES, replies).unwrap();
        let (mut schemas, mut by_address) = (Schemas::new(), HashMap::new());
        for address in addresses() {
            let index = compiler.compile(&address, &mut schemas).unwrap_or_else(|error| panic!("{address}: {error}"));
            by_address.insert(address, index);
        }
        Self { schemas, by_address }
    }
}

fn addresses() -> Vec<String> {
    let fields = |value: &'static Value| value.as_object().into_iter().flatten();
    let mut found = Vec::new();
    for (path, methods) in fields(&DOCUMENT["paths"]) {
        for (method, operation) in fields(methods) {
            for (media, _) in fields(&operation["requestBody"]["content"]) {
                found.push(address(REQUESTS, &["paths", path, method, "requestBody", "content", media, "schema"]));
            }
            for (status, response) in fields(&operation["responses"]) {
                for (media, _) in fields(&response["content"]) {
                    let pointer = ["paths", path, method, "responses", status, "content", media, "schema"];
                    found.push(address(REPLIES, &pointer));
                }
            }
        }
    }
    found
}

fn values(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object.as_object_mut().into_iter().flat_map(|fields| fields.values_mut())
}

fn close_each(schemas: &mut Value) {
    values(schemas).for_each(|schema| close(schema, false));
}

/// The same schema without room for keys that it does not name. Clients have to expect new ones; these tests do not.
fn close(schema: &mut Value, is_part: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(|each| close(each, false)),
            ("items" | "additionalProperties", each) => close(each, false),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter_mut().for_each(|part| close(part, true)),
            _ => {}
        }
    }
    // A part sees its own keys alone; the whole sees those of all parts.
    let is_open = !fields.contains_key("additionalProperties");
    if fields.contains_key("properties") && is_open && !is_part {
        fields.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
}

#[test]
fn a_comparison_can_fail() {
    let reply = |status, body: Value| {
        let problem = if status < 400 { "application/json" } else { "application/problem+json" };
        let headers = [(ureq::http::header::CONTENT_TYPE, problem.parse().unwrap())].into_iter().collect();
        Reply { status, headers, text: body.to_string(), body }
    };
    let check = |path, status, body| compare(&Sent { method: "GET", path, body: "" }, &reply(status, body));
    let one = "/api/v1/users/a/is-following/b";
    let good = json!({ "following": true, "is_following": true, "since": "2026-01-02T03:04:05.678Z" });
    assert_eq!(check(one, 200, good.clone()), Ok(()));
    let changed = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    for (path, status, body, why) in [
        (one, 201, good.clone(), "is not described"),
        ("/api/v1/users/a/nope", 200, good.clone(), "is not described"),
        ("/api/v1/checks", 200, good.clone(), "is not described"),
        (one, 200, json!({ "following": true, "is_following": true }), "since"),
        (one, 200, changed("since", json!("yesterday")), "yesterday"),
        (one, 200, changed("following", json!(1)), "boolean"),
        (one, 200, changed("surprise", json!(1)), "surprise"),
        ("/api/v1/users/a/is-following/b?x=1", 200, good.clone(), "query parameter x"),
    ] {
        let found = check(path, status, body).unwrap_err();
        assert!(found.contains(why), "{path} {status}: {found}");
    }
}
