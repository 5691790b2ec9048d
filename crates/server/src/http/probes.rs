//! Outside the API: liveness, readiness, version, metrics.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use entourage_service::Service;
use entourage_store::Health;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    openapi::{Access, Group, get},
    response::{Answer, json},
};
use crate::front::Front;

#[derive(Serialize, JsonSchema)]
struct StatusJson {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Which version of `auth.service_keys_file` is in use: a digest of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_keys: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Build")]
struct VersionJson {
    name: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/healthz", Access::Open, healthz)
            .named("healthz", "The process runs and answers")
            .answers::<StatusJson>(StatusCode::OK, "It does"),
        get("/readyz", Access::Open, readyz)
            .named("readyz", "Writes are taken")
            .about(
                "With a reason though it is ready, a file of keys or certificates cannot be read as it is now, and what \
                 was read before is in use: a key that was revoked since is still taken.",
            )
            .answers::<StatusJson>(StatusCode::OK, "They are")
            .answers::<StatusJson>(StatusCode::SERVICE_UNAVAILABLE, "They are not, with the reason"),
        get("/version", Access::Open, version)
            .named("version", "Which version this is")
            .answers::<VersionJson>(StatusCode::OK, "Name, version, commit"),
        get("/metrics", Access::Local, metrics)
            .named("metrics", "What is measured")
            .about("Open on loopback; elsewhere for admins.")
            .answers_as("text/plain", "Prometheus text"),
    ];
    Group::new("Outside the API", "Probes and metrics.", operations)
}

/// The process runs and answers.
pub(super) async fn healthz() -> Answer {
    json(StatusCode::OK, StatusJson { status: "ok", reason: None, service_keys: None })
}

/// Writes are taken.
pub(super) async fn readyz(State(service): State<Arc<Service>>, Extension(front): Extension<Arc<Front>>) -> Answer {
    let service_keys = front.access.key_file_digest();
    match service.health().await {
        Health::Ready => {
            let stale = front.stale();
            let detail = "cannot be read as it is now; what was read before is in use";
            let reason = (!stale.is_empty()).then(|| format!("{}: {detail}", stale.join(", ")));
            json(StatusCode::OK, StatusJson { status: "ready", reason, service_keys })
        }
        Health::Degraded(reason) => {
            let body = StatusJson { status: "degraded", reason: Some(reason.to_string()), service_keys };
            json(StatusCode::SERVICE_UNAVAILABLE, body)
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
