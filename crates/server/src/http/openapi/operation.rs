//! An operation: a method on a path, who answers it, and what the document says about it.

use std::{sync::Arc, time::Duration};

use axum::{
    handler::Handler,
    http::{Method, StatusCode},
    routing::{MethodFilter, MethodRouter, on},
};
use entourage_model::Code;
use entourage_service::Service;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::policy::{Access, Policy};
use crate::http::sse;

/// What handlers are given besides the request.
pub(in crate::http) type App = Arc<Service>;

/// For what looks at everything.
const LONG_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// For lists of ids.
const LARGE_BODY_MAX_BYTES: usize = 1024 * 1024;

/// How a type says its schema.
pub(super) type Described = fn(&mut SchemaGenerator) -> Schema;

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
    pub(in crate::http) policy: Policy,
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
        pub(in crate::http) fn $name<H: Handler<T, App>, T: 'static>(
            path: &'static str,
            access: Access,
            handler: H,
        ) -> Operation {
            Operation::new(Method::$filter, $writes, path, access, on(MethodFilter::$filter, handler))
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
    const fn new(method: Method, writes: bool, path: &'static str, access: Access, route: MethodRouter<App>) -> Self {
        Self {
            path,
            route,
            method,
            id: "",
            summary: "",
            about: None,
            policy: Policy::new(access),
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

    /// Written to the audit log under this name.
    #[must_use]
    pub(in crate::http) const fn audited(mut self, action: &'static str) -> Self {
        self.policy.audit = Some(action);
        self
    }

    /// Takes as long as the store does.
    #[must_use]
    pub(in crate::http) const fn takes_long(mut self) -> Self {
        self.policy.deadline = LONG_DEADLINE;
        self
    }

    /// Has a body of up to 1 MiB.
    #[must_use]
    pub(in crate::http) const fn large_body(mut self) -> Self {
        self.policy.body_max_bytes = LARGE_BODY_MAX_BYTES;
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

    /// Server-sent events, which a ticket opens as well.
    #[must_use]
    pub(in crate::http) fn streams(mut self) -> Self {
        self.policy.takes_ticket = true;
        self.answers_as(sse::MEDIA, "A stream that does not end")
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
