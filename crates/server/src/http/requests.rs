//! `GET /users/{id}/follow-requests`, `POST …:accept-all`, `…/{from}/accept` and `/reject`, `DELETE /users/{id}/followers/{f}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::Service;

use super::{
    body::Nothing,
    follows::{FollowJson, UnfollowJson, followed, unfollowed},
    jobs::{StartedJson, started},
    lists::{ListQuery, PageJson, page},
    openapi::{Access, Group, delete, get, post},
    request::ApiRequest,
    response::Answer,
};

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/follow-requests", Access::Own("id"), list)
            .named("list_follow_requests", "Who asks to follow a user, newest first")
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/users/{id}/follow-requests/{other}/accept", Access::Own("id"), accept)
            .named("accept_request", "Accept a request")
            .about("Counts no quota, but `limits.following_max` of whoever asked.")
            .answers::<FollowJson>(StatusCode::OK, "Follows, now or already")
            .answers::<FollowJson>(StatusCode::CREATED, "Follows now")
            .refuses(&[Code::NotFound, Code::UserNotFound, Code::Blocked, Code::FollowingLimit]),
        post("/api/v1/users/{id}/follow-requests:accept-all", Access::Own("id"), accept_all)
            .named("accept_all_requests", "Accept every request that was made so far")
            .answers::<StartedJson>(StatusCode::ACCEPTED, "A job accepts them")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/users/{id}/follow-requests/{other}/reject", Access::Own("id"), reject)
            .named("reject_request", "Reject a request")
            .answers::<UnfollowJson>(StatusCode::OK, "Rejected")
            .refuses(&[Code::NotFound, Code::UserNotFound]),
        delete("/api/v1/users/{id}/followers/{other}", Access::Own("id"), remove_follower)
            .named("remove_follower", "Remove a follower")
            .answers::<UnfollowJson>(StatusCode::OK, "Does not follow, or not any more")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Requests", "A private account accepts or rejects who asks to follow it.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([target], query) = request.list()?;
    let found = service.graph.follow_requests(&request.call, target, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

pub(super) async fn accept(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target, follower] = request.ids()?;
    request.optional_body::<Nothing>()?;
    followed(&service.graph.accept(&request.call, target, follower).await?)
}

pub(super) async fn accept_all(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target] = request.ids()?;
    request.optional_body::<Nothing>()?;
    started(&service.jobs.accept_all(&request.call, target).await?)
}

pub(super) async fn reject(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target, follower] = request.ids()?;
    request.optional_body::<Nothing>()?;
    unfollowed(&service.graph.reject(&request.call, target, follower).await?)
}

pub(super) async fn remove_follower(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [target, follower] = request.ids()?;
    request.optional_body::<Nothing>()?;
    unfollowed(&service.graph.remove_follower(&request.call, target, follower).await?)
}
