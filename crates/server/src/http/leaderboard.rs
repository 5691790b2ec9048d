//! `GET /leaderboards/followers`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_service::{Ranked, Service};
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
struct LeaderboardJson<'a> {
    data: Vec<RankedJson<'a>>,
    #[serde(flatten)]
    more: MoreJson<'a>,
}

#[derive(Serialize, JsonSchema)]
struct RankedJson<'a> {
    rank: usize,
    #[schemars(with = "Id")]
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    #[schemars(with = "Time")]
    created_at: String,
    followers: u64,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/leaderboards/followers", Access::Anyone, followers)
            .named("list_leaderboard", "Who has the most followers")
            .pages::<ListQuery>()
            .answers::<LeaderboardJson>(StatusCode::OK, "A page"),
    ];
    Group::new("Leaderboard", "The thousand users with the most followers.", operations)
}

pub(super) async fn followers(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: ListQuery = request.query()?;
    let limit = query.limit()?;
    let page = service.graph.leaderboard(&request.call, query.cursor(), limit).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(row).collect();
    linked(&request, LeaderboardJson { data, more: next_cursor.into() }, next_cursor, limit)
}

fn row(row: &Ranked) -> RankedJson<'_> {
    RankedJson {
        rank: row.rank,
        id: row.id.as_str(),
        name: row.name.as_deref(),
        avatar_url: row.avatar_url.as_deref(),
        created_at: row.created_at.to_rfc3339(),
        followers: row.followers,
    }
}
