//! `GET /users/{id}/feed`, `/groups/{group}/feed`, `/feed/explain/{post}` and `/feed/stream`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Result};
use entourage_service::{Explained, FeedMessage, FeedPage, FeedRow, Limit, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    groups::group_id,
    lists::linked,
    openapi::{
        Access, Group, get,
        schema::{self, Cursor, FeedLimit, Id, Time, Version},
    },
    posts::{PostJson, post_id, shown},
    request::ApiRequest,
    response::{Answer, json},
    sse,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FeedQuery {
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
    #[schemars(with = "Option<FeedLimit>")]
    limit: Option<String>,
}

impl FeedQuery {
    fn limit(&self) -> Result<Limit> {
        Limit::parse_or(self.limit.as_deref(), Limit::OF_FEED)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StreamQuery {
    /// From `POST /tickets`, in place of a credential.
    #[allow(dead_code, reason = "described here, taken before a handler is asked")]
    ticket: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeedPage")]
struct FeedJson<'a> {
    data: Vec<FeedRowJson<'a>>,
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
    /// Not everybody's posts could be looked at in time; asking again goes further.
    partial: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PostOfFeed")]
struct FeedRowJson<'a> {
    #[serde(flatten)]
    post: PostJson<'a>,
    profile: ProfileJson<'a>,
}

/// What is shown of the author.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProfileOfAuthor")]
struct ProfileJson<'a> {
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
struct ExplainedJson<'a> {
    #[schemars(with = "Version")]
    post_id: String,
    #[schemars(with = "Id")]
    author: &'a str,
    /// Whether the feed has it.
    shown: bool,
    #[schemars(with = "schema::Because")]
    because: &'static str,
    /// When the last follower had it, if that was lately.
    #[schemars(with = "Option<Time>")]
    pushed_at: Option<String>,
    /// How many deliveries come before its own, while it is queued.
    queued_behind: Option<u64>,
    /// The reader's inbox is complete above this id; `null`: there is no inbox.
    #[schemars(with = "Option<Version>")]
    floor: Option<String>,
}

/// A message with a name and an id only.
#[derive(Serialize)]
struct ResyncJson {}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/feed", Access::Own("id"), list)
            .named("get_feed", "What a user sees because of whom they follow, newest first")
            .about(
                "Every post once and none left out, whatever is written meanwhile. Follows, blocks and mutes are those \
                 of now.",
            )
            .pages::<FeedQuery>()
            .answers::<FeedJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
        get("/api/v1/users/{id}/groups/{group}/feed", Access::Own("id"), of_group)
            .named("get_group_feed", "The same of those in a group")
            .about("Of the members whom the user follows.")
            .pages::<FeedQuery>()
            .answers::<FeedJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound, Code::GroupNotFound]),
        get("/api/v1/users/{id}/feed/explain/{post}", Access::Own("id"), explain)
            .named("explain_post", "Why a post is in a user's feed, or is not")
            .answers::<ExplainedJson>(StatusCode::OK, "Why")
            .refuses(&[Code::UserNotFound, Code::PostNotFound]),
        get("/api/v1/users/{id}/feed/stream", Access::Own("id"), stream)
            .named("stream_feed", "New posts of a user's feed, as they are written")
            .about(
                "Server-sent events: `post` with a post as the feed has it; `resync` when posts were left out because \
                 the reader was too slow or away for too long: read the feed anew. `Last-Event-ID` goes on behind that \
                 event.",
            )
            .query::<StreamQuery>()
            .streams()
            .refuses(&[Code::UserNotFound, Code::InvalidCursor]),
    ];
    Group::new("Feed", "What each person should see because of whom they follow.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let query: FeedQuery = request.query()?;
    let found = service.feeds.feed(&request.call, id, query.cursor.as_deref(), query.limit()?).await?;
    page(&request, query.limit()?, &found)
}

pub(super) async fn of_group(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id, group] = request.ids()?;
    let query: FeedQuery = request.query()?;
    let (cursor, limit) = (query.cursor.as_deref(), query.limit()?);
    let found = service.feeds.group_feed(&request.call, id, group_id(group)?, cursor, limit).await?;
    page(&request, limit, &found)
}

pub(super) async fn explain(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id, post] = request.ids()?;
    let found = service.feeds.explain(&request.call, id, post_id(post)?).await?;
    json(StatusCode::OK, explained(&found))
}

pub(super) async fn stream(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let _: StreamQuery = request.query()?;
    let stream_guard = request.stream()?;
    let stream = service.feeds.feed_stream(&request.call, id, request.last_event_id()?).await?;
    Ok(sse::answer(stream_guard, stream, move |mut stream| {
        let service = Arc::clone(&service);
        async move {
            let told = service.feeds.next_feed(&mut stream).await;
            let messages = told.and_then(|told| told.map(|told| Ok([message(&told)?].into())).transpose());
            (stream, messages)
        }
    }))
}

fn message(told: &FeedMessage) -> Result<axum::response::sse::Event> {
    Ok(match told {
        FeedMessage::Post { cursor, row: found } => sse::message(Some(cursor), Some("post"), &row(found)?),
        FeedMessage::Resync { cursor } => sse::message(Some(cursor), Some("resync"), &ResyncJson {}),
    })
}

fn page(request: &ApiRequest, limit: Limit, found: &FeedPage) -> Answer {
    let next_cursor = found.next_cursor.as_deref();
    let data = found.rows.iter().map(row).collect::<Result<_>>()?;
    let body = FeedJson { data, next_cursor, has_more: next_cursor.is_some(), partial: found.is_partial };
    linked(request, body, next_cursor, limit)
}

fn row(row: &FeedRow) -> Result<FeedRowJson<'_>> {
    let profile = ProfileJson { name: row.name.as_deref(), avatar_url: row.avatar_url.as_deref() };
    Ok(FeedRowJson { post: shown(&row.post)?, profile })
}

fn explained(found: &Explained) -> ExplainedJson<'_> {
    ExplainedJson {
        post_id: found.post.to_string(),
        author: found.author.as_str(),
        shown: found.because.is_shown(),
        because: found.because.as_str(),
        pushed_at: found.pushed_at.map(|at| at.to_rfc3339()),
        queued_behind: found.queued_behind,
        floor: found.floor.map(|floor| floor.to_string()),
    }
}
