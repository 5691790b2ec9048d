//! REST: bytes to one service method to bytes. Nothing here decides anything.

mod admin;
mod answer;
mod asked;
mod batch;
mod blocks;
mod body;
mod checks;
mod compression;
mod cors;
mod derived;
mod docs;
mod escapes;
mod events;
mod fanout;
mod feed;
mod follows;
mod foreign;
mod gate;
mod groups;
mod history;
mod jobs;
mod leaderboard;
mod lists;
mod mutes;
mod notifications;
mod openapi;
mod posts;
mod probes;
mod receive;
mod relationships;
mod requests;
mod sse;
mod tickets;
mod trace;
mod upkeep;
mod users;
mod whole;

use std::sync::Arc;

use axum::Router;
use entourage_model::{Code, Error};
use entourage_service::Service;
use tower::util::option_layer;
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use self::gate::{Peer, Reserved};
use self::{answer::Failure, gate::Gate, openapi::Group, receive::Receiver};
use crate::{front::Front, metrics::Routes};

/// Every operation there is, in the order of the document.
fn groups() -> Vec<Group> {
    vec![
        users::group(),
        follows::group(),
        requests::group(),
        batch::group(),
        lists::group(),
        checks::group(),
        relationships::group(),
        derived::group(),
        leaderboard::group(),
        blocks::group(),
        mutes::group(),
        groups::group(),
        history::group(),
        posts::group(),
        feed::group(),
        notifications::group(),
        events::group(),
        tickets::group(),
        jobs::group(),
        admin::group(),
        fanout::group(),
        upkeep::group(),
        probes::group(),
        docs::group(),
    ]
}

/// The OpenAPI document.
pub fn document() -> serde_json::Value {
    openapi::document(&groups())
}

/// The whole HTTP front.
pub fn router(service: Arc<Service>, front: Arc<Front>) -> Router {
    let gate = Gate { front: Arc::clone(&front), service: Arc::clone(&service) };
    let operations: Vec<_> = groups().into_iter().flat_map(|group| group.operations).collect();
    let routes = Routes::new(operations.iter().map(|operation| (operation.path, operation.method.clone())));
    let receiver = Receiver { routes: Arc::new(routes) };
    operations
        .into_iter()
        .fold(Router::new(), |router, operation| router.route(operation.path, operation.route))
        .fallback(async || Failure(Error::new(Code::NotFound, "no such route")))
        .method_not_allowed_fallback(async || {
            Failure(Error::new(Code::MethodNotAllowed, "the header Allow lists the methods of this route"))
        })
        .layer(axum::middleware::from_fn(receive::collect_body))
        .layer(CatchPanicLayer::custom(receive::answer_panic))
        .layer(axum::middleware::from_fn_with_state(gate, gate::admit))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&front), receive::bound))
        .layer(compression::layer())
        .layer(option_layer(cors::layer(&front.cors_origins)))
        .layer(axum::Extension(front))
        .layer(axum::middleware::from_fn_with_state(receiver, receive::observe))
        .with_state(service)
}
