//! What is measured, and how it is shown: one recorder for the whole process.

use std::{sync::OnceLock, time::Duration};

use axum::http::{Method, StatusCode};
use entourage_model::Code;
use metrics::{counter, describe_counter, describe_histogram, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Seconds; from a tenth of a millisecond, where most answers are, to the deadline.
const LATENCY_BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Starts recording; a second server in one process shares the first one's recorder.
pub(crate) fn install() {
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets(&LATENCY_BUCKETS).unwrap_or_default();
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder was installed before; /metrics stays empty");
        }
        describe_counter!("entourage_http_requests_total", "Requests answered, by route, method and status");
        describe_histogram!("entourage_http_request_seconds", "Time to answer, by route and method");
        describe_counter!("entourage_commits_total", "Writes that changed the store, by operation");
        describe_counter!("entourage_refusals_total", "Requests refused or failed, by code");
        handle
    });
}

pub(crate) fn render() -> String {
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// Folds what histograms have gathered; to be called every few seconds.
pub(crate) fn fold() {
    if let Some(handle) = RECORDER.get() {
        handle.run_upkeep();
    }
}

pub(crate) fn request(route: String, method: &Method, status: StatusCode, elapsed: Duration) {
    let method = known_method(method);
    let status = status.as_str().to_owned();
    counter!("entourage_http_requests_total", "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    histogram!("entourage_http_request_seconds", "route" => route, "method" => method).record(elapsed.as_secs_f64());
}

pub(crate) fn refusal(code: Code) {
    counter!("entourage_refusals_total", "code" => code.as_str()).increment(1);
}

/// Clients choose methods; labels must stay few.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
