//! `PUT DELETE /users/{a}/mutes/{b}` and `GET /users/{a}/mutes`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_service::Service;
use serde::Serialize;

use super::{
    answer::{Answer, written},
    asked::Asked,
    body::Nothing,
    lists::{ListQuery, page},
};

#[derive(Serialize)]
struct MuteJson<'a> {
    muting: bool,
    actor_id: &'a str,
    target_id: &'a str,
    created_at: String,
    version: String,
}

#[derive(Serialize)]
struct UnmuteJson {
    muting: bool,
    changed: bool,
}

pub(super) async fn mute(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor, target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    let done = service.mute(&asked.call, actor, target).await?;
    let body = MuteJson {
        muting: true,
        actor_id: done.actor.as_str(),
        target_id: done.target.as_str(),
        created_at: done.edge.position.millis().to_rfc3339(),
        version: done.edge.version.to_string(),
    };
    written(if done.created { StatusCode::CREATED } else { StatusCode::OK }, body, &done.receipt)
}

pub(super) async fn unmute(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor, target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    let done = service.unmute(&asked.call, actor, target).await?;
    written(StatusCode::OK, UnmuteJson { muting: false, changed: done.changed }, &done.receipt)
}

pub(super) async fn list(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.mutes(&asked.call, actor, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}
