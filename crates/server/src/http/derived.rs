//! What follows from lists: `/mutuals`, `/not-following-back`, `/common-following/{b}`, `/followers-you-know` and
//! `/distance/{b}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{Distance, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer::{Answer, json},
    asked::Asked,
    lists::{ListQuery, PageJson, page},
    openapi::{Access, Group, Operation, get},
};

#[derive(Serialize, JsonSchema)]
struct DistanceJson {
    /// 1, 2 or 3; `unknown` when too much work would tell; `null` when it is farther, or there is no way.
    distance: Option<StepsJson>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum StepsJson {
    Steps(u8),
    Unknown(&'static str),
}

pub(super) fn group() -> Group {
    let list = |operation: Operation| {
        operation
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound, Code::ListsHidden])
    };
    let operations = vec![
        list(
            get("/api/v1/users/{id}/mutuals", mutuals).named("list_mutuals", "Whom a user follows and is followed by"),
        ),
        list(
            get("/api/v1/users/{id}/not-following-back", not_following_back)
                .named("list_not_following_back", "Whom a user follows without being followed"),
        ),
        list(
            get("/api/v1/users/{id}/common-following/{other}", common_following)
                .named("list_common_following", "Whom both users follow"),
        ),
        list(
            get("/api/v1/users/{id}/followers-you-know", followers_you_know)
                .named("list_followers_you_know", "Followers of a user whom the actor follows"),
        )
        .access(Access::Actor),
        get("/api/v1/users/{id}/distance/{other}", distance)
            .named("distance", "How many follows lead from one user to another")
            .answers::<DistanceJson>(StatusCode::OK, "The distance")
            .refuses(&[Code::UserNotFound, Code::ListsHidden]),
    ];
    Group::new("Derived lists", "What follows from lists; paged in the order of the acting following list.", operations)
}

pub(super) async fn mutuals(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.mutuals(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn not_following_back(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.not_following_back(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn common_following(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id, other] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.common_following(&asked.call, id, other, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn followers_you_know(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.followers_you_know(&asked.call, id, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn distance(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [from, to] = asked.ids()?;
    let distance = match service.distance(&asked.call, from, to).await? {
        Distance::Steps(steps) => Some(StepsJson::Steps(steps)),
        Distance::Unknown => Some(StepsJson::Unknown("unknown")),
        Distance::None => None,
    };
    json(StatusCode::OK, DistanceJson { distance })
}
