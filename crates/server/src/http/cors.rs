//! Which pages of the web may call, and what of an answer they may read. None may unless it is listed.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

use super::{openapi, trace::REQUEST_ID};

/// How long a browser may remember what it was told; none keeps it for longer than this.
const REMEMBERED: Duration = Duration::from_secs(2 * 60 * 60);
/// What a page may send besides the headers of the API's own document.
const ALSO_SENT: [HeaderName; 5] =
    [header::AUTHORIZATION, header::CONTENT_TYPE, header::ACCEPT, REQUEST_ID, HeaderName::from_static("last-event-id")];

/// `None` where no origin is listed: then no answer says anything about origins, and browsers keep other sites' pages
/// from reading it. Cookies are never used, so `Access-Control-Allow-Credentials` is never sent.
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
