//! A disk in memory that loses, tears, reorders and refuses what a real one may: the double for crash tests.
//!
//! A test runs a writer on a [`CrashDisk`], cuts the power at a call of its choice ([`CrashDisk::crash_after`]), takes
//! what the disk could hold then ([`CrashDisk::image`]) and opens the store on that:
//!
//! ```
//! use entourage_store::disk::Disk;
//! use entourage_testkit::crash_disk::{CrashDisk, Image};
//!
//! # fn main() -> std::io::Result<()> {
//! let write = |disk: &CrashDisk| -> std::io::Result<()> {
//!     let file = disk.create("greeting")?;
//!     file.write_at(b"hello", 0)?;
//!     file.sync()?;
//!     disk.sync_folder()
//! };
//! let whole = CrashDisk::new();
//! write(&whole)?;
//! for cut in 0..whole.operations() {
//!     let disk = CrashDisk::new();
//!     disk.crash_after(cut);
//!     assert!(write(&disk).is_err(), "{}", disk.trace());
//!     for seed in 0..10 {
//!         let image = disk.image(Image::Random(seed));
//!         assert!(image.contents("greeting").map_or(true, |bytes| bytes.len() <= 5));
//!     }
//! }
//! assert_eq!(whole.image(Image::Nothing).contents("greeting")?, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! It promises what [`Disk`] promises and nothing more: a synced file may have no name, a durable write does not sync
//! earlier ones, and after a failed sync the next one may say `Ok` of bytes that it never wrote.

mod content;
mod extents;
mod folder;
mod handle;
mod image;
mod pages;
mod state;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    fmt::Write as _,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

pub use self::image::Image;
use self::{
    handle::CrashFile,
    state::{FailingSync, FailingWrites, File, State, not_found},
};
use entourage_store::disk::{Disk, DiskFile};

/// What the page cache does with the writes of a file whose sync fails. Either way no later sync writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedSync {
    /// Readers see the old bytes again.
    DropsWrites,
    /// Readers still see the new bytes, and later syncs succeed although the disk does not have them.
    ForgetsWrites,
}

/// The disk. Clones are the same disk; [`CrashDisk::deep_clone`] makes another.
///
/// Calls that change it (create, write, sync, set size, rename, remove, sync folder) are numbered from 0; a durable
/// write is two of them, a write and a sync.
#[derive(Clone, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
    locked: Arc<AtomicBool>,
}

impl CrashDisk {
    /// An empty disk without limit.
    pub fn new() -> Self {
        Self::default()
    }

    fn from_state(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), locked: Arc::default() }
    }

    /// Cuts the power during the changing call of this number: that call may have happened, in part or not at all, and
    /// it and every later call, reads included, fail with "crashed".
    pub fn crash_after(&self, index: u64) {
        self.state.lock().crash_at = Some(index);
    }

    /// Another disk with what this one could hold after a power cut now: at rest, unlocked, with the same capacity
    /// and no failures ordered.
    pub fn image(&self, image: Image) -> Self {
        Self::from_state(self.state.lock().after_cut(image))
    }

    /// An independent disk in the same state, un-synced changes, ordered failures and calls included; unlocked.
    /// Existing handles stay with this one.
    pub fn deep_clone(&self) -> Self {
        Self::from_state(self.state.lock().clone())
    }

    /// Makes one sync of a file or of the folder fail with an input/output error: the next one for 0, the one after it
    /// for 1. A failed sync of the folder leaves the visible names as they are and never writes them.
    pub fn fail_sync(&self, nth: u64, kind: FailedSync) {
        self.state.lock().failing_syncs.push(FailingSync { passes: nth, kind });
    }

    /// Makes the next `count` writes to files whose name `concerns` accepts fail with `kind`, half done.
    pub fn fail_write_with(
        &self,
        kind: io::ErrorKind,
        concerns: impl Fn(&str) -> bool + Send + Sync + 'static,
        count: u64,
    ) {
        self.state.lock().failing_writes.push(FailingWrites { kind, concerns: Arc::new(concerns), left: count });
    }

    /// The capacity in bytes; `None` has no limit. A write that needs more stores what fits and fails with
    /// `StorageFull`. As on a real disk a size alone takes no space, so only written bytes, zeros included, are sure of
    /// theirs.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// How many changing calls there have been: the number of the next one.
    pub fn operations(&self) -> u64 {
        self.state.lock().calls.len() as u64
    }

    /// The changing calls so far, one a line with its number.
    pub fn trace(&self) -> String {
        let mut lines = String::new();
        for (index, call) in self.state.lock().calls.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{index:>6} {call}");
        }
        lines
    }

    /// The durable names, in order.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().folder.durable.keys().map(ToString::to_string).collect()
    }

    /// The durable bytes of the file that durably has this name.
    pub fn contents(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        let number = state.folder.durable.get(name).ok_or_else(|| not_found(name))?;
        state.files.get(number).map(|file| file.content.durable.to_vec()).ok_or_else(|| not_found(name))
    }

    /// Flips one bit of a file, as decay would: bit 0 is the lowest of the first byte.
    pub fn flip_bit(&self, name: &str, bit: u64) -> io::Result<()> {
        let offset = bit / 8;
        self.damage(name, |file| {
            if offset >= file.content.live.size() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} has no bit {bit}")));
            }
            file.content.damage(|pages| {
                let mut byte = [0];
                if pages.read(&mut byte, offset) == 1 {
                    pages.write(&[byte[0] ^ (1 << (bit % 8))], offset);
                }
            });
            Ok(())
        })
    }

    /// Truncates a file to `size`, durably and without counting a call.
    pub fn truncate(&self, name: &str, size: u64) -> io::Result<()> {
        self.damage(name, |file| {
            file.content.damage(|pages| pages.set_size(pages.size().min(size)));
            Ok(())
        })
    }

    fn damage(&self, name: &str, change: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        change(state.file(number)?)
    }
}

impl Disk for CrashDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let number = self.state.lock().create(name)?;
        Ok(Arc::new(CrashFile { state: self.state.clone(), number }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.state.lock();
        state.alive()?;
        let number = state.number(name)?;
        Ok(Arc::new(CrashFile { state: self.state.clone(), number }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.folder.live.keys().map(ToString::to_string).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state.lock().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state.lock().remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.state.lock().sync_folder()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.state.lock().alive()?;
        if self.locked.swap(true, Ordering::AcqRel) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Guard(self.locked.clone())))
    }
}

struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
