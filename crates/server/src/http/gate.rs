//! Between a request and its handler: who asks, how often they have asked, and a line in the audit log where it matters.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use entourage_model::{Code, Error, Result};
use entourage_service::{Actor, Caller, Credential, QuotaStatus, Service};

use super::{
    answer::Failure,
    asked::{ACTOR, AUTHORIZATION, text},
    receive::discard,
};
use crate::{
    audit::Record,
    auth::{Known, Shown},
    front::{Front, is_this_machine},
};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A connection beyond those that everybody may have: for probes and admins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved;

/// The id of a request, as its answer will have it.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

/// What is open to everybody, as the document says it. Everything else that has a route needs a caller.
const OPEN: &[&str] = &["/healthz", "/readyz", "/version", "/openapi.json", "/docs"];
const METRICS: &str = "/metrics";
const ADMIN: &str = "/api/v1/admin/";
const STREAM: &str = "/stream";

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

#[derive(Clone)]
pub(super) struct Gate {
    pub(super) front: Arc<Front>,
    pub(super) service: Arc<Service>,
}

pub(super) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else { return next.run(request).await };
    let route = route.as_str();
    let is_local = request.extensions().get::<Peer>().is_some_and(|Peer(address)| is_this_machine(address.ip()));
    if OPEN.contains(&route) || (route == METRICS && is_local) {
        return next.run(request).await;
    }
    let Known { caller, pass } = match gate.caller(&mut request, route) {
        Ok(known) => known,
        Err(error) => {
            let address = request.extensions().get::<Peer>().map(|Peer(address)| address.ip());
            if let Some(left_out) = gate.front.audit.strangers.write_down(address, Instant::now()) {
                let mut entry = Entry::new("authenticate", None, &gate.front, &request);
                entry.left_out = left_out;
                entry.close(error.code().as_str()).await;
            }
            return refuse(error, request).await;
        }
    };
    let mut entry =
        audited(request.method(), route).map(|action| Entry::new(action, Some(caller.clone()), &gate.front, &request));
    let is_admins = caller.admin && entry.as_ref().is_some_and(|entry| entry.action == "admin");
    if let Some(entry) = entry.as_mut().filter(|_| is_admins && changes(request.method()))
        && !entry.write("begun").await
    {
        entry.close(Code::Unavailable.as_str()).await;
        return refuse(not_audited(), request).await;
    }
    let mut response = match gate.service.count_request(&caller) {
        Err(error) => refuse(error, request).await,
        Ok(()) if route == METRICS && !caller.admin => {
            refuse(Error::new(Code::Forbidden, "metrics need the scope admin"), request).await
        }
        Ok(()) if request.extensions().get::<Reserved>().is_some() && !caller.admin => {
            let detail = "too many connections are open; this one is for probes and admins";
            refuse(Error::new(Code::Overloaded, detail), request).await
        }
        Ok(()) => {
            request.extensions_mut().insert(Known { caller: caller.clone(), pass });
            next.run(request).await
        }
    };
    if let Some(entry) = &mut entry {
        let result = match response.extensions().get::<Error>() {
            Some(error) => error.code().as_str().to_owned(),
            None => response.status().as_str().to_owned(),
        };
        // What an admin only looked at is not shown; what was changed was written down before.
        if !entry.close(&result).await && is_admins && !changes(&entry.method) {
            response = Failure(not_audited()).into_response();
        }
    }
    show_quotas(&mut response, &gate.service.quotas(&caller).await);
    response
}

/// A body that nobody reads would end the connection, and the client's next request with it.
async fn refuse(error: Error, request: Request) -> Response {
    discard(request.into_body()).await;
    Failure(error).into_response()
}

impl Gate {
    /// A ticket is good for streams, which browsers open without headers; nobody behind this sees it.
    fn caller(&self, request: &mut Request, route: &str) -> Result<Known> {
        let mut ticket = None;
        if route.ends_with(STREAM) && request.method() == Method::GET {
            let (rest, found) = without_ticket(request.uri());
            (*request.uri_mut(), ticket) = (rest, found);
        }
        let headers = request.headers();
        let unclear = |error: Error| Error::new(Code::Unauthenticated, error.detail().to_owned());
        self.front.access.caller(Shown {
            authorization: text(headers, &AUTHORIZATION).map_err(unclear)?,
            actor: text(headers, &ACTOR)?,
            ticket: ticket.as_deref(),
        })
    }
}

