//! `GET /users/{id}/followers` and `/following`, and the form of all lists of users.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
};
use entourage_model::{Code, Result};
use entourage_service::{Counted, Limit, Service, UserPage, UserRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    list_stream,
    openapi::{
        Access, Group, Operation, get,
        schema::{Cursor, Id, PageLimit, Time},
    },
    request::ApiRequest,
    response::{Answer, json},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<String>,
}

impl ListQuery {
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cursor.is_none() && self.limit.is_none()
    }

    pub(super) fn limit(&self) -> Result<Limit> {
        Limit::parse(self.limit.as_deref())
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PageJson<'a> {
    data: Vec<RowJson<'a>>,
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
    /// Rows that paging through would show to a service, where that is known at once; or, with `count=true`, to whoever
    /// asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// With `count=true`: `false` if there may be more than `total`, because counting came to its bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_is_exact: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RowJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    /// When the edge became active.
    #[schemars(with = "Time")]
    created_at: String,
    /// Of a mute that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    expires_at: Option<String>,
}

pub(super) fn group() -> Group {
    let list = |operation: Operation| {
        operation
            .about("Nobody comes twice, and nobody who was there throughout is missed, under concurrent writes.")
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .answers_as(list_stream::NDJSON, "The whole list, for services: one row a line")
            .refuses(&[Code::UserNotFound, Code::ListsHidden])
    };
    let operations = vec![
        list(
            get("/api/v1/users/{id}/followers", Access::Anyone, followers)
                .named("list_followers", "Who follows a user, newest first"),
        ),
        list(
            get("/api/v1/users/{id}/following", Access::Anyone, following)
                .named("list_following", "Whom a user follows, newest first"),
        ),
    ];
    Group::new("Lists", "Followers and following, page by page.", operations)
}

pub(super) async fn followers(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([id], query) = request.list()?;
    if list_stream::is_asked_for(&request, &query)? {
        let list = service.graph.stream_followers(&request.call, id).await?;
        return Ok(list_stream::answer(request.uncounted_stream(), service, list));
    }
    let found = service.graph.followers(&request.call, id, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

pub(super) async fn following(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([id], query) = request.list()?;
    if list_stream::is_asked_for(&request, &query)? {
        let list = service.graph.stream_following(&request.call, id).await?;
        return Ok(list_stream::answer(request.uncounted_stream(), service, list));
    }
    let found = service.graph.following(&request.call, id, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

pub(super) fn page(request: &ApiRequest, query: &ListQuery, found: UserPage) -> Answer {
    counted_page(request, query.limit()?, found, None)
}

/// A page with the number of rows, if requested.
pub(super) fn counted_page(request: &ApiRequest, limit: Limit, found: UserPage, counted: Option<Counted>) -> Answer {
    let next = found.next_cursor.as_deref();
    let body = PageJson {
        data: found.rows.iter().map(row).collect(),
        next_cursor: next,
        has_more: next.is_some(),
        total: counted.map(|counted| counted.number).or(found.total),
        total_is_exact: counted.map(|counted| counted.is_exact),
    };
    linked(request, body, next, limit)
}

/// The end of a page that has no other totals.
#[derive(Serialize, JsonSchema)]
pub(super) struct MoreJson<'a> {
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
}

impl<'a> From<Option<&'a str>> for MoreJson<'a> {
    fn from(next_cursor: Option<&'a str>) -> Self {
        Self { next_cursor, has_more: next_cursor.is_some() }
    }
}

/// A page with a header that links to the next one and to the first.
pub(super) fn linked(request: &ApiRequest, body: impl Serialize, next: Option<&str>, limit: Limit) -> Answer {
    linked_by("cursor", request, body, next, limit)
}

/// With the name of the cursor's parameter. Cursors need no escaping.
pub(super) fn linked_by(
    parameter: &str,
    request: &ApiRequest,
    body: impl Serialize,
    next: Option<&str>,
    limit: Limit,
) -> Answer {
    let (path, limit) = (request.uri.path(), limit.get());
    let next = next.map(|cursor| format!("<{path}?{parameter}={cursor}&limit={limit}>; rel=\"next\", "));
    let links = format!("{}<{path}?limit={limit}>; rel=\"first\"", next.unwrap_or_default());
    let mut response = json(StatusCode::OK, body)?;
    response.headers_mut().extend(HeaderValue::from_str(&links).ok().map(|links| (header::LINK, links)));
    Ok(response)
}

pub(super) fn row(row: &UserRow) -> RowJson<'_> {
    RowJson {
        id: row.id.as_str(),
        name: row.name.as_deref(),
        avatar_url: row.avatar_url.as_deref(),
        created_at: row.created_at.to_rfc3339(),
        expires_at: row.expires_at.map(|at| at.to_rfc3339()),
    }
}
