//! Embedded stores to test: on a simulated disk, or in a temporary folder of the real one.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use entourage_embedded::{Fault, Options, Store};
use entourage_model::{Clock, ManualClock, Millis, Secret};
use entourage_store::{
    Identity, SystemClock,
    disk::{Disk, RealDisk},
};
use entourage_testkit::crash_disk::CrashDisk;

pub(crate) fn identity() -> Identity {
    Identity { epoch: 77, secret: Secret::from_bytes([7; 32]) }
}

/// Opens a store whose identity and clock are the same in every run.
pub(crate) fn open_on(disk: &CrashDisk, options: Options) -> Result<Store, Fault> {
    open_at(disk, options, &still_clock())
}

pub(crate) fn still_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)))
}

/// As `open_on`, by a clock that the test turns.
pub(crate) fn open_at(disk: &CrashDisk, options: Options, clock: &Arc<ManualClock>) -> Result<Store, Fault> {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    Store::open_as(Arc::new(disk.clone()), "the test disk", options, clock, identity)
}

pub(crate) fn open_real(folder: &Path, options: Options) -> Result<Store, Fault> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(folder)?);
    Store::open(disk, &folder.display().to_string(), options, Arc::new(SystemClock))
}

/// A folder that goes away with the test.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("entourage-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