fn without_ticket(uri: &Uri) -> (Uri, Option<String>) {
    let Some(query) = uri.query() else { return (uri.clone(), None) };
    let mut ticket = None;
    let mut rest = Vec::new();
    for pair in query.split('&') {
        match pair.strip_prefix("ticket=") {
            Some(text) => ticket = Some(text.to_owned()),
            None => rest.push(pair),
        }
    }
    let (path, rest) = (uri.path(), rest.join("&"));
    let shorter = if rest.is_empty() { path.to_owned() } else { format!("{path}?{rest}") };
    (shorter.parse().unwrap_or_else(|_| uri.clone()), ticket)
}

/// What is written down, and under which name.
fn audited(method: &Method, route: &str) -> Option<&'static str> {
    match *method {
        _ if route.starts_with(ADMIN) => Some("admin"),
        Method::PUT if route.contains("/blocks/{") => Some("block"),
        Method::DELETE if route.contains("/blocks/{") => Some("unblock"),
        _ => None,
    }
}

/// Whether a request of this method may change something.
fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

fn not_audited() -> Error {
    Error::unavailable("the audit log cannot be written, so nothing is done for admins")
}

/// A record in the making. If its request is given up on, what came of it is unknown, and that is written.
struct Entry<'a> {
    front: &'a Front,
    action: &'static str,
    caller: Option<Caller>,
    method: Method,
    path: String,
    request_id: Arc<str>,
    source: String,
    left_out: u64,
    open: bool,
}

impl<'a> Entry<'a> {
    fn new(action: &'static str, caller: Option<Caller>, front: &'a Front, request: &Request) -> Self {
        let extensions = request.extensions();
        Self {
            front,
            action,
            caller,
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            request_id: extensions.get::<RequestId>().map(|id| Arc::clone(&id.0)).unwrap_or_default(),
            source: extensions.get::<Peer>().map(|Peer(address)| address.to_string()).unwrap_or_default(),
            left_out: 0,
            open: true,
        }
    }

    /// The last record of the request; whether it is written.
    async fn close(&mut self, result: &str) -> bool {
        self.open = false;
        self.write(result).await
    }

    async fn write(&self, result: &str) -> bool {
        self.front.audit.write(&self.record(result)).await
    }

    fn record<'b>(&'b self, result: &'b str) -> Record<'b> {
        let (actor, credential, key) = match &self.caller {
            None => (None, "none", None),
            Some(caller) => {
                let actor = match &caller.actor {
                    Actor::User(id) => Some(id.as_str()),
                    Actor::Service => None,
                };
                match &caller.credential {
                    Credential::Development => (actor, "development", None),
                    Credential::ServiceKey(name) => (actor, "service_key", Some(&**name)),
                    Credential::User => (actor, "user", None),
                }
            }
        };
        Record {
            time: self.front.clock.now().to_rfc3339(),
            action: self.action,
            actor,
            credential,
            key,
            method: self.method.as_str(),
            target: &self.path,
            result,
            request_id: &self.request_id,
            source: &self.source,
            left_out: self.left_out,
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if self.open {
            self.front.audit.note(&self.record("unknown"));
        }
    }
}

/// As the IETF's draft on RateLimit fields says it, and as clients knew it before.
fn show_quotas(response: &mut Response, quotas: &[QuotaStatus]) {
    let Some(first) = quotas.first() else { return };
    let seconds = |time: std::time::Duration| time.as_millis().div_ceil(1_000);
    let list = |item: &dyn Fn(&QuotaStatus) -> String| quotas.iter().map(item).collect::<Vec<_>>().join(", ");
    let fields = [
        (RATE_LIMIT_POLICY, list(&|s| format!("\"{}\";q={};w={}", s.name, s.limit, seconds(s.window)))),
        (RATE_LIMIT, list(&|s| format!("\"{}\";r={};t={}", s.name, s.remaining, seconds(s.reset)))),
        (LIMIT, first.limit.to_string()),
        (REMAINING, first.remaining.to_string()),
        (RESET, seconds(first.reset).to_string()),
    ];
    let headers = response.headers_mut();
    for (name, text) in fields {
        headers.extend(HeaderValue::from_str(&text).ok().map(|value| (name, value)));
    }
}

#[cfg(test)]
mod tests;
