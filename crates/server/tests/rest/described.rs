//! Every exchange of these tests is compared with the document: an operation for the route, a response for the
//! status, a schema that knows each key of the body, and for what was accepted also each key that was sent.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, LazyLock, Mutex},
};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use super::table::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(entourage_server::http::document);
/// Compiled schemas by where they stand in the document.
type Validators = HashMap<String, Arc<(Schemas, SchemaIndex)>>;
static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

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
        return if reply.status == 405 { Ok(()) } else { Err(format!("{method} {template} is not described")) };
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
    if media.ends_with("json") && sent.method != "HEAD" {
        validate(&place, &closed(schema), &reply.body)?;
    }
    if (200..300).contains(&reply.status) { compare_request(sent, query, operation, &place) } else { Ok(()) }
}

/// What the server accepted, the document allows.
fn compare_request(sent: &Sent<'_>, query: &str, operation: &Value, place: &str) -> Result<(), String> {
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
        (body, schema) => validate(&format!("{place} body"), schema, &serde_json::from_str(body).unwrap()),
    }
}

/// The path of the document that an address belongs to; fixed words win over names.
fn template(path: &str) -> Option<&'static str> {
    let paths = DOCUMENT["paths"].as_object().unwrap().keys().map(String::as_str);
    let fits = |template: &&str| {
        template.split('/').count() == path.split('/').count()
            && template.split('/').zip(path.split('/')).all(|(part, given)| part.starts_with('{') || part == given)
    };
    paths.filter(fits).min_by_key(|template| template.matches('{').count())
}

fn validate(place: &str, schema: &Value, body: &Value) -> Result<(), String> {
    let known = VALIDATORS.lock().unwrap().get(place).map(Arc::clone);
    let validator = known.unwrap_or_else(|| {
        let schemas = &DOCUMENT["components"]["schemas"];
        let schemas = if place.ends_with(" body") { schemas.clone() } else { closed_each(schemas) };
        let root = json!({ "allOf": [schema], "components": { "schemas": schemas } });
        let validator = Arc::new(compile(root).unwrap_or_else(|error| panic!("{place}: {error}")));
        VALIDATORS.lock().unwrap().insert(place.to_owned(), Arc::clone(&validator));
        validator
    });
    let (schemas, index) = &*validator;
    schemas.validate(body, *index).map_err(|error| format!("{place} does not fit its schema: {error}"))
}

fn compile(root: Value) -> Result<(Schemas, SchemaIndex), Box<dyn Error>> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.enable_format_assertions();
    compiler.add_resource("file:///document", root)?;
    let index = compiler.compile("file:///document", &mut schemas)?;
    Ok((schemas, index))
}

fn closed_each(schemas: &Value) -> Value {
    schemas.as_object().unwrap().iter().map(|(name, schema)| (name.clone(), closed(schema))).collect()
}

/// The same schema without room for keys that it does not name. Clients have to expect new ones; these tests do not.
fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    close(&mut schema, false);
    schema
}

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
