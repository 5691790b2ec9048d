//! What an operator can ask of an open store beyond its contract, where the backend has it.

use std::path::Path;

use async_trait::async_trait;
use entourage_model::{EdgeChange, Key, Kind, Result, Sequence};
use serde::Serialize;

/// What a recount looked at, and what it set right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recounted {
    /// Users whose lists were counted.
    pub users: u64,
    /// Lists whose count was another one.
    pub corrected: u64,
}

/// An edge by its ends, whatever its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeName {
    pub kind: Kind,
    pub follower: Key,
    pub target: Key,
}

impl From<&EdgeChange> for EdgeName {
    fn from(change: &EdgeChange) -> Self {
        Self { kind: change.kind, follower: change.follower, target: change.target }
    }
}

/// Edges that were written one after the other, as far as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEdges {
    pub read_to: Sequence,
    pub edges: Vec<EdgeChange>,
}

/// What a healer looked at, and what it set right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    pub looked: u64,
    /// Edges whose target's side was another one than the follower's.
    pub mended: Vec<EdgeName>,
    /// Edges that were left as they are: the follower's side cannot be read, or does not agree with itself.
    pub unclear: Vec<EdgeName>,
}

#[async_trait]
pub trait Maintenance: Send + Sync + 'static {
    /// Copies everything into an empty or missing folder of this machine while writers run; how many bytes that were.
    async fn backup(&self, folder: &Path) -> Result<u64>;

    /// Leaves no byte of erased users on the disk: events up to now go with the log that holds them.
    async fn erase_now(&self) -> Result<()>;

    /// Counts the lists of a user, or of everybody, and sets right what the counts say, while writers run.
    async fn recount(&self, user: Option<Key>) -> Result<Recounted>;

    /// Whether the two directions of an edge are kept apart, so that one could lack what the other has. Where one row
    /// is both there is nothing to heal, and what follows finds nothing.
    fn has_mirrors(&self) -> bool;

    /// Edges that were changed after `after`, oldest first, among the next `limit` changes of anything.
    async fn changed_edges(&self, after: Sequence, limit: usize) -> Result<ChangedEdges>;

    /// Those whose directions differ at this moment, where these changes left something or should have: a cheap look
    /// beside writers, which may take one that is being written for one that differs.
    async fn differing(&self, changes: Vec<EdgeChange>) -> Result<Vec<EdgeChange>>;

    /// Makes the target's side of each edge, and the count of the list it stands in, what the follower's side says.
    /// No write comes between the look and the change. An edge whose sides agree is left alone; there is no event.
    async fn heal(&self, edges: &[EdgeName]) -> Result<Healed>;
}
