//! `POST DELETE /users/{target}/follow` for the actor, `PUT GET DELETE /users/{a}/following/{b}` for a service.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::State as EdgeState;
use entourage_service::{Followed, Service, Unfollowed};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json, written},
    asked::Asked,
    body::Nothing,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FollowBody {
    #[serde(default)]
    quiet: bool,
}

#[derive(Serialize)]
pub(super) struct FollowJson<'a> {
    following: bool,
    state: &'static str,
    follower_id: &'a str,
    followee_id: &'a str,
    created_at: String,
    version: String,
    quiet: bool,
}

#[derive(Serialize)]
pub(super) struct UnfollowJson {
    following: bool,
    changed: bool,
}

pub(super) async fn follow_as_actor(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target] = asked.ids()?;
    let body: FollowBody = asked.optional_body()?;
    followed(&service.follow(&asked.call, asked.call.actor.user()?, target, body.quiet).await?)
}

pub(super) async fn follow(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [follower, target] = asked.ids()?;
    let body: FollowBody = asked.optional_body()?;
    followed(&service.follow(&asked.call, follower, target, body.quiet).await?)
}

pub(super) async fn unfollow_as_actor(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    unfollowed(&service.unfollow(&asked.call, asked.call.actor.user()?, target).await?)
}

pub(super) async fn unfollow(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [follower, target] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    unfollowed(&service.unfollow(&asked.call, follower, target).await?)
}

pub(super) async fn get(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [follower, target] = asked.ids()?;
    followed(&service.get_follow(&asked.call, follower, target).await?)
}

pub(super) fn followed(done: &Followed) -> Answer {
    let (status, body) = follow_reply(done);
    match &done.receipt {
        None => json(StatusCode::OK, body),
        Some(receipt) => written(status, body, receipt),
    }
}

/// The status of a write that came to this, and its body.
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

pub(super) fn unfollowed(done: &Unfollowed) -> Answer {
    written(StatusCode::OK, unfollow_reply(done), &done.receipt)
}

pub(super) fn unfollow_reply(done: &Unfollowed) -> UnfollowJson {
    UnfollowJson { following: false, changed: done.changed }
}
