//! `GET /users/{id}/feed`, `/groups/{group}/feed`, `/feed/explain/{post}` and `/feed/stream`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
};
use entourage_model::{Code, Result};
use entourage_service::{Explained, FeedMessage, FeedPage, FeedRow, Limit, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
    groups::group_id,
    lists::links,
    openapi::{
        Access, Group, get,
        schema::{Cursor, FeedLimit, Id, Time, Version},
    },
    posts::{PostJson, post_id, shown},
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
    #[schemars(with = "BecauseName")]
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

/// `pushed`: it is in the inbox. `pulled`: read from its author. `queued`: on its way into the inbox, shown all the
/// same. `below_floor`: older than the inbox reaches back. `no_inbox`: the reader has none. `own`: the reader wrote it.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Because")]
#[allow(dead_code, reason = "described, never made")]
enum BecauseName {
    Pushed,
    Pulled,
    Queued,
    BelowFloor,
    NoInbox,
    Own,
    NotFollowed,
    Muted,
    Blocked,
}

/// Nothing but its name and id.
#[derive(Serialize)]
struct ResyncJson {}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/feed", list)
            .named("get_feed", "What a user sees because of whom they follow, newest first")
            .about(
                "Every post once and none left out, whatever is written meanwhile. Follows, blocks and mutes are those \
                 of now.",
            )
            .access(Access::Own)
            .pages::<FeedQuery>()
            .answers::<FeedJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
        get("/api/v1/users/{id}/groups/{group}/feed", of_group)
            .named("get_group_feed", "The same of those in a group")
            .about("Of the members whom the user follows.")
            .access(Access::Own)
            .pages::<FeedQuery>()
            .answers::<FeedJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound, Code::GroupNotFound]),
        get("/api/v1/users/{id}/feed/explain/{post}", explain)
            .named("explain_post", "Why a post is in a user's feed, or is not")
            .access(Access::Own)
            .answers::<ExplainedJson>(StatusCode::OK, "Why")
            .refuses(&[Code::UserNotFound, Code::PostNotFound]),
        get("/api/v1/users/{id}/feed/stream", stream)
            .named("stream_feed", "New posts of a user's feed, as they are written")
            .about(
                "Server-sent events: `post` with a post as the feed has it; `resync` when posts were left out because \
                 the reader was too slow or away for too long: read the feed anew. `Last-Event-ID` goes on behind that \
                 event.",
            )
            .access(Access::Own)
            .query::<StreamQuery>()
            .answers_as(sse::MEDIA, "A stream that does not end")
            .refuses(&[Code::UserNotFound, Code::InvalidCursor]),
    ];
    Group::new("Feed", "What each person should see because of whom they follow.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: FeedQuery = asked.query()?;
    let found = service.feed(&asked.call, id, query.cursor.as_deref(), query.limit()?).await?;
    page(&asked, query.limit()?, &found)
}

pub(super) async fn of_group(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id, group] = asked.ids()?;
    let query: FeedQuery = asked.query()?;
    let (cursor, limit) = (query.cursor.as_deref(), query.limit()?);
    let found = service.group_feed(&asked.call, id, group_id(group)?, cursor, limit).await?;
    page(&asked, limit, &found)
}

pub(super) async fn explain(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id, post] = asked.ids()?;
    let found = service.explain(&asked.call, id, post_id(post)?).await?;
    json(StatusCode::OK, explained(&found))
}

pub(super) async fn stream(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let _: StreamQuery = asked.query()?;
    let seat = asked.seat()?;
    let stream = service.feed_stream(&asked.call, id, asked.last_event_id()?).await?;
    Ok(sse::answer(seat, stream, move |mut stream| {
        let service = Arc::clone(&service);
        async move {
            let told = service.next_feed(&mut stream).await;
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

fn page(asked: &Asked, limit: Limit, found: &FeedPage) -> Answer {
    let next_cursor = found.next_cursor.as_deref();
    let data = found.rows.iter().map(row).collect::<Result<_>>()?;
    let body = FeedJson { data, next_cursor, has_more: next_cursor.is_some(), partial: found.is_partial };
    let mut response = json(StatusCode::OK, body)?;
    let links = links(asked.uri.path(), "cursor", next_cursor, limit);
    response.headers_mut().extend(links.map(|links| (header::LINK, links)));
    Ok(response)
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

#[cfg(test)]
mod tests {
    use entourage_service::Because;

    use super::*;

    #[test]
    fn every_reason_is_described() {
        let schema = schemars::schema_for!(BecauseName).to_value().to_string();
        for because in Because::ALL {
            assert!(schema.contains(&format!("\"{}\"", because.as_str())), "{}", because.as_str());
        }
    }
}
