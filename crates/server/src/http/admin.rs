//! `POST /admin/backup` and `/admin/erase-now`, `PUT DELETE /admin/users/{id}/suspend`: for operators.

use std::{path::PathBuf, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{Service, Suspended};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::Nothing,
    openapi::{Access, Group, delete, post, put, schema::Id},
    request::ApiRequest,
    response::{Answer, json, written},
};

const SUSPEND: &str = "/api/v1/admin/users/{id}/suspend";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BackupBody {
    /// An empty or missing folder of the server's machine.
    to: PathBuf,
}

#[derive(Serialize, JsonSchema)]
struct BackupJson {
    to: PathBuf,
    bytes: u64,
}

#[derive(Serialize, JsonSchema)]
struct ErasedJson {
    erased: bool,
}

#[derive(Serialize, JsonSchema)]
struct SuspendedJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    follow_suspended: bool,
    changed: bool,
}

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/admin/backup", Access::Admin, backup)
            .named("backup", "Copy the embedded store while it goes on serving")
            .about("Answers when the copy is whole. It has no deadline.")
            .takes_long()
            .body::<BackupBody>()
            .answers::<BackupJson>(StatusCode::OK, "The copy is whole")
            .refuses(&[Code::InvalidRequest]),
        post("/api/v1/admin/erase-now", Access::Admin, erase_now)
            .named("erase_now", "Leave no byte of erased users on the disk")
            .about("Finishes jobs, then drops the log up to now, events with it. It has no deadline.")
            .takes_long()
            .answers::<ErasedJson>(StatusCode::OK, "Nothing of them is left"),
        put(SUSPEND, Access::Admin, suspend)
            .named("suspend_user", "Take a user's right to follow")
            .about("Following is 403 `follow_suspended` until it is given back. Edges stay.")
            .answers::<SuspendedJson>(StatusCode::OK, "Suspended, now or before")
            .refuses(&[Code::UserNotFound]),
        delete(SUSPEND, Access::Admin, unsuspend)
            .named("unsuspend_user", "Give a user the right to follow back")
            .answers::<SuspendedJson>(StatusCode::OK, "Not suspended, or not any more")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Administration", "For whoever runs the server.", operations)
}

pub(super) async fn backup(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let BackupBody { to } = request.body()?;
    let bytes = service.transfer.backup(&request.call, &to).await?;
    json(StatusCode::OK, BackupJson { to, bytes })
}

pub(super) async fn erase_now(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    request.optional_body::<Nothing>()?;
    service.jobs.erase_now(&request.call).await?;
    json(StatusCode::OK, ErasedJson { erased: true })
}

pub(super) async fn suspend(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    suspended(&service.graph.suspend(&request.call, id.clone(), true).await?, true)
}

pub(super) async fn unsuspend(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    suspended(&service.graph.suspend(&request.call, id.clone(), false).await?, false)
}

fn suspended(done: &Suspended, follow_suspended: bool) -> Answer {
    let body = SuspendedJson { id: done.id.as_str(), follow_suspended, changed: done.changed };
    written(StatusCode::OK, body, &done.receipt)
}
