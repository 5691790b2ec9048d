//! `POST /admin/backup`: for whoever runs the server.

use std::{path::PathBuf, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_service::Service;
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json},
    asked::Asked,
};

/// Takes as long as the copy does.
pub(super) const BACKUP: &str = "/api/v1/admin/backup";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupBody {
    to: PathBuf,
}

#[derive(Serialize)]
struct BackupJson {
    to: PathBuf,
    bytes: u64,
}

pub(super) async fn backup(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let BackupBody { to } = asked.body()?;
    let bytes = service.backup(&asked.call, &to).await?;
    json(StatusCode::OK, BackupJson { to, bytes })
}
