//! Outside the API: is it alive, is it ready, what is it, what has it done.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use entourage_service::Service;
use entourage_store::Health;
use serde::Serialize;

use super::answer::{Answer, json};

#[derive(Serialize)]
struct StatusJson {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct VersionJson {
    name: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
}

/// The process runs and answers.
pub(super) async fn healthz() -> Answer {
    json(StatusCode::OK, StatusJson { status: "ok", reason: None })
}

/// Writes are taken.
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Answer {
    match service.health().await {
        Health::Ready => json(StatusCode::OK, StatusJson { status: "ready", reason: None }),
        Health::Degraded(reason) => {
            json(StatusCode::SERVICE_UNAVAILABLE, StatusJson { status: "degraded", reason: Some(reason) })
        }
    }
}

pub(super) async fn version() -> Answer {
    let body = VersionJson { name: "entourage", version: env!("CARGO_PKG_VERSION"), commit: option_env!("GIT_COMMIT") };
    json(StatusCode::OK, body)
}

pub(super) async fn metrics() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], crate::metrics::render()).into_response()
}
