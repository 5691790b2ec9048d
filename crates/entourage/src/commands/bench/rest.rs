//! Requests over HTTP. Heads are parsed by `httparse`; bodies are not interpreted.

use std::sync::Arc;

use anyhow::{Context, bail};
use entourage_model::Error;
use rustls::{ClientConfig, pki_types::ServerName};
use ureq::http::Uri;

use super::{draw::Question, wire::Answer};
use crate::commands::client::{Access, is_https, part};

const HEADERS_MAX: usize = 64;

pub(super) struct Rest {
    address: String,
    tls: Option<(ServerName<'static>, Arc<ClientConfig>)>,
    /// Headers that every request has, with the end of the head.
    headers: String,
}

impl Rest {
    pub(super) fn new(server: &str, access: &Access) -> anyhow::Result<Self> {
        let wrong = || Error::invalid(format!("{server} is no address such as http://127.0.0.1:7070"));
        let uri: Uri = server.parse().map_err(|_| wrong())?;
        let (Some("http" | "https"), Some(host), Some(authority)) = (uri.scheme_str(), uri.host(), uri.authority())
        else {
            bail!(wrong());
        };
        let port = uri.port_u16().unwrap_or(if is_https(server) { 443 } else { 80 });
        let tls = if is_https(server) {
            // IPv6 addresses are in brackets.
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some((ServerName::try_from(name).map_err(|_| wrong())?, access.authorities.for_rustls()?))
        } else {
            None
        };
        let authorization = access.key()?.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let headers = format!(" HTTP/1.1\r\nhost: {authority}\r\n{authorization}content-length: 0\r\n\r\n");
        Ok(Self { address: format!("{host}:{port}"), tls, headers })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) const fn tls(&self) -> Option<&(ServerName<'static>, Arc<ClientConfig>)> {
        self.tls.as_ref()
    }

    pub(super) fn write(&self, question: &Question<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let start = match question {
            Question::Check { follower, target } => {
                format!("GET /api/v1/users/{}/is-following/{}", part(follower), part(target))
            }
            Question::Follow { follower, target } => {
                format!("PUT /api/v1/users/{}/following/{}", part(follower), part(target))
            }
            Question::Unfollow { follower, target } => {
                format!("DELETE /api/v1/users/{}/following/{}", part(follower), part(target))
            }
            Question::Followers(user) => format!("GET /api/v1/users/{}/followers?limit=50", part(user)),
            Question::Following(user) => format!("GET /api/v1/users/{}/following?limit=50", part(user)),
            Question::Feed(user) => format!("GET /api/v1/users/{}/feed?limit=20", part(user)),
            Question::Suggestions(user) => format!("GET /api/v1/users/{}/suggestions?limit=20", part(user)),
            Question::Counts(user) => format!("GET /api/v1/users/{}", part(user)),
            Question::Command(_) => bail!("a command is asked over RESP: say --resp"),
        };
        out.extend_from_slice(start.as_bytes());
        out.extend_from_slice(self.headers.as_bytes());
        Ok(())
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path}{}", self.headers).into_bytes()
    }
}

/// The first response in these bytes, if complete.
pub(super) fn read(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let Some((head, body)) = head(bytes)? else { return Ok(None) };
    if bytes.len() < head.bytes + body {
        return Ok(None);
    }
    Ok(Some(Answer { bytes: head.bytes + body, error: head.error }))
}

/// The head, with its own length, and the length of the body.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(Answer, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes).context("the answer is not HTTP")? else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let named = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body = match named {
        Some(header) => std::str::from_utf8(header.value)?.trim().parse().context("a length that is no number")?,
        None => bail!("an answer without its length cannot be measured"),
    };
    let error = (status >= 400).then(|| status.to_string());
    Ok(Some((Answer { bytes: length, error }, body)))
}

/// The body of a complete response.
pub(super) fn body(bytes: &[u8]) -> &[u8] {
    let end = head(bytes).ok().flatten().map_or(bytes.len(), |(head, _)| head.bytes);
    bytes.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        let bytes = b"HTTP/1.1 429 Too Many\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK";
        for end in 0..45 {
            assert!(read(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        let answer = read(bytes).unwrap().unwrap();
        assert_eq!((answer.bytes, answer.error.as_deref()), (46, Some("429")));
        assert_eq!(body(&bytes[..46]), b"{}");
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err() && read(b"+OK\r\n").is_err());
    }
}
