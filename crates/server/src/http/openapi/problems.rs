//! The error codes of an operation, and how the document states them.

use std::collections::BTreeMap;

use axum::http::Method;
use entourage_model::Code;
use serde_json::{Value, json};

use super::{operation::Operation, policy::Access};

/// The operation's own codes and those that follow from its form, by status.
fn refusals(operation: &Operation) -> BTreeMap<u16, Vec<Code>> {
    let mut codes = operation.refusals.clone();
    let mut also = |holds: bool, more: &[Code]| codes.extend(more.iter().filter(|_| holds));
    let api = operation.is_api();
    also(true, &[Code::InvalidRequest, Code::PayloadTooLarge, Code::UriTooLong, Code::Internal, Code::Overloaded]);
    also(api, &[Code::InvalidId, Code::InvalidToken, Code::ActorNotFound, Code::Stale, Code::Unavailable]);
    also(operation.paged, &[Code::InvalidCursor]);
    also(operation.body.is_some() || operation.method != Method::GET, &[Code::UnsupportedMediaType]);
    also(operation.policy.access != Access::Open, &[Code::Unauthenticated, Code::Forbidden, Code::RateLimited]);
    also(
        api && operation.writes,
        &[Code::RequestInProgress, Code::IdempotencyMismatch, Code::StorageFull, Code::MemoryFull],
    );
    // In the order of the table, each once.
    let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
    for code in Code::ALL.iter().filter(|code| codes.contains(code)) {
        by_status.entry(code.http_status()).or_default().push(*code);
    }
    by_status
}

/// Entries of `responses`.
pub(super) fn responses(operation: &Operation) -> impl Iterator<Item = (String, Value)> {
    refusals(operation).into_iter().map(|(status, codes)| (status.to_string(), response(&codes)))
}

fn response(codes: &[Code]) -> Value {
    let names: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let lines: Vec<_> = codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.meaning())).collect();
    let mut headers = super::document::headers(&["X-Request-Id", "Server-Timing"]);
    if codes.contains(&Code::Unauthenticated) {
        headers["WWW-Authenticate"] = json!({ "$ref": "#/components/headers/WWW-Authenticate" });
    }
    if codes.iter().any(|code| code.is_retryable()) {
        headers["Retry-After"] = json!({ "$ref": "#/components/headers/Retry-After" });
    }
    json!({
        "description": lines.join("\n\n"),
        "headers": headers,
        "content": { "application/problem+json": { "schema": {
            "allOf": [{ "$ref": "#/components/schemas/Problem" }],
            "properties": { "code": { "enum": names } },
        } } },
    })
}

/// The table of codes, for the page and for client generators.
pub(super) fn table() -> Value {
    let row = |code: &Code| {
        json!({
            "code": code.as_str(),
            "status": code.http_status(),
            "title": code.title(),
            "meaning": code.meaning(),
            "remedy": code.remedy(),
            "retryable": code.is_retryable(),
            "anchor": code.docs_anchor(),
        })
    };
    Code::ALL.iter().map(row).collect()
}
