//! What follows from lists: `/mutuals`, `/not-following-back`, `/common-following/{b}`, `/followers-you-know` and
//! `/distance/{b}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_service::{Distance, Service};
use serde::Serialize;

use super::{
    answer::{Answer, json},
    asked::Asked,
    lists::{ListQuery, page},
};

#[derive(Serialize)]
struct DistanceJson {
    distance: Option<StepsJson>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StepsJson {
    Steps(u8),
    Unknown(&'static str),
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
