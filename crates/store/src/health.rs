//! Whether a store accepts writes, and why not.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// Reads go on; why writes do not, or will not for long.
    Degraded(Unhealthy),
}

/// Shown to people as `reason: detail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhealthy {
    /// No write is accepted until the store is reopened.
    Poisoned(String),
    MemoryFull,
    StorageFull(String),
    NoLogFile(String),
    /// Writes are accepted, but memory and log grow.
    NoCheckpoint(String),
    /// Another process may write, this store may not.
    ReadOnly(String),
    /// The clock of this process differs from the store's by too much.
    WrongClock(String),
    /// The engine behind the store does not answer as it should.
    Unreachable(String),
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned(detail) => write!(formatter, "poisoned: {detail}"),
            Self::MemoryFull => formatter.write_str("memory full: memory.budget is used up"),
            Self::StorageFull(detail) => write!(formatter, "storage full: {detail}"),
            Self::NoLogFile(detail) => write!(formatter, "no new log file: {detail}"),
            Self::NoCheckpoint(detail) => write!(formatter, "no checkpoint can be made: {detail}"),
            Self::WrongClock(detail) => write!(formatter, "wrong clock: {detail}"),
            Self::ReadOnly(detail) | Self::Unreachable(detail) => formatter.write_str(detail),
        }
    }
}
