//! Is-following in three shapes: one pair, one against many, any pairs.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_model::UserId;
use entourage_service::Service;
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetsBody {
    targets: Vec<UserId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairsBody {
    pairs: Vec<(UserId, UserId)>,
}

#[derive(Serialize)]
struct CheckJson {
    following: bool,
    is_following: bool,
    since: Option<String>,
}

#[derive(Serialize)]
struct ResultsJson<T> {
    results: T,
}

pub(super) async fn one(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [follower, target] = asked.ids()?;
    let found = service.is_following(&asked.call, follower, target).await?;
    let since = found.since.map(|since| since.to_rfc3339());
    json(StatusCode::OK, CheckJson { following: found.following, is_following: found.following, since })
}

pub(super) async fn each(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [follower] = asked.ids()?;
    let TargetsBody { targets } = asked.body()?;
    let found = service.is_following_each(&asked.call, follower, &targets).await?;
    let results: BTreeMap<&str, bool> = targets.iter().map(UserId::as_str).zip(found).collect();
    json(StatusCode::OK, ResultsJson { results })
}

pub(super) async fn pairs(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let PairsBody { pairs } = asked.body()?;
    let results = service.checks(&asked.call, &pairs).await?;
    json(StatusCode::OK, ResultsJson { results })
}
