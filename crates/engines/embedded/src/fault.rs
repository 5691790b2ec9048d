//! Failures below the rules, and how callers see them.

use std::{io, sync::Arc};

use entourage_model::{Code, Error};

use crate::codec::Corrupt;

/// A failure of the file layer or of what it holds.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    #[error("{file} is damaged at byte {offset}: {what}; restore a backup")]
    Damaged { file: String, offset: u64, what: String },
    #[error("{file} has format {found}, this version reads up to {known}; use a newer entourage")]
    Format { file: String, found: u16, known: u16 },
    #[error("{0} is in use by another process; stop it first, or choose another --data folder")]
    InUse(String),
    /// What earlier writes left on disk is unknown.
    #[error("a sync failed: {0}")]
    NotDurable(#[source] Arc<io::Error>),
    #[error("the thread {0} ended; start again to recover")]
    ThreadEnded(&'static str),
    /// A block moved between lookup and read; retry.
    #[error("a block was moved while it was read")]
    Moved,
    /// A read that must not wait would have to; retried on a thread that may.
    #[error("a read would have to wait for the disk")]
    WouldBlock,
    #[error("the store is closed")]
    Closed,
}

impl Fault {
    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.into(), offset, what: what.into() }
    }

    /// A file that must exist could not be opened.
    pub(crate) fn opening(name: &str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::damaged(name, 0, "the file is missing"),
            _ => error.into(),
        }
    }

    /// After a failed sync the data may be on disk or not, whatever a later sync says.
    pub(crate) fn not_durable(error: io::Error) -> Self {
        Self::NotDurable(Arc::new(error))
    }

    pub(crate) fn corrupt(file: impl Into<String>, offset: u64, corrupt: Corrupt) -> Self {
        Self::damaged(file, offset, corrupt.0)
    }

    /// Puts the folder before a bare file name. Errors of the file layer have the whole path already.
    #[must_use]
    pub fn in_folder(mut self, folder: &str) -> Self {
        if let Self::Damaged { file, .. } | Self::Format { file, .. } = &mut self {
            *file = std::path::Path::new(folder).join(&*file).display().to_string();
        }
        self
    }

    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let code = match &fault {
            _ if fault.is_full() => Code::StorageFull,
            Fault::Damaged { .. } | Fault::Format { .. } => Code::Internal,
            _ => Code::Unavailable,
        };
        Self::new(code, fault.to_string()).caused_by(fault)
    }
}
