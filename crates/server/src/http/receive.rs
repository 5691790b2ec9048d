//! What every request passes through: request id, limits, deadline, metrics.

use std::{
    any::Any,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use entourage_model::{Code, Error};
use entourage_store::share;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::{timeout, timeout_at};
use tracing::Instrument;

use super::{
    cross_site,
    gate::{Gate, RequestId},
    response::{Failure, problem},
    trace::{REQUEST_ID, Trace},
};
use crate::metrics::{self, Routes};

/// State shared by all requests.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) routes: Arc<Routes>,
}

const URI_MAX_BYTES: usize = 8 * 1024;
const DRAINED_MAX_BYTES: usize = 8 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const BODY_TIMEOUT: Duration = Duration::from_secs(8);
/// After a grace period a body must arrive at this rate, so that slow senders hold nothing for long.
const BODY_GRACE: Duration = Duration::from_secs(2);
const BODY_MIN_BYTES_PER_SECOND: usize = 1_024;

/// What a request costs of its connection's [share](entourage_store::share), plus a unit per so many bytes of its body
/// and response. The store adds the cost of rows.
const REQUEST_UNITS: usize = 4;
const BODY_BYTES_A_UNIT: usize = 256;
const ANSWER_BYTES_A_UNIT: u64 = 4 * 1024;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Outermost: turns errors into problems, adds the request id, and records metrics.
pub(super) async fn observe(State(receiver): State<Receiver>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    share::spend(REQUEST_UNITS).await;
    let trace = Trace::of(request.headers());
    request.extensions_mut().insert(RequestId(Arc::clone(&trace.request_id)));
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let method = request.method().clone();
    let in_flight = receiver.routes.enter(route, &method);
    let mut response = next.run(request).instrument(trace.span(&method, route)).await;
    if let Some(error) = response.extensions_mut().remove::<Error>() {
        // An error has no body yet, but may have headers.
        let mut kept = std::mem::take(response.headers_mut());
        kept.remove(header::CONTENT_LENGTH);
        metrics::refusal(error.code());
        if error.code().http_status() >= 500 {
            trace.log_failure(&error);
        }
        response = problem(&error, &trace.request_id);
        response.headers_mut().extend(kept);
    }
    // A streamed body is charged as it is produced.
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    share::spend(usize::try_from(bytes / ANSWER_BYTES_A_UNIT).unwrap_or_default()).await;
    let elapsed = started.elapsed();
    let headers = response.headers_mut();
    headers.extend(trace.header().map(|value| (REQUEST_ID, value)));
    if let Ok(value) = HeaderValue::from_str(&format!("app;dur={:.3}", elapsed.as_secs_f64() * 1_000.0)) {
        headers.insert(SERVER_TIMING, value);
    }
    in_flight.answered(response.status(), elapsed);
    trace.log_answer(&method, route, response.status(), elapsed);
    response
}

/// Refuses long URIs, foreign hosts and cross-site changes, and enforces the deadline.
pub(super) async fn bound(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let front = &gate.front;
    if uri_bytes(request.uri()) > URI_MAX_BYTES {
        return Failure(Error::new(Code::UriTooLong, "an address has at most 8,192 bytes")).into_response();
    }
    if front.access.is_development() && !request.headers().get_all(header::HOST).iter().all(is_loopback) {
        let detail = "development mode answers to loopback names only, such as localhost or 127.0.0.1";
        return Failure(Error::new(Code::Forbidden, detail)).into_response();
    }
    if front.access.is_development() && cross_site::is_change(request.method(), request.headers(), &front.cors_origins)
    {
        let detail =
            "development mode takes no changes from pages of other sites; http.cors_origins lists those that may";
        return Failure(Error::new(Code::Forbidden, detail)).into_response();
    }
    let (deadline, is_safe) = (gate.policy.deadline, request.method().is_safe());
    timeout(deadline, next.run(request)).await.unwrap_or_else(|_| late(deadline, is_safe))
}

/// Whether `Host` names loopback. DNS rebinding must not reach a server without credentials.
fn is_loopback(host: &HeaderValue) -> bool {
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads the whole body first, so that the limit holds for every route.
pub(super) async fn collect_body(State(gate): State<Gate>, request: Request, next: Next) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let late = |_| Error::invalid(format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs()));
    let bytes = tokio::select! {
        biased;
        read = timeout(BODY_TIMEOUT, read(body, gate.policy.body_max_bytes)) => read.map_err(late)??,
        () = gate.front.shutdown.after_grace() => return Err(Error::unavailable("the server stops").into()),
    };
    share::spend(bytes.len() / BODY_BYTES_A_UNIT).await;
    Ok(next.run(Request::from_parts(parts, Body::from(bytes))).await)
}

async fn read(mut body: Body, max_bytes: usize) -> Result<Bytes, Error> {
    let started = Instant::now();
    let mut kept = BytesMut::new();
    loop {
        let paid_for = Duration::from_secs_f64(kept.len() as f64 / BODY_MIN_BYTES_PER_SECOND as f64);
        let frame = timeout_at((started + BODY_GRACE + paid_for).into(), body.frame()).await;
        let slow = || format!("the body came at less than {BODY_MIN_BYTES_PER_SECOND} bytes a second");
        let Some(frame) = frame.map_err(|_| Error::invalid(slow()))? else { break };
        let frame = frame.map_err(|_| Error::invalid("the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if kept.len() + data.len() > max_bytes {
            discard(body).await;
            return Err(Error::new(Code::PayloadTooLarge, format!("a body has at most {max_bytes} bytes here")));
        }
        kept.extend_from_slice(&data);
    }
    Ok(kept.freeze())
}

/// Drains a body for a while; the response is the same either way.
pub(super) async fn discard(body: Body) {
    let _ = timeout(DRAIN_TIMEOUT, drain(body)).await;
}

/// A client that is cut off while it sends would see a broken connection instead of the response.
async fn drain(mut body: Body) {
    let mut dropped = 0;
    while let Some(Ok(frame)) = body.frame().await {
        dropped += frame.data_ref().map_or(0, Bytes::len);
        if dropped > DRAINED_MAX_BYTES {
            return;
        }
    }
}

pub(super) fn answer_panic(_: Box<dyn Any + Send + 'static>) -> Response {
    Failure(Error::internal("a panic ended the request")).into_response()
}

fn late(deadline: Duration, is_safe: bool) -> Response {
    let unclear = if is_safe { "" } else { "; the write may or may not have happened" };
    let detail = format!("no answer within {} seconds{unclear}", deadline.as_secs());
    Failure(Error::new(Code::Overloaded, detail)).into_response()
}

fn uri_bytes(uri: &Uri) -> usize {
    uri.path().len() + uri.query().map_or(0, |query| query.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_answered() {
        let cases = [
            ("localhost", true),
            ("LocalHost:7070", true),
            ("127.0.0.1:7070", true),
            ("127.8.9.10", true),
            ("[::1]:7070", true),
            ("evil.example", false),
            ("evil.example:7070", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:7070", false),
            ("[2001:db8::1]", false),
            ("", false),
        ];
        for (host, local) in cases {
            assert_eq!(is_loopback(&HeaderValue::from_static(host)), local, "{host:?}");
        }
    }
}
