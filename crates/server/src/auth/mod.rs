//! Authentication: a bearer token, a service key or a ticket becomes a caller. Without configured credentials every
//! caller is trusted, and the server listens on loopback only.

mod challenge;
mod jwt;
mod keys;
mod ticket;

use std::sync::Arc;

use entourage_model::{Clock, Code, Error, Millis, Result, UserId};
use entourage_service::{Actor, Caller, Credential};
use entourage_store::SystemUptime;

pub(crate) use self::ticket::Ticket;
use self::{challenge::Challenges, jwt::Tokens, keys::Keys, ticket::Tickets};
pub use self::{
    jwt::JwtSettings,
    keys::{ServiceKey, parse_keys},
};
use crate::config::{AuthSettings, ConfigError};
pub use crate::file_watcher::digest;

/// The credentials of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presented<'a> {
    pub(crate) authorization: Option<&'a str>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) ticket: Option<&'a str>,
}

/// What must still hold for a caller to stay authenticated. Streams end when it no longer does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    key: Option<ServiceKey>,
    expires: Option<Millis>,
}

/// A caller, and how long the credential is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    pub(crate) validity: Validity,
}

pub struct Access {
    tokens: Option<Tokens>,
    keys: Option<Keys>,
    challenges: Option<Challenges>,
    tickets: Tickets,
    clock: Arc<dyn Clock>,
}

impl Access {
    /// Development mode if settings name no credentials.
    pub fn open(settings: &AuthSettings, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Ok(Self {
            tokens: settings.jwt.as_ref().map(Tokens::open).transpose()?,
            keys: Keys::open(settings)?,
            challenges: settings.challenge_key_file.as_deref().map(Challenges::open).transpose()?,
            tickets: tickets(),
            clock,
        })
    }

    pub fn development(clock: Arc<dyn Clock>) -> Self {
        Self { tokens: None, keys: None, challenges: None, tickets: tickets(), clock }
    }

    pub fn is_development(&self) -> bool {
        self.tokens.is_none() && self.keys.is_none()
    }

    /// Reads every file again.
    pub fn reload(&self) {
        let (tokens, keys) = (self.tokens.as_ref(), self.keys.as_ref());
        tokens.inspect(|tokens| tokens.reload());
        keys.inspect(|keys| keys.reload());
        self.challenges.as_ref().inspect(|challenges| challenges.reload());
    }

    /// Settings whose files cannot be reloaded, so that their previous content is in use.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.keys.as_ref().and_then(Keys::stale);
        let tokens = self.tokens.as_ref().and_then(Tokens::stale);
        let challenges = self.challenges.as_ref().and_then(Challenges::stale);
        [keys, tokens, challenges].into_iter().flatten()
    }

    /// The [`digest`] of the service keys in use.
    pub(crate) fn key_file_digest(&self) -> Option<String> {
        self.keys.as_ref()?.digest()
    }

    pub(crate) fn caller(&self, shown: Presented<'_>) -> Result<Authenticated> {
        if let (None, Some(ticket)) = (shown.authorization, shown.ticket) {
            let known = self.tickets.redeem(ticket).filter(|known| self.is_valid(&known.validity));
            return known.ok_or_else(|| refused("the ticket is not valid"));
        }
        if self.is_development() {
            let actor = named(shown.actor)?;
            let caller = Caller { admin: actor == Actor::Service, actor, credential: Credential::Development };
            return Ok(Authenticated { caller, validity: Validity::default() });
        }
        let Some(authorization) = shown.authorization else {
            return Err(refused("send the header Authorization: Bearer with a token or a service key"));
        };
        let bearer = bearer(authorization).ok_or_else(|| refused("the header Authorization has no bearer token"))?;
        if bearer.starts_with(keys::PREFIX) {
            self.service(bearer, shown.actor)
        } else {
            self.user(bearer, shown.actor)
        }
    }

    /// Whether a credential that was accepted still is.
    pub(crate) fn is_valid(&self, validity: &Validity) -> bool {
        let has_key = validity.key.as_ref().is_none_or(|key| self.knows(key));
        has_key && validity.expires.is_none_or(|expires| self.clock.now() < expires)
    }

    /// The service key with this text.
    pub(crate) fn service_key(&self, text: &str) -> Option<ServiceKey> {
        self.keys.as_ref()?.find(text)
    }

    /// Whether a key is still valid.
    pub(crate) fn knows(&self, key: &ServiceKey) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.hold(key))
    }

    fn service(&self, key: &str, actor: Option<&str>) -> Result<Authenticated> {
        let key = self.service_key(key).ok_or_else(|| refused("the service key is not valid"))?;
        let actor = named(actor)?;
        // A service that acts for a user has that user's rights only.
        let admin = key.admin && actor == Actor::Service;
        let caller = Caller { actor, admin, credential: Credential::ServiceKey(key.name.as_str().into()) };
        Ok(Authenticated { caller, validity: Validity { key: Some(key), expires: None } })
    }

    fn user(&self, token: &str, actor: Option<&str>) -> Result<Authenticated> {
        let invalid = |why: &str| refused(format!("the token is not valid: {why}"));
        let tokens = self.tokens.as_ref().ok_or_else(|| refused("the service key is not valid"))?;
        let bearer = tokens.verify(token, self.clock.now()).map_err(invalid)?;
        if actor.is_some_and(|actor| actor != bearer.user.as_str()) {
            let detail = "the header Entourage-Actor names another user than the token; only a service may do that";
            return Err(Error::new(Code::Forbidden, detail));
        }
        let caller = Caller { actor: Actor::User(bearer.user), admin: bearer.admin, credential: Credential::User };
        Ok(Authenticated { caller, validity: Validity { key: None, expires: Some(bearer.expires) } })
    }

    /// A single-use ticket, valid for a minute, for clients that cannot send a header.
    pub(crate) fn ticket(&self, known: Authenticated) -> Result<Ticket> {
        self.tickets.issue(known, self.clock.now())
    }

    /// Who solved a challenge, if the proof is valid.
    pub(crate) fn solver(&self, proof: &str) -> Option<UserId> {
        self.challenges.as_ref()?.solver(proof, self.clock.now())
    }
}

fn tickets() -> Tickets {
    Tickets::new(Arc::new(SystemUptime::start()))
}

fn named(actor: Option<&str>) -> Result<Actor> {
    actor.map_or(Ok(Actor::Service), |id| Ok(Actor::User(UserId::try_from(id)?)))
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ')).then_some(token)
}

fn refused(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Code::Unauthenticated, detail)
}
