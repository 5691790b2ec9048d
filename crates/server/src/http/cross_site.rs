//! Cross-site requests of browsers. Development mode asks for no credentials, so any page that a developer visits could
//! change data; such requests name their origin and are refused.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether this is a change sent by a page that is neither this server's nor of a listed origin. Clients other than
/// browsers send neither header.
pub(super) fn is_change(method: &Method, headers: &HeaderMap, listed: &[String]) -> bool {
    if method.is_safe() {
        return false;
    }
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    if !origins.is_empty() {
        let is_ours = |origin: &&HeaderValue| is_listed(origin, listed) || is_same(origin, headers.get(header::HOST));
        return !origins.iter().all(is_ours);
    }
    // `none` is a user's own navigation, such as a bookmark.
    !headers.get_all(FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none")
}

fn is_listed(origin: &HeaderValue, listed: &[String]) -> bool {
    listed.iter().any(|site| origin.as_bytes() == site.as_bytes())
}

/// Whether a page of this origin was served here.
fn is_same(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), host.map(HeaderValue::to_str)) else { return false };
    origin.split_once("://").is_some_and(|(scheme, place)| {
        matches!(scheme, "http" | "https") && !host.is_empty() && place.eq_ignore_ascii_case(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_from_here_and_listed_ones_change_anything() {
        let listed = ["http://localhost:5173".to_owned()];
        let is_foreign_change = |method: Method, pairs: &[(HeaderName, &'static str)]| {
            let mut headers: HeaderMap =
                pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
            headers.insert(header::HOST, HeaderValue::from_static("localhost:7070"));
            is_change(&method, &headers, &listed)
        };
        let origin = |value| (header::ORIGIN, value);
        let site = |value| (FETCH_SITE, value);
        for (pairs, is_foreign) in [
            (vec![], false),
            (vec![origin("http://localhost:7070")], false),
            (vec![origin("http://LOCALHOST:7070"), site("same-origin")], false),
            (vec![origin("http://localhost:5173"), site("same-site")], false),
            (vec![site("same-origin")], false),
            (vec![site("none")], false),
            (vec![origin("https://evil.example"), site("cross-site")], true),
            (vec![origin("https://evil.example")], true),
            (vec![origin("http://localhost:3000"), site("same-site")], true),
            (vec![origin("http://127.0.0.1:7070")], true),
            (vec![origin("null")], true),
            (vec![origin("")], true),
            (vec![origin("file://localhost:7070")], true),
            (vec![origin("http://localhost:7070.evil.example")], true),
            (vec![site("cross-site")], true),
            (vec![site("same-site")], true),
        ] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(is_foreign_change(method, &pairs), is_foreign, "{pairs:?}");
            }
            for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
                assert!(!is_foreign_change(method, &pairs), "{pairs:?}");
            }
        }
    }

    #[test]
    fn one_that_is_listed_does_not_cover_another() {
        let mut headers = HeaderMap::new();
        headers.append(header::ORIGIN, HeaderValue::from_static("http://localhost:5173"));
        headers.append(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(is_change(&Method::POST, &headers, &["http://localhost:5173".to_owned()]));
    }
}
