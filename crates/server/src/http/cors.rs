//! CORS: which origins may call, and which headers they may read. None unless listed.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

use super::{openapi, trace::REQUEST_ID};

/// How long browsers may cache a preflight; none caches it longer.
const REMEMBERED: Duration = Duration::from_secs(2 * 60 * 60);
/// Headers a page may send besides those in the API document.
const ALSO_SENT: [HeaderName; 5] =
    [header::AUTHORIZATION, header::CONTENT_TYPE, header::ACCEPT, REQUEST_ID, HeaderName::from_static("last-event-id")];

/// `None` if no origin is listed: browsers then keep other sites from reading responses. There are no cookies, so
/// `Access-Control-Allow-Credentials` is never sent.
pub(super) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<_> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    if origins.is_empty() {
        return None;
    }
    let (sent, answered) = openapi::header_names();
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::PATCH, Method::DELETE];
    Some(
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(methods)
            .allow_headers(sent.into_iter().chain(ALSO_SENT).collect::<Vec<_>>())
            .expose_headers(answered)
            .max_age(REMEMBERED),
    )
}
