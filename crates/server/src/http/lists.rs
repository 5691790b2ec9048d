//! `GET /users/{id}/followers` and `/following`, and the form all lists of users have.

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
    answer::{Answer, json},
    asked::Asked,
    openapi::{
        Group, Operation, get,
        schema::{Cursor, Id, PageLimit, Time},
    },
    whole,
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
            .answers_as(whole::NDJSON, "The whole list, for services: one row a line")
            .refuses(&[Code::UserNotFound, Code::ListsHidden])
    };
    let operations = vec![
        list(
            get("/api/v1/users/{id}/followers", followers).named("list_followers", "Who follows a user, newest first"),
        ),
        list(
            get("/api/v1/users/{id}/following", following).named("list_following", "Whom a user follows, newest first"),
        ),
    ];
    Group::new("Lists", "Followers and following, page by page.", operations)
}

pub(super) async fn followers(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    if whole::is_asked_for(&asked, &query)? {
        let list = service.stream_followers(&asked.call, id).await?;
        return Ok(whole::answer(asked.long_seat(), service, list));
    }
    let found = service.followers(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn following(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    if whole::is_asked_for(&asked, &query)? {
        let list = service.stream_following(&asked.call, id).await?;
        return Ok(whole::answer(asked.long_seat(), service, list));
    }
    let found = service.following(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) fn page(asked: &Asked, query: &ListQuery, found: UserPage) -> Answer {
    counted_page(asked, query.limit()?, found, None)
}

/// With the number of rows, where it was asked for.
pub(super) fn counted_page(asked: &Asked, limit: Limit, found: UserPage, counted: Option<Counted>) -> Answer {
    let next = found.next_cursor.as_deref();
    let body = PageJson {
        data: found.rows.iter().map(row).collect(),
        next_cursor: next,
        has_more: next.is_some(),
        total: counted.map(|counted| counted.number).or(found.total),
        total_is_exact: counted.map(|counted| counted.is_exact),
    };
    let mut response = json(StatusCode::OK, body)?;
    let links = links(asked.uri.path(), "cursor", next, limit);
    response.headers_mut().extend(links.map(|links| (header::LINK, links)));
    Ok(response)
}

/// Where the list goes on, and where it starts. Cursors are made of letters that need no escaping.
pub(super) fn links(path: &str, parameter: &str, next: Option<&str>, limit: Limit) -> Option<HeaderValue> {
    let limit = limit.get();
    let next = next.map(|cursor| format!("<{path}?{parameter}={cursor}&limit={limit}>; rel=\"next\", "));
    HeaderValue::from_str(&format!("{}<{path}?limit={limit}>; rel=\"first\"", next.unwrap_or_default())).ok()
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
