//! A request as a handler sees it: ids from the path, the caller's frame, query and body on demand.

use std::{net::IpAddr, sync::Arc};

use axum::{
    RequestExt,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{HeaderMap, HeaderName, Method, Uri, header, request::Parts},
};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{Actor, Call, Retry};
use serde::de::DeserializeOwned;

use super::{
    answer::{Failure, TOKEN},
    body, escapes,
    gate::Peer,
    lists::ListQuery,
};
use crate::{
    auth::{Known, Pass},
    front::Front,
    streams::{Seat, Streams},
};

pub(super) const AUTHORIZATION: HeaderName = header::AUTHORIZATION;
pub(super) const ACTOR: HeaderName = HeaderName::from_static("entourage-actor");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const CHALLENGE: HeaderName = HeaderName::from_static("entourage-challenge");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) uri: Uri,
    ids: Vec<UserId>,
    headers: HeaderMap,
    body: Bytes,
    address: Option<IpAddr>,
    pass: Pass,
    streams: Arc<Streams>,
}

impl<S: Send + Sync> FromRequest<S> for Asked {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let ids = path_ids(&mut parts, state).await?;
        let body = Bytes::from_request(Request::new(body), state)
            .await
            .map_err(|_| Error::invalid("the body could not be read"))?;
        // Only what the gate let in gets here.
        let (Some(known), Some(front)) = (parts.extensions.get::<Known>(), parts.extensions.get::<Arc<Front>>()) else {
            return Err(Error::internal("a request came in without a caller").into());
        };
        let call = call(&parts, known, front, &body)?;
        let address = parts.extensions.get::<Peer>().map(|Peer(address)| address.ip());
        let (pass, streams) = (known.pass.clone(), Arc::clone(&front.streams));
        Ok(Self { call, uri: parts.uri, ids, headers: parts.headers, body, address, pass, streams })
    }
}

impl Asked {
    /// The ids in the path, in their order.
    pub(super) fn ids<const N: usize>(&self) -> Result<&[UserId; N]> {
        self.ids.as_slice().try_into().map_err(|_| Error::internal("the route has another number of ids"))
    }

    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T> {
        body::parse(&self.headers, &self.body)
    }

    /// No body at all says the same as an empty object.
    pub(super) fn optional_body<T: DeserializeOwned + Default>(&self) -> Result<T> {
        if self.body.is_empty() { Ok(T::default()) } else { self.body() }
    }

    /// Whether the client names this media type among those it takes.
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let values = self.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = values.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
        types.any(|named| named.trim().eq_ignore_ascii_case(media_type))
    }

    /// A seat for a stream, if this user and this address may have one more.
    pub(super) fn seat(&self) -> Result<Seat> {
        let user = match &self.call.actor {
            Actor::User(user) => Some(user),
            Actor::Service => None,
        };
        Streams::enter(&self.streams, user, self.address, self.pass.clone())
    }

    /// For an answer that goes on for long.
    pub(super) fn long_seat(&self) -> Seat {
        Streams::watch(&self.streams, self.pass.clone())
    }

    /// What a client that connects again had received last.
    pub(super) fn last_event_id(&self) -> Result<Option<&str>> {
        Ok(text(&self.headers, &LAST_EVENT_ID)?.filter(|id| !id.is_empty()))
    }

    /// Ids and query of a list.
    pub(super) fn list<const N: usize>(&self) -> Result<(&[UserId; N], ListQuery)> {
        Ok((self.ids()?, self.query()?))
    }

    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T> {
        let mut pairs = self.uri.query().into_iter().flat_map(|query| query.split('&'));
        if let Some(pair) = pairs.find(|pair| !escapes::are_valid(pair)) {
            let name = pair.split('=').next().filter(|name| escapes::are_valid(name)).unwrap_or_default();
            return Err(invalid_query(name, "its escapes are not UTF-8 in percent-encoding"));
        }
        let Query(query) = Query::try_from_uri(&self.uri).map_err(|error| {
            let text = error.body_text();
            let detail = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            // With the parameter's name in front, where one was read.
            let (before, said) = detail.split_once(": ").unwrap_or(("", detail));
            let is_asked = |name: &&str| {
                let mut pairs = self.uri.query().into_iter().flat_map(|query| query.split('&'));
                pairs.any(|pair| pair.split('=').next() == Some(*name))
            };
            let of_value = Some(before).filter(is_asked);
            match body::named_field(detail).or_else(|| body::named_field(said)).or(of_value) {
                Some(name) => invalid_query(name, detail),
                None => Error::invalid(format!("the query is not valid: {detail}")),
            }
        })?;
        Ok(query)
    }
}

fn invalid_query(name: &str, detail: &str) -> Error {
    Error::invalid("the query is not valid").at(format!("/{}", body::escape(name)), detail)
}

async fn path_ids<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Vec<UserId>> {
    check_escapes(&parts.uri)?;
    let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| undecodable())?;
    params.iter().map(|(_, text)| UserId::try_from(text)).collect()
}

/// The id that one parameter of the path holds.
pub(super) async fn path_id(request: &mut Request, name: &str) -> Result<UserId> {
    check_escapes(request.uri())?;
    let params: RawPathParams = request.extract_parts().await.map_err(|_| undecodable())?;
    let (_, text) = params
        .iter()
        .find(|(parameter, _)| *parameter == name)
        .ok_or_else(|| Error::internal(format!("the route has no parameter {name}")))?;
    UserId::try_from(text)
}

fn check_escapes(uri: &Uri) -> Result<()> {
    if escapes::are_valid(uri.path()) { Ok(()) } else { Err(undecodable()) }
}

fn undecodable() -> Error {
    Error::new(Code::InvalidId, "an id in the path is not UTF-8 in percent-encoding")
}

fn call(parts: &Parts, known: &Known, front: &Front, body: &Bytes) -> Result<Call> {
    let token = tokens(&parts.headers)?;
    let retry = match text(&parts.headers, &IDEMPOTENCY_KEY)? {
        Some(key) if !matches!(parts.method, Method::GET | Method::HEAD) => {
            Some(Retry::new(key, parts.method.as_str(), parts.uri.path(), body)?)
        }
        _ => None,
    };
    let proof = text(&parts.headers, &CHALLENGE)?;
    let challenge = proof.and_then(|proof| front.access.solver(proof));
    Ok(Call { token, retry, challenge, ..Call::from(known.caller.clone()) })
}

/// All tokens of a request, with commas between: they may come in one header or in several.
fn tokens(headers: &HeaderMap) -> Result<Option<String>> {
    let texts: std::result::Result<Vec<&str>, _> =
        headers.get_all(&TOKEN).iter().map(|value| std::str::from_utf8(value.as_bytes())).collect();
    let texts = texts.map_err(|_| Error::new(Code::InvalidToken, format!("the header {TOKEN} is not UTF-8")))?;
    Ok((!texts.is_empty()).then(|| texts.join(",")))
}

/// A header's text. Ids are UTF-8, so headers are read as such; one that stands twice says nothing certain.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::invalid(format!("the header {name} stands twice")));
    }
    std::str::from_utf8(first.as_bytes())
        .map(Some)
        .map_err(|_| Error::invalid(format!("the header {name} is not UTF-8")))
}
