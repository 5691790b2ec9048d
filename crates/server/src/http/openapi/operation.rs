//! An operation: method, path, handler, policy and documentation.

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

/// The state of handlers.
pub(in crate::http) type App = Arc<Service>;

/// For operations that read the whole store.
const LONG_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// For lists of ids.
const LARGE_BODY_MAX_BYTES: usize = 1024 * 1024;

/// Makes the schema of a type.
pub(super) type Described = fn(&mut SchemaGenerator) -> Schema;

/// The operations of one subject.
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
    /// May be answered from memory while the store is away.
    pub(super) aged: bool,
    pub(super) query: Option<Described>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answered>,
    pub(super) refusals: Vec<Code>,
}

pub(super) struct Body {
    pub(super) required: bool,
    pub(super) schema: Described,
}

/// One successful response.
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
            aged: false,
            query: None,
            body: None,
            answers: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// The operation id, from which client generators make a method, and a summary.
    #[must_use]
    pub(in crate::http) const fn named(mut self, id: &'static str, summary: &'static str) -> Self {
        (self.id, self.summary) = (id, summary);
        self
    }

    /// While the store is away, memory may answer, and says how old that is.
    #[must_use]
    pub(in crate::http) const fn aged(mut self) -> Self {
        self.aged = true;
        self
    }

    /// A description beyond the summary, in Markdown.
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

    /// A read that has a body: no idempotency key, no token in the response.
    #[must_use]
    pub(in crate::http) const fn reads(mut self) -> Self {
        self.writes = false;
        self
    }

    /// The type that `ApiRequest::query` reads.
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

    /// The response has a `Location`.
    #[must_use]
    pub(in crate::http) const fn located(mut self) -> Self {
        self.located = true;
        self
    }

    /// The type that `ApiRequest::body` reads.
    #[must_use]
    pub(in crate::http) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(Body { required: true, schema: SchemaGenerator::subschema_for::<T> });
        self
    }

    /// The type that `ApiRequest::optional_body` reads, unless it is `Nothing`.
    #[must_use]
    pub(in crate::http) fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(Body { required: false, schema: SchemaGenerator::subschema_for::<T> });
        self
    }

    /// A success with a JSON body.
    #[must_use]
    pub(in crate::http) fn answers<T: JsonSchema>(mut self, status: StatusCode, about: &'static str) -> Self {
        let schema = SchemaGenerator::subschema_for::<T>;
        self.answers.push(Answered { status, media: "application/json", about, schema });
        self
    }

    /// A success that is not a JSON object: text, a page, a stream.
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

    /// Codes of this operation alone. Those that follow from its form (ids, body, query, write) are added by `problems`.
    #[must_use]
    pub(in crate::http) fn refuses(mut self, codes: &[Code]) -> Self {
        self.refusals.extend_from_slice(codes);
        self
    }

    /// The names in braces, in order.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// Whether it is part of the API, with actors, tokens and credentials.
    pub(super) fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }
}
