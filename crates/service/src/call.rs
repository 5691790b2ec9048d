//! What comes with every request besides its subject: who asks, what it must not be older than, whether it is a retry.

use entourage_model::{Code, Error, Result, UserId};

const RETRY_KEY_MAX_CHARS: usize = 255;

/// On whose behalf a request is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Actor {
    /// Nobody in particular: sees everything, may change everything.
    #[default]
    Service,
    User(UserId),
}

impl Actor {
    /// The acting user, where a request makes no sense without one.
    pub fn user(&self) -> Result<&UserId> {
        match self {
            Self::User(id) => Ok(id),
            Self::Service => Err(Error::invalid("name the acting user with the header Entourage-Actor")),
        }
    }

    /// A user changes only what is their own.
    pub(crate) fn may_change(&self, owner: &UserId) -> Result<()> {
        match self {
            Self::Service => Ok(()),
            Self::User(id) if id == owner => Ok(()),
            Self::User(_) => {
                Err(Error::new(Code::Forbidden, "the acting user is not the user whose things this changes"))
            }
        }
    }

    pub(crate) fn must_be_service(&self) -> Result<()> {
        match self {
            Self::Service => Ok(()),
            Self::User(_) => Err(Error::new(Code::Forbidden, "only a service may ask for this, not a user")),
        }
    }
}

/// What makes two requests the same one sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    key: String,
    method: String,
    path: String,
    body: Vec<u8>,
}

impl Retry {
    pub fn new(key: &str, method: &str, path: &str, body: &[u8]) -> Result<Self> {
        if key.is_empty() || key.chars().count() > RETRY_KEY_MAX_CHARS {
            return Err(Error::invalid("an Idempotency-Key has 1 to 255 characters"));
        }
        Ok(Self { key: key.to_owned(), method: method.to_owned(), path: path.to_owned(), body: body.to_vec() })
    }

    pub(crate) fn scope<'a>(&'a self, actor: &'a Actor) -> [&'a [u8]; 5] {
        let (class, id) = match actor {
            Actor::Service => ("service", ""),
            Actor::User(id) => ("user", id.as_str()),
        };
        [class, id, &self.method, &self.path, &self.key].map(str::as_bytes)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// The frame of one request.
#[derive(Clone, Debug, Default)]
pub struct Call {
    pub actor: Actor,
    /// A token some write returned: a read must not be older.
    pub token: Option<String>,
    pub retry: Option<Retry>,
}

impl Call {
    pub(crate) fn may_change(&self, owner: &UserId) -> Result<()> {
        self.actor.may_change(owner)
    }

    pub(crate) fn must_be_service(&self) -> Result<()> {
        self.actor.must_be_service()
    }
}
