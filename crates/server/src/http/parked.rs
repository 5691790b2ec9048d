//! `GET /admin/users/{id}/parked`, `POST …:accept` and `…:drop`: follows in quarantine.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::Service;

use super::{
    body::Nothing,
    jobs::{StartedJson, started},
    lists::{ListQuery, PageJson, page},
    openapi::{Access, Group, get, post},
    request::ApiRequest,
    response::Answer,
};

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/users/{id}/parked", Access::Admin, list)
            .named("list_parked", "Whose follows of a user are parked, newest first")
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/admin/users/{id}/parked:accept", Access::Admin, accept)
            .named("accept_parked", "Accept every follow of a user that was parked so far")
            .about("They become active, or requests if the account is private.")
            .audited("parked.accept")
            .answers::<StartedJson>(StatusCode::ACCEPTED, "A job accepts them")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/admin/users/{id}/parked:drop", Access::Admin, drop_all)
            .named("drop_parked", "Drop every follow of a user that was parked so far")
            .audited("parked.drop")
            .answers::<StartedJson>(StatusCode::ACCEPTED, "A job drops them")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Quarantine", "Follows that were parked because fresh accounts surged on their target.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([target], query) = request.list()?;
    let found = service.graph.parked_followers(&request.call, target, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

pub(super) async fn accept(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    release(&service, &request, true).await
}

pub(super) async fn drop_all(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    release(&service, &request, false).await
}

async fn release(service: &Service, request: &ApiRequest, accept: bool) -> Answer {
    let [target] = request.ids()?;
    request.optional_body::<Nothing>()?;
    started(&service.jobs.release_parked(&request.call, target, accept).await?)
}
