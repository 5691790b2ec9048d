//! A request in the logs: its id, its trace context, and one line when it is answered.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use entourage_model::Error;
use tracing::Span;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The log target of access lines.
const ACCESS: &str = "entourage::access";
const REQUEST_ID_MAX_BYTES: usize = 128;

/// Ties the log lines of one request together. Without path and query: ids are personal data, and a query may hold a
/// ticket.
pub(super) struct Trace {
    pub(super) request_id: Arc<str>,
    parent: Option<Parent>,
}

/// The caller's `traceparent` (W3C Trace Context).
#[derive(Debug, PartialEq)]
struct Parent {
    trace_id: String,
    span_id: String,
}

impl Trace {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let parent = headers.get(TRACEPARENT).and_then(|value| Parent::parse(value.to_str().ok()?));
        Self { request_id: request_id(headers).into(), parent }
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.request_id).ok()
    }

    /// A span around the request. Free unless `debug` is on: important lines name the request themselves.
    pub(super) fn span(&self, method: &Method, route: &str) -> Span {
        let (trace_id, parent_id) = self.ids();
        tracing::debug_span!("request", request_id = &*self.request_id, trace_id, parent_id, %method, route)
    }

    pub(super) fn log_answer(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        let (trace_id, parent_id) = self.ids();
        let ms = (elapsed.as_secs_f64() * 1_000_000.0).round() / 1_000.0;
        let (request_id, status) = (&*self.request_id, status.as_u16());
        tracing::info!(target: ACCESS, %method, route, status, ms, request_id, trace_id, parent_id, "answered");
    }

    /// A server error with its cause.
    pub(super) fn log_failure(&self, error: &Error) {
        let (trace_id, parent_id) = self.ids();
        let source = std::error::Error::source(error).map(ToString::to_string);
        let (request_id, code) = (&*self.request_id, error.code().as_str());
        tracing::error!(request_id, trace_id, parent_id, code, source, "{}", error.detail());
    }

    fn ids(&self) -> (Option<&str>, Option<&str>) {
        self.parent.as_ref().map(|parent| (parent.trace_id.as_str(), parent.span_id.as_str())).unzip()
    }
}

impl Parent {
    /// Later versions may append fields; `ff` is invalid.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let (version, trace_id, span_id, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let is_id = |text: &str, digits: usize| is_hex(text, digits) && text.bytes().any(|byte| byte != b'0');
        let valid = is_hex(version, 2)
            && version != "ff"
            && (version != "00" || fields.next().is_none())
            && is_id(trace_id, 32)
            && is_id(span_id, 16)
            && is_hex(flags, 2);
        valid.then(|| Self { trace_id: trace_id.to_owned(), span_id: span_id.to_owned() })
    }
}

/// The client's id if it is safe for logs, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sane = |text: &&str| {
        (1..=REQUEST_ID_MAX_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
    given.map_or_else(|| format!("{:032x}", rand::random::<u128>()), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_whole_or_not_at_all() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let cases = [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), true),
            (format!("01-{trace}-{span}-01-more"), true),
            (format!("00-{trace}-{span}-01-more"), false),
            (format!("ff-{trace}-{span}-01"), false),
            (format!("00-{}-{span}-01", trace.to_uppercase()), false),
            (format!("00-{}-{span}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{trace}-{span}"), false),
            (format!("00-{trace}-{span}-1"), false),
            (format!("00-{trace}0-{span}-01"), false),
            (String::new(), false),
        ];
        for (text, valid) in cases {
            let parsed = Parent::parse(&text);
            assert_eq!(parsed.is_some(), valid, "{text}");
            assert!(parsed.is_none_or(|parent| parent.trace_id == trace && parent.span_id == span), "{text}");
        }
    }
}
