//! The OpenAPI 3.1 document, made from the operations and the types they name.

use std::collections::HashMap;

use axum::http::HeaderName;
use entourage_model::Code;
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    operation::{Answered, Described, Group, Operation},
    problems,
    schema::{Id, Version},
    shape::{split_unions, without_null_defaults},
};
use crate::http::response::Problem;

const ABOUT: &str = "Who follows whom, and what each person should see because of it.

Ids are strings, times are RFC 3339 in UTC with milliseconds. Errors are `application/problem+json` (RFC 9457) with a \
`code` from a closed table. Every answer to a write carries `Entourage-Token`; a read that sends it sees that write.";

/// Sent to callers with a quota.
pub(super) const RATE_HEADERS: [&str; 5] =
    ["RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// Types are described as read and as written: a field that is optional in a request is present in every reply.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

pub(in crate::http) fn document(groups: &[Group]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for (group, operation) in groups.iter().flat_map(|group| group.operations.iter().map(move |each| (group, each))) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = entry(group, operation, &mut schemas);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Entourage",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": groups.iter().map(|group| json!({ "name": group.name, "description": group.about })).collect::<Value>(),
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "headers": answer_headers(),
            "parameters": request_headers(),
            "securitySchemes": { "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A JWT whose `sub` is the actor, or a service key, which acts for `Entourage-Actor` or \
                                for nobody. A server without credentials configured is in development mode: it \
                                listens on loopback only, asks nobody for credentials, and `Entourage-Actor` names \
                                the actor.",
            } },
        },
        "x-codes": problems::table(),
    });
    shorten_names(&mut document);
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        split_unions(schemas);
    }
    without_null_defaults(&mut document);
    document
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut written = settings.clone().for_serialize().into_generator();
        written.subschema_for::<Problem>();
        Self { read: settings.for_deserialize().into_generator(), written }
    }

    fn finish(mut self) -> Map<String, Value> {
        let mut schemas = self.written.take_definitions(true);
        schemas.extend(self.read.take_definitions(true));
        schemas
    }
}

fn entry(group: &Group, operation: &Operation, schemas: &mut Schemas) -> Value {
    let policy = &operation.policy;
    let mut entry = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [group.name],
        "parameters": parameters(operation, &mut schemas.read),
        "responses": responses(operation, &mut schemas.written),
        "security": if policy.access.needs_credentials() { json!([{ "bearer": [] }, {}]) } else { json!([]) },
        "x-access": policy.access.name(),
        "x-deadline-seconds": policy.deadline.as_secs(),
    });
    if let Some(action) = policy.audit {
        entry["x-audit"] = action.into();
    }
    if let Some(about) = operation.about {
        entry["description"] = about.into();
    }
    if let Some(body) = &operation.body {
        let schema = (body.schema)(&mut schemas.read);
        entry["requestBody"] =
            json!({ "required": body.required, "content": { "application/json": { "schema": schema } } });
        entry["x-body-max-bytes"] = policy.body_max_bytes.into();
    }
    entry
}

fn parameters(operation: &Operation, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters: Vec<_> = operation
        .parameters()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": parameter(name, schemas) }))
        .collect();
    parameters.extend(operation.query.into_iter().flat_map(|query| query_parameters(query, schemas)));
    if operation.is_api() {
        let named = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
        parameters.extend(["Entourage-Actor", "Entourage-Token"].map(named));
        parameters.extend(operation.writes.then(|| named("Idempotency-Key")));
        let challenged = operation.refusals.contains(&Code::ChallengeRequired);
        parameters.extend(challenged.then(|| named("Entourage-Challenge")));
    }
    parameters
}

/// The type of a path parameter.
fn parameter(name: &str, schemas: &mut SchemaGenerator) -> Schema {
    match name {
        // Their ids are versions.
        "case" | "group" | "job" | "post" => schemas.subschema_for::<Version>(),
        _ => schemas.subschema_for::<Id>(),
    }
}

/// Each field of the query's type is a parameter.
fn query_parameters(query: Described, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let schema = query(schemas).to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let required = required.contains(&Value::from(name.as_str()));
        let mut parameter = json!({ "name": name, "in": "query", "required": required, "schema": not_null(schema) });
        if let Some(about) = about {
            parameter["description"] = about;
        }
        parameter
    };
    fields.into_iter().map(parameter).collect()
}

