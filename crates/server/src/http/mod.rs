//! REST: bytes to one service method to bytes. Nothing here decides anything.

mod admin;
mod answer;
mod asked;
mod batch;
mod blocks;
mod body;
mod checks;
mod derived;
mod events;
mod follows;
mod gate;
mod leaderboard;
mod lists;
mod mutes;
mod probes;
mod receive;
mod relationships;
mod requests;
mod tickets;
mod users;
mod whole;

use std::sync::Arc;

use axum::{
    Router,
    routing::{delete, get, post, put},
};
use entourage_model::{Code, Error};
use entourage_service::Service;
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use self::gate::Peer;
use self::{answer::Failure, gate::Gate};
use crate::front::Front;

/// The whole HTTP front.
pub fn router(service: Arc<Service>, front: Arc<Front>) -> Router {
    let gate = Gate { front: Arc::clone(&front), service: Arc::clone(&service) };
    Router::new()
        .route("/api/v1/users/{id}", put(users::put).patch(users::patch).get(users::get))
        .route("/api/v1/users/{id}/follow", post(follows::follow_as_actor).delete(follows::unfollow_as_actor))
        .route("/api/v1/users/{id}/following/{other}", put(follows::follow).get(follows::get).delete(follows::unfollow))
        .route("/api/v1/users/{id}/followers", get(lists::followers))
        .route("/api/v1/users/{id}/following", get(lists::following))
        .route("/api/v1/users/{id}/is-following/{other}", get(checks::one))
        .route("/api/v1/users/{id}/is-following", post(checks::each))
        .route("/api/v1/checks", post(checks::pairs))
        .route("/api/v1/users/{id}/blocks/{other}", put(blocks::block).merge(delete(blocks::unblock)))
        .route("/api/v1/users/{id}/blocks", get(blocks::list))
        .route("/api/v1/tickets", post(tickets::issue))
        .route("/api/v1/users/{id}/follow-requests", get(requests::list))
        .route("/api/v1/users/{id}/follow-requests/{other}/accept", post(requests::accept))
        .route("/api/v1/users/{id}/follow-requests/{other}/reject", post(requests::reject))
        .route("/api/v1/users/{id}/followers/{other}", delete(requests::remove_follower))
        .route("/api/v1/users/{id}/mutes/{other}", put(mutes::mute).merge(delete(mutes::unmute)))
        .route("/api/v1/users/{id}/mutes", get(mutes::list))
        .route("/api/v1/follows:batch", post(batch::run))
        .route("/api/v1/users/{id}/relationships", get(relationships::by_query).post(relationships::by_body))
        .route("/api/v1/users/{id}/mutuals", get(derived::mutuals))
        .route("/api/v1/users/{id}/not-following-back", get(derived::not_following_back))
        .route("/api/v1/users/{id}/common-following/{other}", get(derived::common_following))
        .route("/api/v1/users/{id}/followers-you-know", get(derived::followers_you_know))
        .route("/api/v1/users/{id}/distance/{other}", get(derived::distance))
        .route("/api/v1/leaderboards/followers", get(leaderboard::followers))
        .route("/api/v1/events", get(events::list))
        .route(admin::BACKUP, post(admin::backup))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/version", get(probes::version))
        .route("/metrics", get(probes::metrics))
        .fallback(async || Failure(Error::new(Code::NotFound, "no such route")))
        .method_not_allowed_fallback(async || {
            Failure(Error::new(Code::MethodNotAllowed, "the header Allow lists the methods of this route"))
        })
        .layer(axum::middleware::from_fn(receive::collect_body))
        .layer(CatchPanicLayer::custom(receive::answer_panic))
        .layer(axum::middleware::from_fn_with_state(gate, gate::admit))
        .layer(axum::Extension(Arc::clone(&front)))
        .layer(axum::middleware::from_fn_with_state(front, receive::observe))
        .with_state(service)
}
