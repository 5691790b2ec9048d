//! Between a request and its handler: enforces the policy of the route. Who asks, whether they may, how often they have
//! asked, and a record in the audit log where the policy names an action.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use entourage_model::{Code, Error, Result};
use entourage_service::{Actor, Call, Caller, Credential, QuotaStatus, Service};

use super::{
    openapi::{Access, Policy},
    receive::discard,
    request::{ACTOR, AUTHORIZATION, path_id, text, tokens},
    response::{Failure, TOKEN},
};
use crate::{
    audit::Record,
    auth::{Authenticated, Presented},
    front::Front,
};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A connection beyond the limit: for probes and admins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved;

/// The request id, as the response will have it.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The gate of one route.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) policy: Policy,
    pub(super) front: Arc<Front>,
    pub(super) service: Arc<Service>,
}

pub(super) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let policy = gate.policy;
    let address = request.extensions().get::<Peer>().map(|Peer(address)| address.ip());
    if policy.access.is_open_to(address) {
        return next.run(request).await;
    }
    let Authenticated { caller, validity } = match gate.caller(&mut request) {
        Ok(known) => known,
        Err(error) => {
            if let Some(left_out) = gate.front.audit.throttle.admit(address, Instant::now()) {
                let mut entry = Entry::new("authenticate", None, &gate.front, &request);
                entry.left_out = left_out;
                entry.close(error.code().as_str()).await;
            }
            return refuse(error, request).await;
        }
    };
    let mut entry = policy.audit.map(|action| Entry::new(action, Some(caller.clone()), &gate.front, &request));
    let must_be_audited = caller.admin && policy.must_be_audited();
    if let Some(entry) = entry.as_mut().filter(|_| must_be_audited && !request.method().is_safe())
        && !entry.write("begun").await
    {
        entry.close(Code::Unavailable.as_str()).await;
        return refuse(not_audited(), request).await;
    }
    let may_pass = match gate.service.count_request(&caller) {
        Ok(()) => gate.check_access(&caller, &mut request).await,
        refused => refused,
    };
    let mut response = match may_pass {
        Err(error) => refuse(error, request).await,
        Ok(()) if request.extensions().get::<Reserved>().is_some() && !caller.admin => {
            let detail = "too many connections are open; this one is for probes and admins";
            refuse(Error::new(Code::Overloaded, detail), request).await
        }
        Ok(()) => {
            let token = tokens(request.headers()).ok().flatten();
            let call = Call { token, ..Call::from(caller.clone()) };
            let began = gate.service.begin_read(&call);
            request.extensions_mut().insert(Authenticated { caller: caller.clone(), validity });
            let response = next.run(request).await;
            // A write has its own token in the answer: it happened.
            match response.status().is_success() && !response.headers().contains_key(TOKEN) {
                true => gate.service.confirm_read(&call, began).await.map_or_else(stale, |()| response),
                false => response,
            }
        }
    };
    if let Some(entry) = &mut entry {
        let result = match response.extensions().get::<Error>() {
            Some(error) => error.code().as_str().to_owned(),
            None => response.status().as_str().to_owned(),
        };
        // An unaudited read is withheld; changes were audited before they were made.
        if !entry.close(&result).await && must_be_audited && entry.method.is_safe() {
            response = Failure(not_audited()).into_response();
        }
    }
    show_quotas(&mut response, &gate.service.quotas(&caller).await);
    response
}

fn stale(error: Error) -> Response {
    Failure(error).into_response()
}

/// Drains the body: an unread one would end the connection, and with it the client's next request.
async fn refuse(error: Error, request: Request) -> Response {
    discard(request.into_body()).await;
    Failure(error).into_response()
}

impl Gate {
    /// Takes the ticket out of the URI, so that nothing behind the gate sees it.
    fn caller(&self, request: &mut Request) -> Result<Authenticated> {
        let mut ticket = None;
        if self.policy.takes_ticket {
            let (rest, found) = without_ticket(request.uri());
            (*request.uri_mut(), ticket) = (rest, found);
        }
        let headers = request.headers();
        let unclear = |error: Error| Error::new(Code::Unauthenticated, error.detail().to_owned());
        self.front.access.caller(Presented {
            authorization: text(headers, &AUTHORIZATION).map_err(unclear)?,
            actor: text(headers, &ACTOR)?,
            ticket: ticket.as_deref(),
        })
    }

    async fn check_access(&self, caller: &Caller, request: &mut Request) -> Result<()> {
        let call = || Call::from(caller.clone());
        match self.policy.access {
            Access::Open | Access::Anyone => Ok(()),
            Access::Actor => caller.actor.user().map(drop),
            Access::Own(_) if caller.admin || caller.actor == Actor::Service => Ok(()),
            Access::Own(parameter) => call().may_change(&path_id(request, parameter).await?),
            Access::Service => call().must_be_service(),
            Access::Local | Access::Admin => call().must_be_admin(),
        }
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

fn not_audited() -> Error {
    Error::unavailable("the audit log cannot be written, so nothing is done for admins")
}

/// An open audit record. If the request is dropped, its result is recorded as unknown.
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

    /// Writes the final record; returns whether it is written.
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

/// As in the IETF draft on RateLimit fields, and in the older `X-RateLimit` form.
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
