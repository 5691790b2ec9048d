//! `GET /users/{id}/follow-requests`, `POST …/{from}/accept` and `/reject`, `DELETE /users/{id}/followers/{f}`.

use std::sync::Arc;

use axum::extract::State;
use entourage_service::Service;

use super::{
    answer::Answer,
    asked::Asked,
    body::Nothing,
    follows::{followed, unfollowed},
    lists::{ListQuery, page},
};

pub(super) async fn list(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target] = asked.ids()?;
    let query: ListQuery = asked.query()?;
    let found = service.follow_requests(&asked.call, target, query.cursor(), query.limit()?).await?;
    page(&asked, &query, found)
}

pub(super) async fn accept(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target, follower] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    followed(&service.accept(&asked.call, target, follower).await?)
}

pub(super) async fn reject(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target, follower] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    unfollowed(&service.reject(&asked.call, target, follower).await?)
}

pub(super) async fn remove_follower(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [target, follower] = asked.ids()?;
    asked.optional_body::<Nothing>()?;
    unfollowed(&service.remove_follower(&asked.call, target, follower).await?)
}
