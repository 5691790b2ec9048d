//! What follows from lists: `/mutuals`, `/not-following-back`, `/common-following/{b}`, `/common-followers/{b}`,
//! `/followers-you-know` and `/distance/{b}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{Derived, Distance, Limit, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    lists::{PageJson, counted_page},
    openapi::{
        Access, Group, Operation, get,
        schema::{Cursor, PageLimit},
    },
    request::ApiRequest,
    response::{Answer, json},
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DerivedQuery {
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<String>,
    /// Adds `total` and `total_is_exact`.
    #[serde(default)]
    count: bool,
}

pub(super) fn group() -> Group {
    let list = |operation: Operation| {
        operation
            .about("`count=true` adds the number of rows, exact where the driving list has at most 100,000.")
            .pages::<DerivedQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound, Code::ListsHidden])
    };
    let operations = vec![
        list(
            get("/api/v1/users/{id}/mutuals", Access::Anyone, mutuals)
                .named("list_mutuals", "Whom a user follows and is followed by"),
        ),
        list(
            get("/api/v1/users/{id}/not-following-back", Access::Anyone, not_following_back)
                .named("list_not_following_back", "Whom a user follows without being followed"),
        ),
        list(
            get("/api/v1/users/{id}/common-following/{other}", Access::Anyone, common_following)
                .named("list_common_following", "Whom both users follow"),
        ),
        list(
            get("/api/v1/users/{id}/common-followers/{other}", Access::Anyone, common_followers)
                .named("list_common_followers", "Who follows both users"),
        ),
        list(
            get("/api/v1/users/{id}/followers-you-know", Access::Actor, followers_you_know)
                .named("list_followers_you_know", "Followers of a user whom the actor follows"),
        ),
        get("/api/v1/users/{id}/distance/{other}", Access::Anyone, distance)
            .named("distance", "How many follows lead from one user to another")
            .answers::<DistanceJson>(StatusCode::OK, "The distance")
            .refuses(&[Code::UserNotFound, Code::ListsHidden]),
    ];
    Group::new(
        "Derived lists",
        "What follows from lists; paged in the order of the acting following list, or of the shorter list of followers.",
        operations,
    )
}

pub(super) async fn mutuals(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    answer(&service, &request, Derived::Mutuals(id)).await
}

pub(super) async fn not_following_back(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    answer(&service, &request, Derived::NotFollowingBack(id)).await
}

pub(super) async fn common_following(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id, other] = request.ids()?;
    answer(&service, &request, Derived::CommonFollowing(id, other)).await
}

pub(super) async fn common_followers(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id, other] = request.ids()?;
    answer(&service, &request, Derived::CommonFollowers(id, other)).await
}

pub(super) async fn followers_you_know(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    answer(&service, &request, Derived::FollowersYouKnow(id)).await
}

async fn answer(service: &Service, request: &ApiRequest, of: Derived<'_>) -> Answer {
    let query: DerivedQuery = request.query()?;
    let limit = Limit::parse(query.limit.as_deref())?;
    let found = service.graph.derived(&request.call, of, query.cursor.as_deref(), limit).await?;
    let counted = match query.count {
        true => Some(service.graph.count_derived(&request.call, of).await?),
        false => None,
    };
    counted_page(request, limit, found, counted)
}

pub(super) async fn distance(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [from, to] = request.ids()?;
    let distance = match service.graph.distance(&request.call, from, to).await? {
        Distance::Steps(steps) => Some(StepsJson::Steps(steps)),
        Distance::Unknown => Some(StepsJson::Unknown("unknown")),
        Distance::None => None,
    };
    json(StatusCode::OK, DistanceJson { distance })
}
