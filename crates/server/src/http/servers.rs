//! `GET /admin/servers`: which servers share the store, and which of them does what.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Millis;
use entourage_service::{LeaseView, ServerView, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    openapi::{Access, Group, get, schema::Time},
    request::ApiRequest,
    response::{Answer, json},
};

#[derive(Serialize, JsonSchema)]
struct ServerJson {
    /// Another one with each start.
    id: String,
    /// Whether it is the one that answers.
    this: bool,
    /// Host and process id.
    name: String,
    version: String,
    /// Of `http`, `resp`, `fanout`, `jobs`.
    roles: Vec<String>,
    /// The server number in its versions, where the store gives them out.
    number: Option<u16>,
    #[schemars(with = "Time")]
    started_at: String,
    #[schemars(with = "PresenceName")]
    state: &'static str,
    /// Since its last heartbeat, by the store's clock.
    heartbeat_age_seconds: f64,
    /// Those that it holds.
    leases: Vec<&'static str>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ServerState")]
#[allow(dead_code, reason = "described, never made")]
enum PresenceName {
    Alive,
    /// Connected, without a heartbeat.
    Silent,
    /// Without a connection.
    Gone,
}

#[derive(Serialize, JsonSchema)]
struct LeaseJson {
    #[schemars(with = "LeaseName")]
    name: &'static str,
    /// Each holder has a greater one; 0 where one process has the store.
    epoch: u64,
    /// The id of the server that took it last.
    holder: Option<String>,
    #[schemars(with = "Option<Time>")]
    since: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LeaseName")]
#[allow(dead_code, reason = "described, never made")]
enum LeaseName {
    Jobs,
    Scheduler,
    Audit,
    Leaderboard,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Servers")]
struct ServersJson {
    data: Vec<ServerJson>,
    leases: Vec<LeaseJson>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/servers", Access::Admin, list)
            .named("list_servers", "Servers of the store, and which of them does what")
            .answers::<ServersJson>(StatusCode::OK, "All that were heard of within ten minutes"),
    ];
    Group::new("Servers", "Several servers may share a store; one of them does each duty.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let seen = service.leases.servers(&request.call).await?;
    let data = seen.servers.into_iter().map(server).collect();
    json(StatusCode::OK, ServersJson { data, leases: seen.leases.into_iter().map(lease).collect() })
}

fn server(server: ServerView) -> ServerJson {
    ServerJson {
        id: server.id,
        this: server.is_this,
        name: server.name,
        version: server.version,
        roles: server.roles,
        number: server.number,
        started_at: server.started_at.to_rfc3339(),
        state: server.presence.as_str(),
        heartbeat_age_seconds: server.silent_for.as_secs_f64(),
        leases: server.leases,
    }
}

fn lease(lease: LeaseView) -> LeaseJson {
    let LeaseView { duty, epoch, holder, since } = lease;
    LeaseJson { name: duty.as_str(), epoch, holder, since: since.map(Millis::to_rfc3339) }
}
