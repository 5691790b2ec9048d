//! The audit log: one JSON object a line for each block, each action of an admin and each caller who was not let in,
//! written before the answer goes out. It holds no credential, and whatever a client sends stays within its field. No
//! level of the process's own log leaves a record out, and one that could not be written is counted.

mod standard_error;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use metrics::counter;
use serde::Serialize;
use tokio::sync::oneshot;

use self::standard_error::StandardError;
use crate::{config::ConfigError, strangers::Strangers};

/// How long an answer waits for its record to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Without a file the records go to standard error, beside the lines of the process's own log.
#[derive(Default)]
pub struct Audit {
    sink: Sink,
    pub(crate) strangers: Strangers,
}

enum Sink {
    File(PathBuf, Mutex<Appended>),
    StandardError(StandardError),
    Nowhere,
}

impl Default for Sink {
    fn default() -> Self {
        Self::StandardError(StandardError::default())
    }
}

struct Appended {
    file: File,
    /// A line was begun and not finished: the next one must not go on in it.
    is_torn: bool,
}

impl Appended {
    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        self.is_torn = true;
        self.file.write_all(line)?;
        self.is_torn = false;
        Ok(())
    }
}

/// What became of a record so far.
enum Handed {
    Written(bool),
    /// Whether it was written is said here.
    Waiting(oneshot::Receiver<bool>),
}

impl Audit {
    pub fn open(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let broken =
            |error: std::io::Error| ConfigError::File { file: path.display().to_string(), detail: error.to_string() };
        let appended = Appended { file: append(path).map_err(broken)?, is_torn: false };
        Ok(Self { sink: Sink::File(path.to_owned(), appended.into()), strangers: Strangers::default() })
    }

    pub(crate) fn nowhere() -> Self {
        Self { sink: Sink::Nowhere, strangers: Strangers::default() }
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
        let Sink::File(path, appended) = &self.sink else { return };
        match (append(path), appended.lock()) {
            (Ok(file), Ok(mut appended)) => *appended = Appended { file, is_torn: false },
            (Err(error), _) => tracing::error!(%error, "the audit log cannot be opened again; the old file is used on"),
            (_, Err(_)) => tracing::error!("the audit log is lost"),
        }
    }

    /// Returns when the record is written, or when that has failed or takes too long; whether it is.
    pub(crate) async fn write(&self, record: &Record<'_>) -> bool {
        let written = match self.hand_over(record, true) {
            Handed::Written(written) => written,
            Handed::Waiting(done) => match tokio::time::timeout(WRITE_TIMEOUT, done).await {
                Ok(written) => written.unwrap_or(false),
                Err(_) => {
                    self.stalled();
                    false
                }
            },
        };
        if !written {
            not_written();
        }
        written
    }

    /// Where nobody waits for an answer.
    pub(crate) fn note(&self, record: &Record<'_>) {
        if let Handed::Written(false) = self.hand_over(record, false) {
            not_written();
        }
    }

    fn hand_over(&self, record: &Record<'_>, tells: bool) -> Handed {
        let Ok(mut line) = serde_json::to_vec(record) else { return Handed::Written(false) };
        match &self.sink {
            Sink::Nowhere => Handed::Written(true),
            Sink::StandardError(standard_error) => standard_error.put(record.time.as_str(), &line, tells),
            Sink::File(_, appended) => {
                line.push(b'\n');
                let written = appended.lock().map(|mut appended| appended.append(&line));
                let is_written = matches!(written, Ok(Ok(())));
                if !is_written {
                    let record = String::from_utf8_lossy(&line);
                    tracing::error!(target: "audit", %record, "the audit log cannot be written");
                }
                Handed::Written(is_written)
            }
        }
    }

    fn stalled(&self) {
        if let Sink::StandardError(standard_error) = &self.sink {
            standard_error.stalled();
        }
    }
}

fn not_written() {
    counter!("entourage_audit_unwritten_total").increment(1);
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
