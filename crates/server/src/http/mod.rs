//! REST: parses a request, calls one service method, encodes the reply. It decides nothing.

mod abuse;
mod admin;
mod batch;
mod blocks_and_mutes;
mod body;
mod checks;
mod compression;
mod cors;
mod cross_site;
mod derived;
mod docs;
mod events;
mod fanout;
mod feed;
mod follows;
mod gate;
mod groups;
mod history;
mod jobs;
mod leaderboard;
mod list_stream;
mod lists;
mod notifications;
mod openapi;
mod parked;
mod percent_encoding;
mod posts;
mod probes;
mod receive;
mod relationships;
mod request;
mod requests;
mod response;
mod servers;
mod signals;
mod sse;
mod suggestions;
mod tickets;
mod trace;
mod upkeep;
mod users;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{MethodRouter, any},
};
use entourage_model::{Code, Error};
use entourage_service::Service;
use tower::{ServiceBuilder, util::option_layer};
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use self::gate::{Peer, Reserved};
use self::{
    gate::Gate,
    openapi::{Access, App, Group, Operation, Policy},
    receive::Receiver,
    response::Failure,
};
use crate::{front::Front, metrics::Routes};

/// All operations, in the order of the document.
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
        suggestions::group(),
        blocks_and_mutes::blocks(),
        blocks_and_mutes::mutes(),
        groups::group(),
        history::group(),
        posts::group(),
        feed::group(),
        notifications::group(),
        events::group(),
        tickets::group(),
        signals::group(),
        jobs::group(),
        servers::group(),
        admin::group(),
        parked::group(),
        fanout::group(),
        abuse::group(),
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
    router_of(groups(), service, front)
}

fn router_of(groups: Vec<Group>, service: Arc<Service>, front: Arc<Front>) -> Router {
    let gate = |policy| Gate { policy, front: Arc::clone(&front), service: Arc::clone(&service) };
    let operations: Vec<_> = groups.into_iter().flat_map(|group| group.operations).collect();
    let routes = Routes::new(operations.iter().map(|operation| (operation.path, operation.method.clone())));
    let mut policies = BTreeMap::<_, Vec<_>>::new();
    for Operation { path, policy, .. } in &operations {
        policies.entry(*path).or_default().push(*policy);
    }
    let others = policies.into_iter().map(|(path, policies)| {
        let not_allowed = behind(gate(Policy::of_other_methods(&policies)), any(method_not_allowed));
        (path, MethodRouter::new().fallback(not_allowed))
    });
    let known =
        operations.into_iter().map(|operation| (operation.path, behind(gate(operation.policy), operation.route)));
    let router = Router::new().fallback(behind(gate(Policy::new(Access::Open)), any(not_found)));
    others
        .chain(known)
        .fold(router, |router, (path, methods)| router.route(path, methods))
        .layer(compression::layer())
        .layer(option_layer(cors::layer(&front.cors_origins)))
        .layer(axum::Extension(front))
        .layer(from_fn_with_state(Receiver { routes: Arc::new(routes) }, receive::observe))
        .with_state(service)
}

/// The route inside the layers that enforce its policy.
fn behind(gate: Gate, route: MethodRouter<App>) -> MethodRouter<App> {
    route.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(gate.clone(), receive::bound))
            .layer(from_fn_with_state(gate.clone(), gate::admit))
            .layer(CatchPanicLayer::custom(receive::answer_panic))
            .layer(from_fn_with_state(gate, receive::collect_body)),
    )
}

async fn not_found() -> Failure {
    Failure(Error::new(Code::NotFound, "no such route"))
}

async fn method_not_allowed() -> Failure {
    Failure(Error::new(Code::MethodNotAllowed, "the header Allow lists the methods of this route"))
}
