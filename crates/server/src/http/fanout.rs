//! `/admin/feed`, `/admin/users/{id}/fanout` and `/admin/users/{id}/feed`: the state of fan-out, and pins of operators.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{FeedStatus, LaneStatus, Pin, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::{Nothing, word},
    openapi::{
        Access, Group, delete, get, post, put,
        schema::{FanoutMode, Id},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

const FANOUT: &str = "/api/v1/admin/users/{id}/fanout";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PinBody {
    #[serde(deserialize_with = "word")]
    #[schemars(with = "FanoutMode")]
    mode: Pin,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PinnedFanout")]
struct PinnedJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    #[schemars(with = "FanoutMode")]
    mode: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct FanoutJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    #[schemars(with = "FanoutMode")]
    mode: &'static str,
    /// Whether a post written now would be read from its author instead of being put into inboxes.
    pulls: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeedStanding")]
struct StandingJson {
    lanes: Vec<LaneJson>,
    /// Inboxes in memory, and what they take.
    inboxes: u64,
    inbox_bytes: u64,
    /// Authors with a way of their own: pinned, or celebrities now or before.
    pulled_authors: u64,
    /// Open streams.
    streams: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FanoutLane")]
struct LaneJson {
    /// By how many followers an author has.
    name: &'static str,
    /// Posts that wait or are being delivered.
    depth: u64,
    /// How long the oldest of them has waited.
    lag_seconds: f64,
}

#[derive(Serialize, JsonSchema)]
struct RebuiltJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    rebuilt: bool,
}

#[derive(Serialize, JsonSchema)]
struct ForgottenJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    forgotten: bool,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/feed", Access::Admin, standing)
            .named("feed_standing", "How fan-out and inboxes stand")
            .about("Of the server that answers.")
            .answers::<StandingJson>(StatusCode::OK, "Lanes and inboxes"),
        put(FANOUT, Access::Admin, pin)
            .named("pin_fanout", "Decide how an author's posts travel")
            .about("From the next post on; those that were written stay where they are.")
            .body::<PinBody>()
            .answers::<PinnedJson>(StatusCode::OK, "Decided")
            .refuses(&[Code::UserNotFound]),
        get(FANOUT, Access::Admin, fanout)
            .named("get_fanout", "How an author's posts travel")
            .answers::<FanoutJson>(StatusCode::OK, "What was decided, and what comes of it")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/admin/users/{id}/feed/rebuild", Access::Admin, rebuild)
            .named("rebuild_feed", "Make a user's inbox anew from posts and follows")
            .reads()
            .answers::<RebuiltJson>(StatusCode::OK, "Made")
            .refuses(&[Code::UserNotFound]),
        delete("/api/v1/admin/users/{id}/feed", Access::Admin, forget)
            .named("forget_feed", "Forget a user's inbox")
            .about("Nothing is lost: it is made anew when the feed is read next.")
            .reads()
            .answers::<ForgottenJson>(StatusCode::OK, "Forgotten")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Fan-out", "How posts get into feeds, for whoever runs the server.", operations)
}

pub(super) async fn standing(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let FeedStatus { lanes, inboxes, inbox_bytes, pulled_authors, streams } =
        service.feeds.feed_status(&request.call)?;
    let lanes = lanes.iter().map(lane).collect();
    json(StatusCode::OK, StandingJson { lanes, inboxes, inbox_bytes, pulled_authors, streams })
}

pub(super) async fn pin(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let PinBody { mode } = request.body()?;
    let receipt = service.feeds.pin_fanout(&request.call, id, mode).await?;
    written(StatusCode::OK, PinnedJson { id: id.as_str(), mode: mode.as_str() }, &receipt)
}

pub(super) async fn fanout(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let (mode, pulls) = service.feeds.fanout(&request.call, id).await?;
    json(StatusCode::OK, FanoutJson { id: id.as_str(), mode: mode.as_str(), pulls })
}

pub(super) async fn rebuild(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    service.feeds.rebuild_feed(&request.call, id).await?;
    json(StatusCode::OK, RebuiltJson { id: id.as_str(), rebuilt: true })
}

pub(super) async fn forget(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    service.feeds.clear_feeds(&request.call, Some(id)).await?;
    json(StatusCode::OK, ForgottenJson { id: id.as_str(), forgotten: true })
}

fn lane(lane: &LaneStatus) -> LaneJson {
    LaneJson { name: lane.name, depth: lane.depth, lag_seconds: lane.lag.as_secs_f64() }
}
