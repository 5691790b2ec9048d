//! `/openapi.json`, and the same document as a page without scripts at `/docs`.

mod page;
mod schema;

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use super::openapi::{Access, Group, get};

const STYLE: &str = include_str!("style.css");

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(super::document().to_string()));
static PAGE: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(page::render(&super::document(), STYLE)));
/// Nothing may be loaded, run or framed; the one style is allowed by its hash.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).ok()
});

pub(super) fn group() -> Group {
    let operations = vec![
        get("/openapi.json", Access::Open, document).named("openapi", "This document").answers::<serde_json::Map<
            String,
            serde_json::Value,
        >>(
            StatusCode::OK, "OpenAPI 3.1"
        ),
        get("/docs", Access::Open, docs)
            .named("docs", "This document as a page")
            .answers_as("text/html", "A page that loads nothing from elsewhere"),
    ];
    Group::new("Documentation", "The API as the code describes it.", operations)
}

async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response()
}

async fn docs() -> Response {
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE.clone()).into_response();
    let headers = response.headers_mut();
    headers.extend(POLICY.clone().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
