//! What operators ask of an open store: backup, permanent erasure, recounts, healing.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use entourage_model::{EdgeChange, Error, Key, Result, Sequence};

use crate::Store;
use entourage_store::{
    ChangedEdges, EdgeName, Healed, Maintenance, Recounted,
    disk::{Disk, RealDisk},
};

#[async_trait]
impl Maintenance for Store {
    async fn backup(&self, folder: &Path) -> Result<u64> {
        let place = folder.display();
        let unusable = |error: io::Error| Error::invalid(format!("{place}: {error}")).caused_by(error);
        if !folder.is_absolute() {
            return Err(Error::invalid(format!("{place} is not a whole path, from the root on")));
        }
        let disk = RealDisk::new(folder).map_err(unusable)?;
        if !disk.list().map_err(unusable)?.is_empty() {
            return Err(Error::invalid(format!("{place} is not empty; choose an empty or a new folder")));
        }
        Self::backup(self, Arc::new(disk), |_, _| {}).await
    }

    async fn erase_now(&self) -> Result<()> {
        Self::erase_now(self).await
    }

    async fn recount(&self, user: Option<Key>) -> Result<Recounted> {
        Self::recount(self, user).await
    }

    fn checkpoints(&self) -> u64 {
        self.engine.checkpoint_number.load(Ordering::Acquire)
    }

    fn has_mirrors(&self) -> bool {
        true
    }

    async fn changed_edges(&self, after: Sequence, limit: usize) -> Result<ChangedEdges> {
        Self::changed_edges(self, after, limit).await
    }

    async fn differing(&self, changes: Vec<EdgeChange>) -> Result<Vec<EdgeChange>> {
        Self::differing(self, changes).await
    }

    async fn heal(&self, edges: &[EdgeName]) -> Result<Healed> {
        Self::heal(self, edges).await
    }
}
