//! Is-following in three shapes: one pair, one against many, any pairs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_model::UserId;
use entourage_service::{CHECKS_MAX, Service};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, IgnoredAny, SeqAccess, Visitor},
};

use super::{
    openapi::{
        Access, Group, get, post,
        schema::{Id, Time},
    },
    request::ApiRequest,
    response::{Answer, aged, json},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TargetsBody {
    #[schemars(with = "Vec<Id>", length(max = CHECKS_MAX))]
    targets: Vec<UserId>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PairsBody {
    #[schemars(with = "Vec<(Id, Id)>", length(max = CHECKS_MAX))]
    pairs: Vec<Pair>,
}

/// `[follower, target]`. Not a tuple, so that the error for a third id points at it.
struct Pair(UserId, UserId);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PairVisitor)
    }
}

struct PairVisitor;

impl<'de> Visitor<'de> for PairVisitor {
    type Value = Pair;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[follower, target]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Pair, A::Error> {
        let follower = ids.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let target = ids.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        if ids.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(3, &self));
        }
        Ok(Pair(follower, target))
    }
}

#[derive(Serialize, JsonSchema)]
struct CheckJson {
    following: bool,
    is_following: bool,
    /// When the follow became active; not known while the store is away.
    #[schemars(with = "Option<Time>")]
    since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EachJson<'a> {
    /// For each asked id whether it is followed.
    results: BTreeMap<&'a str, bool>,
}

#[derive(Serialize, JsonSchema)]
struct PairsJson {
    /// In the order of the pairs.
    results: Vec<bool>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/is-following/{other}", Access::Anyone, one)
            .named("is_following", "Does one user follow another")
            .aged()
            .answers::<CheckJson>(StatusCode::OK, "Yes or no; unknown ids are no"),
        post("/api/v1/users/{id}/is-following", Access::Anyone, each)
            .named("is_following_each", "Which of these users does one user follow")
            .aged()
            .reads()
            .body::<TargetsBody>()
            .large_body()
            .answers::<EachJson>(StatusCode::OK, "Yes or no for each"),
        post("/api/v1/checks", Access::Anyone, pairs)
            .named("check_pairs", "Does the first of each pair follow the second")
            .aged()
            .reads()
            .body::<PairsBody>()
            .large_body()
            .answers::<PairsJson>(StatusCode::OK, "Yes or no for each"),
    ];
    let about = "An edge that neither of its two lists would show to the viewer is no.";
    Group::new("Is following", about, operations)
}

pub(super) async fn one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [follower, target] = request.ids()?;
    let found = service.graph.is_following(&request.call, follower, target).await?;
    let since = found.since.map(|since| since.to_rfc3339());
    let body = CheckJson { following: found.following, is_following: found.following, since };
    aged(json(StatusCode::OK, body), found.age)
}

pub(super) async fn each(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [follower] = request.ids()?;
    let TargetsBody { targets } = request.body()?;
    let found = service.graph.is_following_each(&request.call, follower, &targets).await?;
    let results: BTreeMap<&str, bool> = targets.iter().map(UserId::as_str).zip(found.following).collect();
    aged(json(StatusCode::OK, EachJson { results }), found.age)
}

pub(super) async fn pairs(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let PairsBody { pairs } = request.body()?;
    let pairs: Vec<_> = pairs.iter().map(|Pair(follower, target)| (follower, target)).collect();
    let found = service.graph.checks(&request.call, &pairs).await?;
    aged(json(StatusCode::OK, PairsJson { results: found.following }), found.age)
}
