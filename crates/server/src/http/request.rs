//! A request as handlers see it: ids from the path, the call context, query and body on demand.

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
    body,
    gate::Peer,
    lists::ListQuery,
    percent_encoding,
    response::{Failure, TOKEN},
};
use crate::{
    auth::{Authenticated, Validity},
    front::Front,
    streams::{StreamGuard, Streams},
};

pub(super) const AUTHORIZATION: HeaderName = header::AUTHORIZATION;
pub(super) const ACTOR: HeaderName = HeaderName::from_static("entourage-actor");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const CHALLENGE: HeaderName = HeaderName::from_static("entourage-challenge");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) struct ApiRequest {
    pub(super) call: Call,
    pub(super) uri: Uri,
    ids: Vec<UserId>,
    headers: HeaderMap,
    body: Bytes,
    address: Option<IpAddr>,
    validity: Validity,
    streams: Arc<Streams>,
}

impl<S: Send + Sync> FromRequest<S> for ApiRequest {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let ids = path_ids(&mut parts, state).await?;
        let body = Bytes::from_request(Request::new(body), state)
            .await
            .map_err(|_| Error::invalid("the body could not be read"))?;
        // The gate has put both there.
        let (Some(known), Some(front)) =
            (parts.extensions.get::<Authenticated>(), parts.extensions.get::<Arc<Front>>())
        else {
            return Err(Error::internal("a request came in without a caller").into());
        };
        let call = call(&parts, known, front, &body)?;
        let address = parts.extensions.get::<Peer>().map(|Peer(address)| address.ip());
        let (validity, streams) = (known.validity.clone(), Arc::clone(&front.streams));
        Ok(Self { call, uri: parts.uri, ids, headers: parts.headers, body, address, validity, streams })
    }
}

impl ApiRequest {
    /// The ids in the path, in order.
    pub(super) fn ids<const N: usize>(&self) -> Result<&[UserId; N]> {
        self.ids.as_slice().try_into().map_err(|_| Error::internal("the route has another number of ids"))
    }

    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T> {
        body::parse(&self.headers, &self.body)
    }

    /// No body is the same as an empty object.
    pub(super) fn optional_body<T: DeserializeOwned + Default>(&self) -> Result<T> {
        if self.body.is_empty() { Ok(T::default()) } else { self.body() }
    }

    /// Whether `Accept` names this media type.
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let values = self.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = values.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
        types.any(|named| named.trim().eq_ignore_ascii_case(media_type))
    }

    /// Registers a stream, if this user and this address may have one more.
    pub(super) fn stream(&self) -> Result<StreamGuard> {
        let user = match &self.call.actor {
            Actor::User(user) => Some(user),
            Actor::Service => None,
        };
        Streams::open(&self.streams, user, self.address, self.validity.clone())
    }

    /// Registers a long response that does not count as a stream.
    pub(super) fn uncounted_stream(&self) -> StreamGuard {
        Streams::watch(&self.streams, self.validity.clone())
    }

    /// The last event that a reconnecting client received.
    pub(super) fn last_event_id(&self) -> Result<Option<&str>> {
        Ok(text(&self.headers, &LAST_EVENT_ID)?.filter(|id| !id.is_empty()))
    }

    /// Ids and query of a list.
    pub(super) fn list<const N: usize>(&self) -> Result<(&[UserId; N], ListQuery)> {
        Ok((self.ids()?, self.query()?))
    }

    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T> {
        let mut pairs = self.uri.query().into_iter().flat_map(|query| query.split('&'));
        if let Some(pair) = pairs.find(|pair| !percent_encoding::is_valid(pair)) {
            let name = pair.split('=').next().filter(|name| percent_encoding::is_valid(name)).unwrap_or_default();
            return Err(invalid_query(name, "its escapes are not UTF-8 in percent-encoding"));
        }
        let Query(query) = Query::try_from_uri(&self.uri).map_err(|error| {
            let text = error.body_text();
            let detail = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            // Starts with the parameter's name, if one was read.
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

/// The id in one path parameter.
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
    if percent_encoding::is_valid(uri.path()) { Ok(()) } else { Err(undecodable()) }
}

fn undecodable() -> Error {
    Error::new(Code::InvalidId, "an id in the path is not UTF-8 in percent-encoding")
}

fn call(parts: &Parts, known: &Authenticated, front: &Front, body: &Bytes) -> Result<Call> {
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

/// All tokens of a request, comma-separated: they may come in one header or in several.
pub(super) fn tokens(headers: &HeaderMap) -> Result<Option<String>> {
    let texts: std::result::Result<Vec<&str>, _> =
        headers.get_all(&TOKEN).iter().map(|value| std::str::from_utf8(value.as_bytes())).collect();
    let texts = texts.map_err(|_| Error::new(Code::InvalidToken, format!("the header {TOKEN} is not UTF-8")))?;
    Ok((!texts.is_empty()).then(|| texts.join(",")))
}

/// A header's text. Ids are UTF-8, so headers are too; a repeated header is ambiguous and refused.
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
