//! What an operator can ask of an open store beyond its contract, where the backend has it.

use std::path::Path;

use async_trait::async_trait;
use entourage_model::{Key, Result};
use serde::Serialize;

/// What a recount looked at, and what it set right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recounted {
    /// Users whose lists were counted.
    pub users: u64,
    /// Lists whose count was another one.
    pub corrected: u64,
}

#[async_trait]
pub trait Maintenance: Send + Sync + 'static {
    /// Copies everything into an empty or missing folder of this machine while writers run; how many bytes that were.
    async fn backup(&self, folder: &Path) -> Result<u64>;

    /// Leaves no byte of erased users on the disk: events up to now go with the log that holds them.
    async fn erase_now(&self) -> Result<()>;

    /// Counts the lists of a user, or of everybody, and sets right what the counts say, while writers run.
    async fn recount(&self, user: Option<Key>) -> Result<Recounted>;
}