/// A query parameter can be left out but not be `null`.
fn not_null(mut schema: Value) -> Value {
    let null = json!({ "type": "null" });
    if let Some(either) = schema["anyOf"].as_array_mut() {
        either.retain(|schema| *schema != null);
        if let [one] = either.as_mut_slice() {
            return one.take();
        }
    }
    if let Some(types) = schema["type"].as_array_mut() {
        types.retain(|name| name != "null");
        if let [one] = types.as_mut_slice() {
            schema["type"] = one.take();
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.retain(|_, value| !value.is_null());
    }
    schema
}

fn responses(operation: &Operation, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let mut responses = Map::from_iter(problems::responses(operation));
    let mut names = vec!["X-Request-Id", "Server-Timing"];
    names.extend(operation.paged.then_some("Link"));
    names.extend(operation.located.then_some("Location"));
    names.extend(operation.aged.then_some("Entourage-Age"));
    names.extend(operation.is_api().then_some(&RATE_HEADERS).into_iter().flatten());
    if operation.writes && operation.is_api() {
        names.extend(["Entourage-Token", "Idempotent-Replayed"]);
    }
    for Answered { status, media, about, schema } in &operation.answers {
        let response = responses
            .entry(status.as_str())
            .or_insert_with(|| json!({ "description": about, "headers": headers(&names), "content": {} }));
        response["content"][media] = json!({ "schema": schema(schemas) });
    }
    responses
}

pub(super) fn headers(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }))).collect()
}

fn answer_headers() -> Value {
    let text = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    let number = |about: &str| json!({ "description": about, "schema": { "type": "integer", "minimum": 0 } });
    json!({
        "X-Request-Id": text("The request's id, as the log has it"),
        "Server-Timing": text("How long the server took, in milliseconds"),
        "Entourage-Token": text("Send it with a later read: the read sees this write, or is 503 `stale`"),
        "Entourage-Age": number("While the store is away: seconds since this answer, from memory, was known to be right"),
        "Idempotent-Replayed": text("`true` when this is the reply of an earlier request with the same key"),
        "Link": text("The first page, `rel=\"first\"`, and while there is more the next one, `rel=\"next\"`"),
        "Location": text("Where it is found"),
        "RateLimit": text("What is left of each quota: `r` requests for `t` seconds; for those who have one"),
        "RateLimit-Policy": text("The quotas: `q` requests in `w` seconds"),
        "X-RateLimit-Limit": number("Requests in a window"),
        "X-RateLimit-Remaining": number("Requests that are left"),
        "X-RateLimit-Reset": number("Seconds until all of them are back"),
        "WWW-Authenticate": text("`Bearer`"),
        "Retry-After": number("Seconds after which the same request may succeed"),
    })
}

/// Headers of requests and of responses.
pub(in crate::http) fn header_names() -> (Vec<HeaderName>, Vec<HeaderName>) {
    let names = |headers: &Value| {
        let names = headers.as_object().into_iter().flat_map(Map::keys);
        names.filter_map(|name| HeaderName::try_from(name).ok()).collect()
    };
    (names(&request_headers()), names(&answer_headers()))
}

fn request_headers() -> Value {
    let header = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "header", "required": false, "description": about, "schema": schema });
    json!({
        "Entourage-Actor": header(
            "Entourage-Actor",
            "The acting user. For service keys and in development mode; a JWT names its actor itself. Without it a \
             service key sees everything",
            json!({ "$ref": "#/components/schemas/Id" }),
        ),
        "Entourage-Token": header(
            "Entourage-Token",
            "The token of an earlier write: this request sees that write, or is 503 `stale`",
            json!({ "type": "string" }),
        ),
        "Entourage-Challenge": header(
            "Entourage-Challenge",
            "Proof that the actor solved a challenge: a short-lived JWT of the application",
            json!({ "type": "string" }),
        ),
        "Idempotency-Key": header(
            "Idempotency-Key",
            "The same request again within `idempotency.ttl` has no second effect and gets the first one's reply",
            json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
        ),
    })
}

/// In the code `Json` tells reply types from the model's; the document needs no suffix.
fn shorten_names(document: &mut Value) {
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    let Some(schemas) = schemas else { return };
    let shorter = |name: &String| {
        let short = name.strip_suffix("Json").filter(|short| !schemas.contains_key(*short))?;
        Some((name.clone(), short.to_owned()))
    };
    let names: HashMap<_, _> = schemas.keys().filter_map(shorter).collect();
    let renamed = std::mem::take(schemas)
        .into_iter()
        .map(|(name, schema)| (names.get(&name).cloned().unwrap_or(name), schema))
        .collect();
    *schemas = renamed;
    rename_references(document, &names);
}

fn rename_references(value: &mut Value, names: &HashMap<String, String>) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(field, value)| match value {
            Value::String(target) if field == "$ref" => {
                let (place, name) = target.rsplit_once('/').unwrap_or_default();
                if let Some(name) = names.get(name) {
                    *target = format!("{place}/{name}");
                }
            }
            other => rename_references(other, names),
        }),
        Value::Array(values) => values.iter_mut().for_each(|value| rename_references(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_has_a_name_of_its_own() {
        let mut schemas = Schemas::new();
        for operation in crate::http::groups().iter().flat_map(|group| &group.operations) {
            parameters(operation, &mut schemas.read);
            responses(operation, &mut schemas.written);
            operation.body.iter().for_each(|body| drop((body.schema)(&mut schemas.read)));
        }
        let (read, written) = (schemas.read.take_definitions(true), schemas.written.take_definitions(true));
        for (name, schema) in &read {
            assert!(written.get(name).is_none_or(|other| other == schema), "{name} is read and written differently");
        }
        for name in read.keys().chain(written.keys()) {
            assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name}: two types have one name");
        }
    }
}
