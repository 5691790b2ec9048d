//! The audit log: one JSON object per line for each block, each admin action and each rejected caller, written before
//! the response is sent. It holds no credentials, and client input never leaves its field. Records do not depend on
//! the log level; a record that cannot be written is counted.

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
use crate::{audit_throttle::AuditThrottle, config::ConfigError};

/// How long a response waits for its record.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Who did what to whom, from where, with which result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record<'a> {
    pub(crate) time: String,
    pub(crate) action: &'a str,
    /// The acting user; `None` for a service or an unknown caller.
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
    /// Records of this address suppressed since its last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Without a file, records go to standard error.
#[derive(Default)]
pub struct Audit {
    sink: Sink,
    pub(crate) throttle: AuditThrottle,
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
    /// A line was partly written: the next record starts a new one.
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

/// The state of a record.
enum Handed {
    Written(bool),
    /// Receives whether it was written.
    Waiting(oneshot::Receiver<bool>),
}

impl Audit {
    pub fn open(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let broken =
            |error: std::io::Error| ConfigError::File { file: path.display().to_string(), detail: error.to_string() };
        let appended = Appended { file: append(path).map_err(broken)?, is_torn: false };
        Ok(Self { sink: Sink::File(path.to_owned(), appended.into()), throttle: AuditThrottle::default() })
    }

    pub(crate) fn nowhere() -> Self {
        Self { sink: Sink::Nowhere, throttle: AuditThrottle::default() }
    }

    /// Whether the file can be opened. Removes it again if this created it.
    pub(crate) fn check(path: Option<&Path>) -> Result<(), ConfigError> {
        let was_there = path.is_none_or(Path::exists);
        Self::open(path)?;
        if let Some(path) = path.filter(|_| !was_there) {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// After log rotation.
    pub(crate) fn reopen(&self) {
        let Sink::File(path, appended) = &self.sink else { return };
        match (append(path), appended.lock()) {
            (Ok(file), Ok(mut appended)) => *appended = Appended { file, is_torn: false },
            (Err(error), _) => tracing::error!(%error, "the audit log cannot be opened again; the old file is used on"),
            (_, Err(_)) => tracing::error!("the audit log is lost"),
        }
    }

    /// Waits until the record is written, has failed or timed out; returns whether it is written.
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

    /// Writes without waiting.
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
