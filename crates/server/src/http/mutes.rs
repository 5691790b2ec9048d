//! `PUT DELETE /users/{a}/mutes/{b}` and `GET /users/{a}/mutes`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Millis};
use entourage_service::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MuteBody {
    /// When it ends, rounded up to a whole second; without it, or with `null`, never.
    #[serde(default)]
    #[schemars(with = "Option<Time>")]
    expires_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct MuteJson<'a> {
    muting: bool,
    #[schemars(with = "Id")]
    actor_id: &'a str,
    #[schemars(with = "Id")]
    target_id: &'a str,
    #[schemars(with = "Time")]
    created_at: String,
    /// `null`: never.
    #[schemars(with = "Option<Time>")]
    expires_at: Option<String>,
    #[schemars(with = "Version")]
    version: String,
}

#[derive(Serialize, JsonSchema)]
struct UnmuteJson {
    muting: bool,
    changed: bool,
}

pub(super) fn group() -> Group {
    let operations = vec![
        put("/api/v1/users/{id}/mutes/{other}", Access::Own("id"), mute)
            .named("mute", "Mute a user")
            .about("The muted one does not see it, and edges stay. Muting again says anew when it ends.")
            .optional_body::<MuteBody>()
            .answers::<MuteJson>(StatusCode::CREATED, "Muted")
            .answers::<MuteJson>(StatusCode::OK, "Was muted already")
            .refuses(&[Code::UserNotFound]),
        delete("/api/v1/users/{id}/mutes/{other}", Access::Own("id"), unmute)
            .named("unmute", "Lift a mute")
            .answers::<UnmuteJson>(StatusCode::OK, "Not muted, or not any more")
            .refuses(&[Code::UserNotFound]),
        get("/api/v1/users/{id}/mutes", Access::Own("id"), list)
            .named("list_mutes", "Whom a user mutes, newest first")
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Mutes", "A mute keeps somebody out of notifications and suggestions.", operations)
}

pub(super) async fn mute(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [actor, target] = asked.ids()?;
    let MuteBody { expires_at } = asked.optional_body()?;
    let expires_at = expires_at
        .as_deref()
        .map(Millis::parse_rfc3339)
        .transpose()
        .map_err(|error| Error::invalid("a field of the body is not valid").at("/expires_at", error.detail()))?;
    let done = service.mute(&asked.call, actor, target, expires_at).await?;
    let body = MuteJson {
        muting: true,
        actor_id: done.actor.as_str(),
        target_id: done.target.as_str(),
        created_at: done.edge.position.millis().to_rfc3339(),
        expires_at: done.edge.expires.map(|expires| expires.time().to_rfc3339()),
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
