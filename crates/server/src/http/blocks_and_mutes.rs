//! `PUT DELETE /users/{a}/blocks/{b}` and `GET /users/{a}/blocks`, and the same for `mutes`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Millis, Result, UserId};
use entourage_service::{Marked, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::Nothing,
    lists::{ListQuery, PageJson, page},
    openapi::{
        Access, Group, Operation, delete, get, put,
        schema::{Id, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, written},
};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MuteBody {
    /// When it ends, rounded up to a whole second; without it, or with `null`, never.
    #[serde(default)]
    #[schemars(with = "Option<Time>")]
    expires_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct BlockJson<'a> {
    blocking: bool,
    #[serde(flatten)]
    mark: MarkJson<'a>,
}

#[derive(Serialize, JsonSchema)]
struct MuteJson<'a> {
    muting: bool,
    #[serde(flatten)]
    mark: MarkJson<'a>,
    /// `null`: never.
    #[schemars(with = "Option<Time>")]
    expires_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct MarkJson<'a> {
    #[schemars(with = "Id")]
    actor_id: &'a str,
    #[schemars(with = "Id")]
    target_id: &'a str,
    #[schemars(with = "Time")]
    created_at: String,
    #[schemars(with = "Version")]
    version: String,
}

#[derive(Serialize, JsonSchema)]
struct UnblockJson {
    blocking: bool,
    changed: bool,
}

#[derive(Serialize, JsonSchema)]
struct UnmuteJson {
    muting: bool,
    changed: bool,
}

pub(super) fn blocks() -> Group {
    const PAIR: &str = "/api/v1/users/{id}/blocks/{other}";
    let operations = vec![
        put(PAIR, Access::Own("id"), block)
            .named("block", "Block a user")
            .about("Takes follow edges away in both directions and refuses new ones.")
            .audited("block")
            .answers::<BlockJson>(StatusCode::CREATED, "Blocked")
            .answers::<BlockJson>(StatusCode::OK, "Was blocked already")
            .refuses(&[Code::SelfBlock, Code::UserNotFound]),
        delete(PAIR, Access::Own("id"), unblock)
            .named("unblock", "Lift a block")
            .about("Restores no edge.")
            .audited("unblock")
            .answers::<UnblockJson>(StatusCode::OK, "Not blocked, or not any more")
            .refuses(&[Code::UserNotFound]),
        listed(
            get("/api/v1/users/{id}/blocks", Access::Own("id"), list_blocks)
                .named("list_blocks", "Whom a user blocks, newest first"),
        ),
    ];
    Group::new("Blocks", "A block takes edges away in both directions and refuses new ones.", operations)
}

pub(super) fn mutes() -> Group {
    const PAIR: &str = "/api/v1/users/{id}/mutes/{other}";
    let operations = vec![
        put(PAIR, Access::Own("id"), mute)
            .named("mute", "Mute a user")
            .about("The muted one does not see it, and edges stay. Muting again says anew when it ends.")
            .optional_body::<MuteBody>()
            .answers::<MuteJson>(StatusCode::CREATED, "Muted")
            .answers::<MuteJson>(StatusCode::OK, "Was muted already")
            .refuses(&[Code::UserNotFound]),
        delete(PAIR, Access::Own("id"), unmute)
            .named("unmute", "Lift a mute")
            .answers::<UnmuteJson>(StatusCode::OK, "Not muted, or not any more")
            .refuses(&[Code::UserNotFound]),
        listed(
            get("/api/v1/users/{id}/mutes", Access::Own("id"), list_mutes)
                .named("list_mutes", "Whom a user mutes, newest first"),
        ),
    ];
    Group::new("Mutes", "A mute keeps somebody out of notifications and suggestions.", operations)
}

fn listed(operation: Operation) -> Operation {
    operation.pages::<ListQuery>().answers::<PageJson>(StatusCode::OK, "A page").refuses(&[Code::UserNotFound])
}

async fn block(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [actor, target] = pair(&request)?;
    let done = service.graph.block(&request.call, actor, target).await?;
    marked(&done, |mark| BlockJson { blocking: true, mark })
}

async fn mute(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [actor, target] = request.ids()?;
    let MuteBody { expires_at } = request.optional_body()?;
    let expires_at = expires_at
        .as_deref()
        .map(Millis::parse_rfc3339)
        .transpose()
        .map_err(|error| Error::invalid("a field of the body is not valid").at("/expires_at", error.detail()))?;
    let done = service.graph.mute(&request.call, actor, target, expires_at).await?;
    let expires_at = done.edge.expires.map(|expires| expires.time().to_rfc3339());
    marked(&done, |mark| MuteJson { muting: true, mark, expires_at })
}

async fn unblock(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [actor, target] = pair(&request)?;
    let done = service.graph.unblock(&request.call, actor, target).await?;
    written(StatusCode::OK, UnblockJson { blocking: false, changed: done.changed }, &done.receipt)
}

async fn unmute(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [actor, target] = pair(&request)?;
    let done = service.graph.unmute(&request.call, actor, target).await?;
    written(StatusCode::OK, UnmuteJson { muting: false, changed: done.changed }, &done.receipt)
}

async fn list_blocks(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([actor], query) = request.list()?;
    let found = service.graph.blocks(&request.call, actor, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

async fn list_mutes(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([actor], query) = request.list()?;
    let found = service.graph.mutes(&request.call, actor, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

/// Actor and target of a request without a body.
fn pair(request: &ApiRequest) -> Result<&[UserId; 2]> {
    request.optional_body::<Nothing>()?;
    request.ids()
}

fn marked<'a, T: Serialize>(done: &'a Marked, body: impl FnOnce(MarkJson<'a>) -> T) -> Answer {
    let mark = MarkJson {
        actor_id: done.actor.as_str(),
        target_id: done.target.as_str(),
        created_at: done.edge.position.millis().to_rfc3339(),
        version: done.edge.version.to_string(),
    };
    written(if done.created { StatusCode::CREATED } else { StatusCode::OK }, body(mark), &done.receipt)
}
