//! `POST /admin/backup`: for whoever runs the server.

use std::{path::PathBuf, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
    openapi::{Access, Group, post},
};

/// Takes as long as the copy does.
pub(super) const BACKUP: &str = "/api/v1/admin/backup";

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

pub(super) fn group() -> Group {
    let operations = vec![
        post(BACKUP, backup)
            .named("backup", "Copy the embedded store while it goes on serving")
            .about("Answers when the copy is whole. It has no deadline.")
            .access(Access::Admin)
            .body::<BackupBody>()
            .answers::<BackupJson>(StatusCode::OK, "The copy is whole")
            .refuses(&[Code::InvalidRequest]),
    ];
    Group::new("Administration", "For whoever runs the server.", operations)
}

pub(super) async fn backup(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let BackupBody { to } = asked.body()?;
    let bytes = service.backup(&asked.call, &to).await?;
    json(StatusCode::OK, BackupJson { to, bytes })
}
