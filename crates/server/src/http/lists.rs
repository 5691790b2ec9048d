//! `GET /users/{id}/followers` and `/following`, and the form all lists of users have.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
};
use entourage_model::Result;
use entourage_service::{Limit, Service, UserPage, UserRow};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    cursor: Option<String>,
    limit: Option<String>,
}

impl ListQuery {
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn limit(&self) -> Result<Limit> {
        Limit::parse(self.limit.as_deref())
    }
}

#[derive(Serialize)]
struct PageJson<'a> {
    data: Vec<RowJson<'a>>,
    next_cursor: Option<&'a str>,
    has_more: bool,
    total: u64,
}

#[derive(Serialize)]
struct RowJson<'a> {
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    created_at: String,
}

pub(super) async fn followers(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.followers(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn following(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.following(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) fn page(asked: &Asked, query: &ListQuery, found: UserPage) -> Answer {
    let next = found.next_cursor.as_deref();
    let body = PageJson {
        data: found.rows.iter().map(row).collect(),
        next_cursor: next,
        has_more: next.is_some(),
        total: found.total,
    };
    let mut response = json(StatusCode::OK, body)?;
    if let Some(cursor) = next {
        let link = next_link(asked.uri.path(), "cursor", cursor, query.limit()?);
        response.headers_mut().extend(link.map(|link| (header::LINK, link)));
    }
    Ok(response)
}

/// Cursors are made of letters that need no escaping.
pub(super) fn next_link(path: &str, parameter: &str, cursor: &str, limit: Limit) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("<{path}?{parameter}={cursor}&limit={}>; rel=\"next\"", limit.get())).ok()
}

fn row(row: &UserRow) -> RowJson<'_> {
    RowJson {
        id: row.id.as_str(),
        name: row.name.as_deref(),
        avatar_url: row.avatar_url.as_deref(),
        created_at: row.created_at.to_rfc3339(),
    }
}
