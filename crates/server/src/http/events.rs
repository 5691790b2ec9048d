//! `GET /events`: what changed, oldest first.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
};
use entourage_model::{EventBody, User};
use entourage_service::{EventRow, Limit, Service};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
    lists::links,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    after: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
struct EventsJson<'a> {
    data: Vec<EventJson<'a>>,
    next_cursor: Option<&'a str>,
    has_more: bool,
}

#[derive(Serialize)]
struct EventJson<'a> {
    cursor: &'a str,
    r#type: &'static str,
    version: String,
    time: String,
    #[serde(flatten)]
    fields: FieldsJson<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum FieldsJson<'a> {
    Edge {
        follower: Option<&'a str>,
        target: Option<&'a str>,
        before: Option<&'static str>,
        after: Option<&'static str>,
        quiet: bool,
    },
    User {
        user: Option<UserJson<'a>>,
    },
}

#[derive(Serialize)]
struct UserJson<'a> {
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    private: bool,
    hide_lists: bool,
    registered_at: String,
    created_at: String,
}

pub(super) async fn list(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let query: EventsQuery = asked.query()?;
    let limit = Limit::parse(query.limit.as_deref())?;
    let page = service.events(&asked.call, query.after.as_deref(), limit).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(event).collect();
    let mut response = json(StatusCode::OK, EventsJson { data, next_cursor, has_more: page.has_more })?;
    let links = links(asked.uri.path(), "after", next_cursor.filter(|_| page.has_more), limit);
    response.headers_mut().extend(links.map(|links| (header::LINK, links)));
    Ok(response)
}

fn event(row: &EventRow) -> EventJson<'_> {
    let fields = match &row.event.body {
        EventBody::Edge { before, after, quiet, .. } => FieldsJson::Edge {
            follower: row.follower.as_ref().map(|id| id.as_str()),
            target: row.target.as_ref().map(|id| id.as_str()),
            before: before.map(|state| state.as_str()),
            after: after.map(|state| state.as_str()),
            quiet: *quiet,
        },
        EventBody::User { after, .. } => FieldsJson::User { user: after.as_deref().map(user) },
    };
    EventJson {
        cursor: &row.cursor,
        r#type: row.event.name(),
        version: row.event.version.to_string(),
        time: row.event.version.millis().to_rfc3339(),
        fields,
    }
}

fn user(user: &User) -> UserJson<'_> {
    UserJson {
        id: user.id.as_str(),
        name: user.name.as_deref(),
        avatar_url: user.avatar_url.as_deref(),
        private: user.private,
        hide_lists: user.hide_lists,
        registered_at: user.registered_at.to_rfc3339(),
        created_at: user.created.millis().to_rfc3339(),
    }
}
