//! The audit log: one JSON object a line for each block, each action of an admin and each caller who was not let in,
//! written before the answer goes out. It holds no credential, and whatever a client sends stays within its field.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde::Serialize;

use crate::{config::ConfigError, strangers::Strangers};

/// Who did what to whom, from where, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record<'a> {
    pub(crate) time: String,
    pub(crate) action: &'a str,
    /// The acting user; `None` is a service for nobody in particular, or nobody who is known.
    pub(crate) actor: Option<&'a str>,
    pub(crate) credential: &'a str,
    /// The name of a service key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<&'a str>,
    pub(crate) method: &'a str,
    /// The path as it was sent, without its query.
    pub(crate) target: &'a str,
    pub(crate) result: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) source: &'a str,
    /// Records of the same address that were left out since its last.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Without a file the records go to the server's own log, under the target `audit`.
#[derive(Default)]
pub struct Audit {
    file: Option<(PathBuf, Mutex<File>)>,
    pub(crate) strangers: Strangers,
}

impl Audit {
    pub fn open(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let broken =
            |error: std::io::Error| ConfigError::File { file: path.display().to_string(), detail: error.to_string() };
        let file = append(path).map_err(broken)?;
        Ok(Self { file: Some((path.to_owned(), Mutex::new(file))), strangers: Strangers::default() })
    }

    /// Whether it could be opened. A file that is there for that alone goes again.
    pub(crate) fn check(path: Option<&Path>) -> Result<(), ConfigError> {
        let was_there = path.is_none_or(Path::exists);
        Self::open(path)?;
        if let Some(path) = path.filter(|_| !was_there) {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// After the file was moved away.
    pub(crate) fn reopen(&self) {
        let Some((path, file)) = &self.file else { return };
        match (append(path), file.lock()) {
            (Ok(fresh), Ok(mut file)) => *file = fresh,
            (Err(error), _) => tracing::error!(%error, "the audit log cannot be opened again; the old file is used on"),
            (_, Err(_)) => tracing::error!("the audit log is lost"),
        }
    }

    pub(crate) fn write(&self, record: &Record<'_>) {
        let Ok(mut line) = serde_json::to_vec(record) else { return };
        let Some((_, file)) = &self.file else {
            let record = String::from_utf8_lossy(&line);
            tracing::info!(target: "audit", %record);
            return;
        };
        line.push(b'\n');
        let written = file.lock().map(|mut file| file.write_all(&line));
        if !matches!(written, Ok(Ok(()))) {
            let record = String::from_utf8_lossy(&line);
            tracing::error!(target: "audit", %record, "the audit log cannot be written");
        }
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
