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
}

/// How a caller was recognised. Two credentials never share an idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// Nothing is configured to recognise anybody by.
    #[default]
    Development,
    /// A service's key, by its name.
    ServiceKey(Box<str>),
    /// A user's own token.
    User,
}

impl Credential {
    fn scope(&self) -> [&str; 2] {
        match self {
            Self::Development => ["development", ""],
            Self::ServiceKey(name) => ["service key", name],
            Self::User => ["user", ""],
        }
    }
}

/// Who asks, as a front made it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// May use what is for operators, and change what is others'.
    pub admin: bool,
    pub credential: Credential,
}

impl Default for Caller {
    /// The process itself: nobody in particular, who may do everything.
    fn default() -> Self {
        Self { actor: Actor::Service, admin: true, credential: Credential::Development }
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

    pub(crate) fn scope<'a>(&'a self, call: &'a Call) -> [&'a [u8]; 7] {
        let [kind, name] = call.credential.scope();
        let (class, id) = match &call.actor {
            Actor::Service => ("service", ""),
            Actor::User(id) => ("user", id.as_str()),
        };
        [kind, name, class, id, &self.method, &self.path, &self.key].map(str::as_bytes)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// The frame of one request.
#[derive(Clone, Debug)]
pub struct Call {
    pub actor: Actor,
    pub admin: bool,
    pub credential: Credential,
    /// A token some write returned: a read must not be older.
    pub token: Option<String>,
    pub retry: Option<Retry>,
    /// Who has proved a solved challenge.
    pub challenge: Option<UserId>,
}

impl Default for Call {
    fn default() -> Self {
        Self::from(Caller::default())
    }
}

impl From<Caller> for Call {
    fn from(Caller { actor, admin, credential }: Caller) -> Self {
        Self { actor, admin, credential, token: None, retry: None, challenge: None }
    }
}

impl Call {
    /// A user changes only what is their own; services and admins change everybody's.
    pub fn may_change(&self, owner: &UserId) -> Result<()> {
        match &self.actor {
            Actor::Service => Ok(()),
            Actor::User(id) if id == owner || self.admin => Ok(()),
            Actor::User(_) => Err(forbidden("the acting user is not the user whose things this changes")),
        }
    }

    pub fn must_be_service(&self) -> Result<()> {
        match &self.actor {
            Actor::Service => Ok(()),
            Actor::User(_) if self.admin => Ok(()),
            Actor::User(_) => Err(forbidden("only a service may ask for this, not a user")),
        }
    }

    pub fn must_be_admin(&self) -> Result<()> {
        if self.admin { Ok(()) } else { Err(forbidden("this needs the scope admin")) }
    }
}

fn forbidden(detail: &'static str) -> Error {
    Error::new(Code::Forbidden, detail)
}
