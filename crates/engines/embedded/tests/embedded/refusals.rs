//! Writes that are refused for want of memory, of files or of rights: how that shows, and that it heals.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use crate::embedded_kit::{TemporaryFolder, identity, open_real, still_clock};
use entourage_embedded::{Options, Store};
use entourage_model::{Clock, Code, Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_store::{
    Health, Store as _, StoreExt as _, Unhealthy,
    disk::{Disk, DiskFile},
};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::CrashDisk,
    hooked_disk::{DiskHooks, HookedDisk},
};

fn user(number: i64) -> Write {
    let patch = UserPatch::default();
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Keep }.into()
}

fn follow(follower: i64, target: i64) -> Write {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
        .into()
}

/// Writes all of them. Whoever is refused for memory comes again when they were told to, and is taken then.
async fn write_all(store: &Store, writes: impl Iterator<Item = Write>) -> usize {
    let mut refused = 0;
    for write in writes {
        let Err(error) = store.commit(write.clone()).await else { continue };
        assert_eq!(error.code(), Code::MemoryFull, "{error}");
        refused += 1;
        let delay = error.retry_delay().expect("it says when to come again");
        assert!(delay < Duration::from_secs(60), "a checkpoint would help, and is said not to: {delay:?}");
        let began = Instant::now();
        loop {
            tokio::time::sleep(delay).await;
            match store.commit(write.clone()).await {
                Ok(_) => break,
                Err(error) => assert!(began.elapsed() < 4 * delay, "after {:?} of {delay:?}: {error}", began.elapsed()),
            }
        }
    }
    refused
}

#[test]
fn posts_beyond_the_budget_make_room_for_themselves() {
    const POSTS: usize = 6_000;
    let folder = TemporaryFolder::new();
    let budget = 16 << 20;
    let options = Options { memory_budget: budget, ..Options::default() };
    let store = open_real(folder.path(), options).expect("the store opens");
    block_on(async {
        store.commit(user(1)).await.expect("there is room");
        let post = || Operation::Post { author: Key(1), value: vec![b'x'; 10_000].into() }.into();
        let refused = write_all(&store, std::iter::repeat_with(post).take(POSTS)).await;
        println!("{refused} of {POSTS} posts were refused, {} of {budget} bytes are taken", store.memory_estimate());
        assert_eq!(store.health().await, Health::Ready);
        assert_eq!(store.count_records(entourage_model::Space::Post, Key(1)).await.unwrap(), POSTS as u64);
        store.close().await.expect("the store closes");
    });
}

#[test]
fn edges_beyond_the_budget_make_room_for_themselves() {
    const USERS: i64 = 300;
    let folder = TemporaryFolder::new();
    let budget = 16 << 20;
    let options = Options { memory_budget: budget, ..Options::default() };
    let store = Arc::new(open_real(folder.path(), options).expect("the store opens"));
    block_on(async {
        assert!(store.commit_all((0..USERS).map(user).collect()).await.iter().all(Result::is_ok));
        // Many at once, so that this does not take as long as 90,000 syncs.
        let writers: Vec<_> = (0..USERS)
            .map(|one| {
                let store = Arc::clone(&store);
                let follows = (0..USERS).filter(move |other| *other != one).map(move |other| follow(one, other));
                tokio::spawn(async move { write_all(&store, follows).await })
            })
            .collect();
        let mut refused = 0;
        for writer in writers {
            refused += writer.await.expect("every edge is written");
        }
        println!("{refused} of 89,700 edges were refused, {} of {budget} bytes are taken", store.memory_estimate());
        assert_eq!(store.edges(), 89_700);
        assert_eq!(store.health().await, Health::Ready);
        assert!(store.verify().await.unwrap().is_clean());
        store.close().await.expect("the store closes");
    });
}

#[test]
fn memory_that_no_checkpoint_frees_is_said_to_be_full() {
    let folder = TemporaryFolder::new();
    let store = open_real(folder.path(), Options { memory_budget: 200_000, ..Options::default() });
    let store = store.expect("the store opens");
    block_on(async {
        let mut made = 0;
        let refused = loop {
            match store.commit(user(made)).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((refused.code(), refused.retry_delay()), (Code::MemoryFull, Some(Duration::from_secs(60))));
        assert!(matches!(store.health().await, Health::Degraded(Unhealthy::MemoryFull)));
        store.close().await.expect("the store closes");
    });
}

/// What cannot be done to files.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Hindrance {
    None,
    NoRights,
    NoDescriptors,
    NoRename,
}

/// Goes wrong in the ways that leave the log whole.
struct Hindered(AtomicU8);

impl Hindered {
    fn set(&self, by: Hindrance) {
        self.0.store(by as u8, Ordering::SeqCst);
    }

    fn is(&self, by: Hindrance) -> bool {
        self.0.load(Ordering::SeqCst) == by as u8
    }
}

impl DiskHooks for Hindered {
    fn create(&self, inner: &dyn Disk, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        const TOO_MANY_OPEN_FILES: i32 = 24;
        match () {
            () if self.is(Hindrance::NoRights) => Err(io::ErrorKind::PermissionDenied.into()),
            () if self.is(Hindrance::NoDescriptors) => Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES)),
            () => inner.create(name),
        }
    }

    fn rename(&self, inner: &dyn Disk, from: &str, to: &str) -> io::Result<()> {
        if self.is(Hindrance::NoRename) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        inner.rename(from, to)
    }
}

#[test]
fn a_store_that_refuses_writes_is_not_ready_until_it_takes_them_again() {
    for by in [Hindrance::NoRights, Hindrance::NoDescriptors, Hindrance::NoRename] {
        for prepare_ahead in [false, true] {
            let hindered = Arc::new(Hindered(AtomicU8::new(Hindrance::None as u8)));
            let disk = HookedDisk::over(CrashDisk::new(), &hindered);
            let options = Options { prepare_ahead, ..Options::tiny() };
            let clock: Arc<dyn Clock> = still_clock();
            let store = Store::open_as(disk, "the test disk", options, clock, identity).unwrap();
            block_on(async {
                hindered.set(by);
                let (mut made, mut refused) = (0, None);
                while refused.is_none() && made < 10_000 {
                    refused = store.commit(user(made)).await.err();
                    made += 1;
                }
                let refused = refused.unwrap_or_else(|| panic!("{by:?}: nothing is refused"));
                assert_eq!(refused.code(), Code::Unavailable, "{by:?}: {refused}");
                let health = store.health().await;
                assert!(
                    matches!(&health, Health::Degraded(Unhealthy::NoLogFile(_))),
                    "{by:?}: writes are refused, and it is {health:?}"
                );
                hindered.set(Hindrance::None);
                // Made ahead it heals by itself, otherwise with the next write.
                let began = Instant::now();
                while store.commit(user(made)).await.is_err() {
                    assert!(began.elapsed() < Duration::from_secs(10), "{by:?}: writes are never taken again");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                assert_eq!(store.health().await, Health::Ready, "{by:?}");
                store.close().await.expect("the store closes");
            });
        }
    }
}
