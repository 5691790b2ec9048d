//! The router and the document say the same, in both directions.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::server::Server;

const METHODS: [&str; 6] = ["GET", "PUT", "POST", "PATCH", "DELETE", "TRACE"];

#[test]
fn each_path_answers_to_the_methods_of_the_document_and_to_no_other() {
    let server = Server::start();
    let document = server.check("GET //openapi.json", r#"200 {"openapi": "3.1.0"}"#).body;
    assert_eq!(document, entourage_server::http::document());
    for (path, operations) in document["paths"].as_object().unwrap() {
        let known: BTreeSet<_> = operations.as_object().unwrap().keys().map(|name| name.to_ascii_uppercase()).collect();
        let address = path.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
        let address = address.collect::<Vec<_>>().join("x");
        for method in METHODS {
            // A stream that begins does not end; this one cannot begin.
            let reply = server.ask(&format!("^last-event-id=x {method} /{address}"));
            if known.contains(method) {
                assert_ne!(reply.status, 405, "{method} {path} is not routed");
                assert_ne!(reply.body["detail"], "no such route", "{method} {path} is not routed");
            } else {
                assert_eq!(reply.body["code"], "method_not_allowed", "{method} {path} is not described");
                let allowed: BTreeSet<_> =
                    reply.header("allow").split(',').map(|name| name.trim().to_owned()).collect();
                assert_eq!(without_head(allowed), known, "{path}");
            }
        }
    }
}

/// Whoever can be asked can be asked for the head alone.
fn without_head(mut methods: BTreeSet<String>) -> BTreeSet<String> {
    assert_eq!(methods.remove("HEAD"), methods.contains("GET"));
    methods
}

/// What adds routes to a router.
const ADDING: [&str; 6] = [".route(", ".nest(", ".merge(", "route_service(", "nest_service(", "fallback_service("];

/// A router cannot be asked for its routes, so there is one place that adds any: where the operations are.
#[test]
fn routes_come_from_operations_alone() {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let adding: Vec<_> = found
        .iter()
        .flat_map(|(file, text)| text.lines().map(move |line| (file, line.trim())))
        .filter(|(_, line)| ADDING.iter().any(|word| line.contains(word)))
        .filter(|(_, line)| !line.starts_with("//") && !line.contains("fn "))
        .collect();
    assert_eq!(adding.len(), 1, "{adding:?}");
    assert!(adding[0].1.contains(".route(path, methods)"), "{adding:?}");
}

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_operation_is_described_whole() {
    let document = entourage_server::http::document();
    let mut ids = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = format!("{method} {path}");
            let id = operation["operationId"].as_str().unwrap();
            assert!(!id.is_empty() && ids.insert(id), "{place} has no id of its own");
            assert_ne!(operation["summary"], "", "{place} has no summary");
            let statuses = operation["responses"].as_object().unwrap();
            assert!(statuses.keys().any(|status| status.starts_with('2')), "{place} never succeeds");
            let is_api = path.starts_with("/api/v1/");
            for header in ["Entourage-Actor", "Entourage-Token"] {
                assert_eq!(refers_to(operation, header), is_api, "{place}: {header}");
            }
            assert_eq!(operation["security"] == serde_json::json!([]), !is_api, "{place}");
        }
    }
    let mut targets = BTreeSet::new();
    references(&document, &mut targets);
    assert!(targets.len() > 10);
    for target in targets {
        assert!(document.pointer(target.strip_prefix('#').unwrap()).is_some(), "{target} is nowhere");
    }
}

fn refers_to(operation: &Value, header: &str) -> bool {
    let target = format!("#/components/parameters/{header}");
    operation["parameters"].as_array().unwrap().iter().any(|parameter| parameter["$ref"] == target.as_str())
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::String(target) if name == "$ref" => {
                found.insert(target);
            }
            other => references(other, found),
        }),
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Generators of clients leave out, or get wrong, what is valid but unusual. `scripts/openapi-clients` asks two of them.
#[test]
fn generators_find_nothing_to_leave_out() {
    let document = entourage_server::http::document();
    let mut found = Vec::new();
    unusual("", &document, &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let schemas = &document["components"]["schemas"];
    let kinds = schemas["Event"]["oneOf"].as_array().unwrap();
    let names: BTreeSet<_> =
        kinds.iter().map(|kind| kind["$ref"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(
        names,
        BTreeSet::from(["AbuseEvent", "EdgeEvent", "GroupEvent", "ImportEvent", "PostEvent", "UserEvent"])
    );
    let mut types = BTreeSet::new();
    for name in names {
        for field in ["cursor", "type", "version", "time"] {
            assert!(schemas[name]["properties"][field].is_object(), "{name} lacks {field}");
            assert!(schemas[name]["required"].as_array().unwrap().contains(&field.into()), "{name} may lack {field}");
        }
        for value in schemas[name]["properties"]["type"]["enum"].as_array().unwrap() {
            let value = value.as_str().unwrap();
            assert!(types.insert(value), "{value} is of two kinds");
            let target = &schemas["Event"]["discriminator"]["mapping"][value];
            assert_eq!(target, &format!("#/components/schemas/{name}"), "{value}");
        }
    }
    assert!(types.len() > 20, "{types:?}");
}

fn unusual(place: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                found.push(format!("{place}: null is no default"));
            }
            let is_schema = fields.get("type").is_some_and(|name| name == "object");
            let has = |name: &str| fields.contains_key(name);
            if is_schema && !has("properties") && !has("additionalProperties") {
                found.push(format!("{place}: an object that may have nothing in it"));
            }
            if is_schema && has("properties") && (has("anyOf") || has("oneOf")) {
                found.push(format!("{place}: fields beside alternatives"));
            }
            fields.iter().for_each(|(name, value)| unusual(&format!("{place}/{name}"), value, found));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| unusual(&format!("{place}/{index}"), value, found));
        }
        _ => {}
    }
}

#[test]
fn the_page_loads_nothing() {
    let server = Server::start();
    let page = server.check("GET //docs", "200");
    assert!(page.header("content-type").starts_with("text/html"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && page.text.contains("id=\"code-blocked\""));
}
