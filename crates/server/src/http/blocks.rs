//! `PUT DELETE /users/{a}/blocks/{b}` and `GET /users/{a}/blocks`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::Service;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer::{Answer, written},
    asked::Asked,
    body::Nothing,
    lists::{ListQuery, PageJson, page},
    openapi::{
        Access, Group, delete, get, put,
        schema::{Id, Time, Version},
    },
};

#[derive(Serialize, JsonSchema)]
struct BlockJson<'a> {
    blocking: bool,
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

pub(super) fn group() -> Group {
    let operations = vec![
        put("/api/v1/users/{id}/blocks/{other}", Access::Own("id"), block)
            .named("block", "Block a user")
            .about("Takes follow edges away in both directions and refuses new ones.")
            .audited("block")
            .answers::<BlockJson>(StatusCode::CREATED, "Blocked")
            .answers::<BlockJson>(StatusCode::OK, "Was blocked already")
            .refuses(&[Code::SelfBlock, Code::UserNotFound]),
        delete("/api/v1/users/{id}/blocks/{other}", Access::Own("id"), unblock)
            .named("unblock", "Lift a block")
            .about("Restores no edge.")
            .audited("unblock")
            .answers::<UnblockJson>(StatusCode::OK, "Not blocked, or not any more")
            .refuses(&[Code::UserNotFound]),
        get("/api/v1/users/{id}/blocks", Access::Own("id"), list)
            .named("list_blocks", "Whom a user blocks, newest first")
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Blocks", "A block takes edges away in both directions and refuses new ones.", operations)
}

pub(super) async fn block(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor, target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    let done = service.block(&asked.call, actor, target).await?;
    let body = BlockJson {
        blocking: true,
        actor_id: done.actor.as_str(),
        target_id: done.target.as_str(),
        created_at: done.edge.position.millis().to_rfc3339(),
        version: done.edge.version.to_string(),
    };
    written(if done.created { StatusCode::CREATED } else { StatusCode::OK }, body, &done.receipt)
}

pub(super) async fn unblock(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor, target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    let done = service.unblock(&asked.call, actor, target).await?;
    written(StatusCode::OK, UnblockJson { blocking: false, changed: done.changed }, &done.receipt)
}

pub(super) async fn list(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.blocks(&asked.call, actor, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}
