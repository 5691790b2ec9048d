//! `POST DELETE /users/{target}/follow` for the actor, `PUT GET DELETE /users/{a}/following/{b}` for a service.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, State as EdgeState};
use entourage_service::{Followed, Removed, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::{Nothing, present},
    openapi::{
        Access, Group, Operation, delete, get, post, put,
        schema::{self, Id, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowBody {
    /// Unseen by everybody but the follower and services. Left out, what is there stays.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool")]
    quiet: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FollowJson<'a> {
    following: bool,
    #[schemars(with = "schema::State")]
    state: &'static str,
    #[schemars(with = "Id")]
    follower_id: &'a str,
    #[schemars(with = "Id")]
    followee_id: &'a str,
    #[schemars(with = "Time")]
    created_at: String,
    #[schemars(with = "Version")]
    version: String,
    quiet: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct UnfollowJson {
    following: bool,
    changed: bool,
}

const PAIR: &str = "/api/v1/users/{id}/following/{other}";

/// What any follow can be refused with.
pub(super) const REFUSALS: &[Code] = &[
    Code::SelfFollow,
    Code::Blocked,
    Code::ChallengeRequired,
    Code::FollowSuspended,
    Code::UserNotFound,
    Code::FollowingLimit,
    Code::QuietPrivate,
    Code::CoolingDown,
];

pub(super) fn group() -> Group {
    let follow = |operation: Operation| {
        operation
            .about(
                "Following again keeps the place in the list; another `quiet` changes the flag alone. A private account \
                 is asked: 202, state `pending`.",
            )
            .optional_body::<FollowBody>()
            .answers::<FollowJson>(StatusCode::CREATED, "Follows now")
            .answers::<FollowJson>(StatusCode::OK, "Followed already")
            .answers::<FollowJson>(StatusCode::ACCEPTED, "Asked; the account is private")
            .refuses(REFUSALS)
    };
    let unfollow = |operation: Operation| {
        operation
            .about("Cancels a request as well.")
            .answers::<UnfollowJson>(StatusCode::OK, "Does not follow, or not any more")
            .refuses(&[Code::UserNotFound, Code::CoolingDown])
    };
    let operations = vec![
        follow(
            post("/api/v1/users/{id}/follow", Access::Actor, follow_as_actor)
                .named("follow", "Follow a user, as the actor"),
        ),
        unfollow(
            delete("/api/v1/users/{id}/follow", Access::Actor, unfollow_as_actor)
                .named("unfollow", "Unfollow, as the actor"),
        ),
        follow(put(PAIR, Access::Own("id"), self::follow).named("put_follow", "Make the first user follow the second")),
        unfollow(
            delete(PAIR, Access::Own("id"), self::unfollow)
                .named("delete_follow", "Make the first user unfollow the second"),
        ),
        get(PAIR, Access::Anyone, get_one)
            .named("get_follow", "The edge between two users")
            .answers::<FollowJson>(StatusCode::OK, "The edge")
            .refuses(&[Code::NotFound, Code::UserNotFound, Code::ListsHidden]),
    ];
    Group::new("Follows", "Follow, unfollow, and the edge itself.", operations)
}

pub(super) async fn follow_as_actor(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target] = request.ids()?;
    let body: FollowBody = request.optional_body()?;
    followed(&service.graph.follow(&request.call, request.call.actor.user()?, target, body.quiet).await?)
}

pub(super) async fn follow(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [follower, target] = request.ids()?;
    let body: FollowBody = request.optional_body()?;
    followed(&service.graph.follow(&request.call, follower, target, body.quiet).await?)
}

pub(super) async fn unfollow_as_actor(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target] = request.ids()?;
    request.optional_body::<Nothing>()?;
    unfollowed(&service.graph.unfollow(&request.call, request.call.actor.user()?, target).await?)
}

pub(super) async fn unfollow(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [follower, target] = request.ids()?;
    request.optional_body::<Nothing>()?;
    unfollowed(&service.graph.unfollow(&request.call, follower, target).await?)
}

pub(super) async fn get_one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [follower, target] = request.ids()?;
    followed(&service.graph.get_follow(&request.call, follower, target).await?)
}

pub(super) fn followed(done: &Followed) -> Answer {
    let (status, body) = follow_reply(done);
    match &done.receipt {
        None => json(StatusCode::OK, body),
        Some(receipt) => written(status, body, receipt),
    }
}

/// Status and body for this outcome.
pub(super) fn follow_reply(done: &Followed) -> (StatusCode, FollowJson<'_>) {
    let active = done.edge.state == EdgeState::Active;
    let body = FollowJson {
        following: active,
        state: done.edge.state.as_str(),
        follower_id: done.follower.as_str(),
        followee_id: done.target.as_str(),
        created_at: done.edge.position.millis().to_rfc3339(),
        version: done.edge.version.to_string(),
        quiet: done.edge.quiet,
    };
    let status = match (active, done.created) {
        (false, _) => StatusCode::ACCEPTED,
        (true, true) => StatusCode::CREATED,
        (true, false) => StatusCode::OK,
    };
    (status, body)
}

pub(super) fn unfollowed(done: &Removed) -> Answer {
    written(StatusCode::OK, unfollow_reply(done), &done.receipt)
}

pub(super) fn unfollow_reply(done: &Removed) -> UnfollowJson {
    UnfollowJson { following: false, changed: done.changed }
}
