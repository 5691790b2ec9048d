//! Responses: JSON with its headers, and problems as in RFC 9457.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use entourage_model::{Code, Error, FieldError};
use entourage_service::Receipt;
use schemars::JsonSchema;
use serde::Serialize;

pub(super) const TOKEN: HeaderName = HeaderName::from_static("entourage-token");
pub(super) const AGE: HeaderName = HeaderName::from_static("entourage-age");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub(super) type Answer = Result<Response, Failure>;

/// An error that becomes a problem where the request id is known.
pub(super) struct Failure(pub(super) Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Room for a body before its length is known: most fit, longer ones grow.
const BODY_BYTES: usize = 2 << 10;

pub(super) fn json(status: StatusCode, body: impl Serialize) -> Answer {
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    let failed = |error| Error::new(Code::Internal, "an answer cannot be written as JSON").caused_by(error);
    serde_json::to_writer(&mut bytes, &body).map_err(failed)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// An answer from memory, while the store is away, says how old it is.
pub(super) fn aged(answer: Answer, age: Option<Duration>) -> Answer {
    let mut response = answer?;
    response.headers_mut().extend(age.map(|age| (AGE, HeaderValue::from(age.as_secs()))));
    Ok(response)
}

/// The response to a write carries its token.
pub(super) fn written(status: StatusCode, body: impl Serialize, receipt: &Receipt) -> Answer {
    let mut headers = HeaderMap::new();
    if let Ok(token) = HeaderValue::from_str(&receipt.token) {
        headers.insert(TOKEN, token);
    }
    if receipt.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok((status, headers, Json(body)).into_response())
}

/// An error, as RFC 9457 says it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Problem<'a> {
    /// Where the code is explained.
    r#type: String,
    title: &'static str,
    status: u16,
    /// What was wrong this time.
    detail: &'a str,
    /// Of a closed table; the same cause always has the same one.
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(with = "Vec<FieldErrorJson>")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// With `events_expired`: where to go on.
    resume_cursor: Option<&'a str>,
}

/// The model's `FieldError`, described.
#[derive(JsonSchema)]
#[schemars(rename = "FieldError")]
#[allow(dead_code, reason = "described, never made")]
struct FieldErrorJson {
    /// A JSON pointer into the body, or the name of a query parameter after a slash.
    pointer: String,
    detail: String,
}

pub(super) fn problem(error: &Error, request_id: &str) -> Response {
    let code = error.code();
    let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let problem = Problem {
        r#type: code.docs_anchor(),
        title: code.title(),
        status: status.as_u16(),
        // Internal details go to the log, not to clients.
        detail: if code == Code::Internal { "the log has more under this request_id" } else { error.detail() },
        code: code.as_str(),
        request_id,
        errors: error.fields(),
        resume_cursor: error.resume(),
    };
    let mut response = (status, Json(problem)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if code == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"entourage\""));
    }
    headers.extend(retry_seconds(error).map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
    response
}

/// The retry delay in seconds, rounded up.
pub(super) fn retry_seconds(error: &Error) -> Option<u64> {
    let seconds = error.retry_delay()?.as_millis().div_ceil(1_000).max(1);
    Some(u64::try_from(seconds).unwrap_or(u64::MAX))
}
