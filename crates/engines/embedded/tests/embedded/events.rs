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
use entourage_store::{Store as _, StoreExt as _, disk::DiskFile};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::CrashDisk,
    hooked_disk::{DiskHooks, HookedDisk},
};

/// Counts the bytes that are read.
#[derive(Default)]
struct Counting(AtomicU64);

impl DiskHooks for Counting {
    fn read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = inner.read_at(buffer, offset)?;
        self.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn try_read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(inner, buffer, offset)
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
    let counting = Arc::<Counting>::default();
    let disk = HookedDisk::over(disk, &counting);
    let store = Store::open_as(disk, "the test disk", options, still_clock(), identity).unwrap();
    block_on(async {
        counting.0.store(0, Ordering::Relaxed);
        let (mut after, mut pages) = (Sequence::ZERO, 0);
        loop {
            let events = store.events_after(after, PAGE).await.unwrap();
            let Some(last) = events.last() else { break };
            assert_eq!(last.sequence.0, after.0 + events.len() as u64, "none is left out");
            (after, pages) = (last.sequence, pages + 1);
        }
        assert_eq!(after, store.last_event(0).await.unwrap());
        let read = counting.0.load(Ordering::Relaxed) / pages;
        println!("{read} bytes read for each of {pages} pages");
        assert!(read <= 256 << 10, "{read} bytes read for each of {pages} pages");
    });
}
