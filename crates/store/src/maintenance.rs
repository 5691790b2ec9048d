//! What an operator can request of an open store beyond its contract, where the backend supports it.

use std::path::Path;

use async_trait::async_trait;
use entourage_model::{EdgeChange, Key, Kind, Result, Sequence};
use serde::Serialize;

/// What a recount checked and corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recounted {
    /// Users whose lists were counted.
    pub users: u64,
    /// Lists whose count was wrong.
    pub corrected: u64,
}

/// An edge by its ends, in any state.
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

/// Edges in write order, as far as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEdges {
    pub read_to: Sequence,
    pub edges: Vec<EdgeChange>,
}

/// What a healer checked and repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    pub looked: u64,
    /// Edges whose target's side differed from the follower's.
    pub mended: Vec<EdgeName>,
    /// Edges left as they are: the follower's side cannot be read, or contradicts itself.
    pub unclear: Vec<EdgeName>,
}

#[async_trait]
pub trait Maintenance: Send + Sync + 'static {
    /// Copies everything into an empty or missing folder of this machine while writers run; returns the number of
    /// bytes.
    async fn backup(&self, folder: &Path) -> Result<u64>;

    /// Leaves no byte of erased users on the disk: events up to now are dropped with the log that holds them.
    async fn erase_now(&self) -> Result<()>;

    /// Counts the lists of a user, or of everybody, and corrects the counts, while writers run.
    async fn recount(&self, user: Option<Key>) -> Result<Recounted>;

    /// The number of the last checkpoint, greater with each one; zero where the store makes none.
    fn checkpoints(&self) -> u64;

    /// Whether the two directions of an edge are stored separately, so that they could differ. Where one row is both
    /// there is nothing to heal, and the methods below find nothing.
    fn has_mirrors(&self) -> bool;

    /// Edges that were changed after `after`, oldest first, among the next `limit` changes of anything.
    async fn changed_edges(&self, after: Sequence, limit: usize) -> Result<ChangedEdges>;

    /// Those whose directions differ at this moment, where these changes left something or should have: a cheap check
    /// concurrent with writers, which may report an edge that is being written.
    async fn differing(&self, changes: Vec<EdgeChange>) -> Result<Vec<EdgeChange>>;

    /// Sets the target's side of each edge, and the count of its list, to what the follower's side says. No write
    /// intervenes between check and change. An edge whose sides agree is left alone; there is no event.
    async fn heal(&self, edges: &[EdgeName]) -> Result<Healed>;
}

/// What a layer holds in memory and writes to this machine's disk, so that the next process begins with it.
#[async_trait]
pub trait Snapshots: Send + Sync + 'static {
    /// Writes one now; how many rows it holds.
    async fn save_snapshot(&self) -> Result<u64>;
}
