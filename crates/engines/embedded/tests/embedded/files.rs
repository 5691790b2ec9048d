//! How many files and lists a store has after a long time, and what they may still say of somebody who was erased.

use std::{
    io,
    sync::{Arc, mpsc},
    time::Duration,
};

use crate::embedded_kit::{identity, open_at, open_on, still_clock};
use entourage_embedded::{Options, Store};
use entourage_model::{Condition, Key, Operation, Overwrite, RecordId, Space, UserId, UserPatch};
use entourage_store::{
    Store as _, StoreExt as _,
    disk::{Disk, DiskFile},
};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
    hooked_disk::{DiskHooks, HookedDisk},
};
use parking_lot::Mutex;

fn user(number: i64, name: &str) -> Operation {
    let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
}

async fn commit(store: &Store, operation: Operation) {
    store.commit(operation.into()).await.unwrap();
}

fn blocks(disk: &CrashDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".blocks")).collect()
}

/// Each checkpoint makes files, and nothing in them ever dies.
#[test]
fn files_stay_few_over_many_checkpoints() {
    let disk = CrashDisk::new();
    let store = open_on(&disk, Options::tiny()).unwrap();
    block_on(async {
        let mut most = 0;
        for round in 0..60 {
            // A group of users, a list and a shelf of their own, so that no block is written anew.
            let users = (round * 64..(round + 1) * 64).map(|number| user(number, "somebody").into());
            assert!(store.commit_all(users.collect()).await.iter().all(Result::is_ok));
            commit(&store, follow(round * 64, round * 64 + 1)).await;
            let (id, value, condition) =
                (RecordId::new(b"id").unwrap(), Some([7; 40].as_slice().into()), Condition::Any);
            let owner = Key(round * 64);
            commit(&store, Operation::PutRecord { space: Space::Group, owner, id, value, condition, cap: None }).await;
            store.checkpoint().await.unwrap();
            most = most.max(blocks(&disk).len());
        }
        println!("{most} files of blocks at most");
        assert!(most <= 48, "{most} files: {:?}", blocks(&disk));
        let verified = async |store: &Store| {
            let report = store.verify().await.unwrap();
            assert!(report.is_clean(), "{:?}", report.problems);
            assert_eq!((report.users, store.edges()), (60 * 64, 60));
            let users = store.sweep_all().await.unwrap();
            assert!(users.iter().all(|user| user.name.as_deref() == Some("somebody")));
        };
        verified(&store).await;
        store.close().await.unwrap();
        drop(store);
        verified(&open_on(&disk, Options::tiny()).unwrap()).await;
    });
}

#[test]
fn history_that_is_past_takes_no_memory() {
    let disk = CrashDisk::new();
    let clock = still_clock();
    let options = Options { history_retention: Duration::from_secs(3600), ..Options::tiny() };
    let store = open_at(&disk, options, &clock).unwrap();
    block_on(async {
        for number in 1..=100 {
            commit(&store, user(number, "somebody")).await;
        }
        store.checkpoint().await.unwrap();
        let before = store.memory_estimate();
        for number in 2..=100 {
            commit(&store, follow(number, 1)).await;
            commit(&store, Operation::Unfollow { follower: Key(number), target: Key(1) }).await;
        }
        store.checkpoint().await.unwrap();
        assert!(store.memory_estimate() > before, "each has a history");
        // How often an edge ended is counted for a day.
        clock.advance(25 * 60 * 60 * 1000);
        store.checkpoint().await.unwrap();
        assert_eq!(store.memory_estimate(), before);
        commit(&store, follow(2, 1)).await;
        commit(&store, Operation::Unfollow { follower: Key(2), target: Key(1) }).await;
        store.checkpoint().await.unwrap();
        assert_eq!(store.scan_history(Key(2), None, 10).await.unwrap().len(), 1);
    });
}

/// Holds a checkpoint up where it makes its file of users: says that it is there, and waits to go on.
#[derive(Default)]
struct Hold(Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

impl DiskHooks for Hold {
    fn create(&self, inner: &dyn Disk, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        if name.starts_with("users-")
            && let Some((there, go_on)) = self.0.lock().take()
        {
            there.send(()).unwrap();
            go_on.recv().unwrap();
        }
        inner.create(name)
    }
}

/// The checkpoint that runs meanwhile has the end of them and not the erasure: after a kill the log brings only that.
#[test]
fn whoever_is_erased_while_a_checkpoint_runs_leaves_no_name() {
    const NAME: &str = "Wilhelmina Unforgettable";
    let disk = CrashDisk::new();
    let hold = Arc::new(Hold::default());
    let held = HookedDisk::over(disk.clone(), &hold);
    let store = Store::open_as(held, "the test disk", Options::tiny(), still_clock(), identity).unwrap();
    let has_name = |disk: &CrashDisk| {
        let live = disk.image(Image::Everything);
        let has = |name: &String| live.contents(name).unwrap().windows(NAME.len()).any(|part| part == NAME.as_bytes());
        live.names().into_iter().filter(has).collect::<Vec<_>>()
    };
    block_on(async {
        let users = (0..1_280).map(|number| user(number, if number == 100 { NAME } else { "somebody" }).into());
        assert!(store.commit_all(users.collect()).await.iter().all(Result::is_ok));
        store.checkpoint().await.unwrap();
        // Both groups are written, the first one before the file is made, the other one after the erasure.
        commit(&store, user(1, "somebody else")).await;
        commit(&store, user(101, "somebody else")).await;
    });
    let ((there, is_there), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
    *hold.0.lock() = Some((there, wait));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| block_on(store.checkpoint()));
        is_there.recv().unwrap();
        block_on(commit(&store, Operation::Erase { key: Key(100), created: None }));
        go_on.send(()).unwrap();
        running.join().unwrap().unwrap();
    });
    let killed = disk.image(Image::Everything);
    drop(store);
    assert!(has_name(&killed).iter().any(|name| name.starts_with("users-")), "{:?}", has_name(&killed));
    let store = open_on(&killed, Options::tiny()).unwrap();
    block_on(store.erase_now()).unwrap();
    assert_eq!(has_name(&killed), Vec::<String>::new());
}
