//! `GET /users/{id}/history`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{HistoryRow, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    lists::{ListQuery, MoreJson, linked},
    openapi::{
        Access, Group, get,
        schema::{Id, Time},
    },
    request::ApiRequest,
    response::Answer,
};

#[derive(Serialize, JsonSchema)]
struct HistoryJson<'a> {
    data: Vec<EndedJson<'a>>,
    #[serde(flatten)]
    more: MoreJson<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EndedFollow")]
struct EndedJson<'a> {
    user: NamedJson<'a>,
    /// When it began; for a request, when it was made.
    #[schemars(with = "Time")]
    followed_at: String,
    #[schemars(with = "Time")]
    ended_at: String,
    #[schemars(with = "Ending")]
    how: &'static str,
    quiet: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NamedUser")]
struct NamedJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "described, never made")]
enum Ending {
    Unfollowed,
    Removed,
    Blocked,
    Rejected,
    Cancelled,
    Erased,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/history", Access::Own("id"), list)
            .named("list_history", "What a user followed or asked to follow before, newest first")
            .about("As far back as `history.retention`. Who was erased is not shown.")
            .pages::<ListQuery>()
            .answers::<HistoryJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("History", "Follows and requests that ended.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([id], query) = request.list()?;
    let page = service.graph.history(&request.call, id, query.cursor(), query.limit()?).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(row).collect();
    linked(&request, HistoryJson { data, more: next_cursor.into() }, next_cursor, query.limit()?)
}

fn row(row: &HistoryRow) -> EndedJson<'_> {
    EndedJson {
        user: NamedJson { id: row.id.as_str(), name: row.name.as_deref(), avatar_url: row.avatar_url.as_deref() },
        followed_at: row.followed_at.to_rfc3339(),
        ended_at: row.ended_at.to_rfc3339(),
        how: row.how.as_str(),
        quiet: row.quiet,
    }
}
