//! Where stores are made, opened and measured.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow};
use entourage_embedded::{Options, Store};
use entourage_store::{
    SystemClock,
    disk::{Disk, RealDisk},
    layers::cached,
};

/// The folder that holds everything a run writes.
pub(crate) struct Place {
    root: PathBuf,
    keep: bool,
}

impl Place {
    pub(crate) fn new(root: PathBuf, keep: bool) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        Ok(Self { root, keep })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// An empty folder of this name.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        remove(&folder)?;
        Ok(folder)
    }

    pub(crate) fn finish(&self) -> Result<()> {
        if self.keep { Ok(()) } else { Ok(remove(&self.root)?) }
    }
}

pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn open(folder: &Path, options: Options) -> Result<Arc<Store>> {
    let disk = RealDisk::new(folder)?;
    let store = Store::open(Arc::new(disk), &folder.display().to_string(), options, Arc::new(SystemClock));
    Ok(Arc::new(store.map_err(|fault| anyhow!("opening {}: {fault}", folder.display()))?))
}

/// A cache that evicts nothing.
pub(crate) const ROOMY_BYTES: u64 = 4 << 30;

/// A cache in front of this store, with its snapshot in that folder.
pub(crate) async fn cached(
    store: Arc<dyn entourage_store::Store>,
    snapshot: Option<&Path>,
    budget_bytes: u64,
) -> Result<cached::Store> {
    let disk = match snapshot {
        Some(folder) => Some(Arc::new(RealDisk::new(folder)?) as Arc<dyn Disk>),
        None => None,
    };
    let options = cached::Options { budget_bytes, ..cached::Options::default() };
    let surroundings = cached::Surroundings { disk, ..cached::Surroundings::default() };
    Ok(cached::Store::open(store, options, surroundings).await)
}

/// Bytes of a store's files by what they hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) edges: u64,
    pub(crate) users: u64,
    /// The manifest and idempotency records.
    pub(crate) rest: u64,
    pub(crate) log: u64,
}

pub(crate) fn weigh(folder: &Path) -> Result<Weight> {
    let mut weight = Weight::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let bytes = entry.metadata()?.len();
        let part = match name.split('-').next() {
            Some("following" | "followers") => &mut weight.edges,
            Some("users") => &mut weight.users,
            Some("log") => &mut weight.log,
            _ => &mut weight.rest,
        };
        *part += bytes;
    }
    Ok(weight)
}

/// Drops the folder's files from the page cache, so that the next open reads from the device.
pub(crate) fn cool(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let file = fs::File::open(entry?.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}
