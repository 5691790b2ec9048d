//! The processes that share a store, as the store knows them.

use std::time::Duration;

/// One process that uses a store and says so with a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Drawn at random by the process.
    pub id: u64,
    /// What the process says of itself.
    pub about: Box<str>,
    /// The server number in its versions.
    pub number: Option<u16>,
    /// Time since its last heartbeat, by the store's clock.
    pub silent_for: Duration,
    /// Whether it has a connection to the store. A killed process has none; a paused one does.
    pub is_connected: bool,
}
