//! Reading events from a log that this process did not write costs as much as reading the log, however small the pages.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::embedded_kit::{identity, open_on, still_clock};
use entourage_embedded::{Options, Store};
use entourage_model::{Key, Operation, Overwrite, Sequence, UserId, UserPatch};
use entourage_store::{
    Store as _, StoreExt as _,
    disk::{Disk, DiskFile},
};
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

/// Counts the bytes that are read.
#[derive(Clone)]
struct Counting {
    disk: CrashDisk,
    read: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    read: Arc<AtomicU64>,
}

impl Counting {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountingFile { file, read: Arc::clone(&self.read) })
    }
}

impl Disk for Counting {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock()
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }
}

const USERS: i64 = 25_000;
const PAGE: usize = 100;

#[test]
fn pages_after_a_restart_do_not_begin_at_the_beginning() {
    let options = Options { segment_bytes: 4 << 20, ..Options::tiny() };
    let disk = CrashDisk::new();
    let store = open_on(&disk, options).unwrap();
    block_on(async {
        for first in (0..USERS).step_by(100) {
            let users = (first..first + 100).map(|number| {
                let patch = UserPatch { name: Some(Some("a long name ".repeat(16).into())), ..UserPatch::default() };
                let (key, id) = (Key(number), UserId::from(number));
                Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace }.into()
            });
            assert!(store.commit_all(users.collect()).await.iter().all(Result::is_ok));
        }
        // The first segment is full and covered: a start does not replay it, and learns nothing of where its frames are.
        store.close().await.unwrap();
    });
    drop(store);
    let counting = Counting { disk, read: Arc::default() };
    let store = Store::open_as(Arc::new(counting.clone()), "the test disk", options, still_clock(), identity).unwrap();
    block_on(async {
        counting.read.store(0, Ordering::Relaxed);
        let (mut after, mut pages) = (Sequence::ZERO, 0);
        loop {
            let events = store.events_after(after, PAGE).await.unwrap();
            let Some(last) = events.last() else { break };
            assert_eq!(last.sequence.0, after.0 + events.len() as u64, "none is left out");
            (after, pages) = (last.sequence, pages + 1);
        }
        assert_eq!(after, store.last_event(0).await.unwrap());
        let read = counting.read.load(Ordering::Relaxed) / pages;
        println!("{read} bytes read for each of {pages} pages");
        assert!(read <= 256 << 10, "{read} bytes read for each of {pages} pages");
    });
}
