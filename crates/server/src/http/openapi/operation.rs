//! An operation: a method on a path, who answers it, and what the document says about it.

use std::sync::Arc;

use axum::{
    handler::Handler,
    http::{Method, StatusCode},
    routing::{MethodFilter, MethodRouter, on},
};
use entourage_model::Code;
use entourage_service::Service;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// What handlers are given besides the request.
pub(in crate::http) type App = Arc<Service>;

/// How a type says its schema.
pub(super) type Described = fn(&mut SchemaGenerator) -> Schema;

/// Who may ask. The service decides; the document says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Access {
    /// Without credentials.
    Open,
    /// Any credential; what it shows depends on the viewer.
    Anyone,
    /// A credential that names an actor.
    Actor,
    /// The first user of the path, a service, or an admin.
    Own,
    /// A service or an admin.
    Service,
    /// An admin.
    Admin,
}

impl Access {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Anyone => "anyone",
            Self::Actor => "actor",
            Self::Own => "own",
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }
}

/// The operations of one subject, as one file has them.
pub(in crate::http) struct Group {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(in crate::http) operations: Vec<Operation>,
}

impl Group {
    pub(in crate::http) const fn new(name: &'static str, about: &'static str, operations: Vec<Operation>) -> Self {
        Self { name, about, operations }
    }
}

pub(in crate::http) struct Operation {
    pub(in crate::http) path: &'static str,
    pub(in crate::http) route: MethodRouter<App>,
    pub(in crate::http) method: Method,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) about: Option<&'static str>,
    pub(super) access: Access,
    pub(super) writes: bool,
    pub(super) paged: bool,
    pub(super) located: bool,
    pub(super) query: Option<Described>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answered>,
    pub(super) refusals: Vec<Code>,
}

pub(super) struct Body {
    pub(super) required: bool,
    pub(super) schema: Described,
}

/// One way an operation succeeds.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) media: &'static str,
    pub(super) about: &'static str,
    pub(super) schema: Described,
}

macro_rules! methods {
    ($($name:ident $filter:ident $writes:literal;)*) => {$(
        pub(in crate::http) fn $name<H: Handler<T, App>, T: 'static>(path: &'static str, handler: H) -> Operation {
            Operation::new(Method::$filter, $writes, path, on(MethodFilter::$filter, handler))
        }
    )*};
}

methods! {
    get GET false;
    put PUT true;
    post POST true;
    patch PATCH true;
    delete DELETE true;
}

impl Operation {
    const fn new(method: Method, writes: bool, path: &'static str, route: MethodRouter<App>) -> Self {
        Self {
            path,
            route,
            method,
            id: "",
            summary: "",
            about: None,
            access: Access::Anyone,
            writes,
            paged: false,
            located: false,
            query: None,
            body: None,
            answers: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// The operation's id, which generators of clients make a method of, and one line for people.
    #[must_use]
    pub(in crate::http) const fn named(mut self, id: &'static str, summary: &'static str) -> Self {
        (self.id, self.summary) = (id, summary);
        self
    }

    /// What one line cannot say, as Markdown.
    #[must_use]
    pub(in crate::http) const fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// `Access::Anyone` unless said otherwise.
    #[must_use]
    pub(in crate::http) const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// A question that is asked with a body: no idempotency key, no token back.
    #[must_use]
    pub(in crate::http) const fn reads(mut self) -> Self {
        self.writes = false;
        self
    }

    /// The type that `Asked::query` reads.
    #[must_use]
    pub(in crate::http) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// A list with cursor and `Link`; `T` as for `query`.
    #[must_use]
    pub(in crate::http) fn pages<T: JsonSchema>(mut self) -> Self {
        self.paged = true;
        self.query::<T>()
    }

    /// The answer says where what it made is found.
    #[must_use]
    pub(in crate::http) const fn located(mut self) -> Self {
        self.located = true;
        self
    }

    /// The type that `Asked::body` reads.
    #[must_use]
    pub(in crate::http) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(Body { required: true, schema: SchemaGenerator::subschema_for::<T> });
        self
    }

    /// The type that `Asked::optional_body` reads, unless it is `Nothing`.
    #[must_use]
    pub(in crate::http) fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(Body { required: false, schema: SchemaGenerator::subschema_for::<T> });
        self
    }

    /// One success and the type of its JSON.
    #[must_use]
    pub(in crate::http) fn answers<T: JsonSchema>(mut self, status: StatusCode, about: &'static str) -> Self {
        let schema = SchemaGenerator::subschema_for::<T>;
        self.answers.push(Answered { status, media: "application/json", about, schema });
        self
    }

    /// One success in another form than a JSON object: text, a page, a stream.
    #[must_use]
    pub(in crate::http) fn answers_as(mut self, media: &'static str, about: &'static str) -> Self {
        let schema = SchemaGenerator::subschema_for::<String>;
        self.answers.push(Answered { status: StatusCode::OK, media, about, schema });
        self
    }

    /// Codes of this operation alone. What follows from its form (ids, body, query, write) is added by `problems`.
    #[must_use]
    pub(in crate::http) fn refuses(mut self, codes: &[Code]) -> Self {
        self.refusals.extend_from_slice(codes);
        self
    }

    /// The names in braces, in their order.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// Whether it is one of the API's own routes, which know actors, tokens and credentials.
    pub(super) fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }
}
