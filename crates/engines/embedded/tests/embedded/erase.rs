//! Nothing of an erased user is left on the disk: not in blocks after a checkpoint, not in the log after `erase_now`.

use std::{sync::Arc, time::Duration};

use crate::embedded_kit::{TemporaryFolder, open_at, open_on, open_real, still_clock};
use entourage_embedded::{Options, Store, restore};
use entourage_model::{
    Code, Condition, IdempotencyKey, Key, Operation, Overwrite, RecordId, Reply, Sequence, Space, UserId, UserPatch,
    Write,
};
use entourage_store::{
    Store as _, StoreExt as _,
    disk::{Disk, RealDisk},
};
use entourage_testkit::portrait::graph;
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};

const CANARY: &str = "Serinus canaria";
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

fn user(number: i64, name: &str) -> Operation {
    let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
}

fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

fn record(owner: i64, id: u8, value: &str) -> Operation {
    Operation::PutRecord {
        space: Space::Notification,
        owner: Key(owner),
        id: RecordId::new(&[id]).unwrap(),
        value: Some(value.as_bytes().into()),
        condition: Condition::Any,
        cap: None,
    }
}

async fn commit(store: &Store, operation: Operation) -> Reply {
    store.commit(operation.into()).await.unwrap().reply
}

/// A hundred people; the canary is renamed and writes records over several checkpoints, so that dead blocks know it.
async fn populate(store: &Store) {
    for number in 1..=100 {
        commit(store, user(number, &format!("user {number}"))).await;
    }
    for round in 0..3 {
        commit(store, user(50, &format!("{CANARY} {round}"))).await;
        for id in 0..8 {
            commit(store, record(50, id, &format!("{CANARY} {round} {id}"))).await;
            commit(store, record(51, id, &format!("somebody else {round} {id}"))).await;
        }
        for author in [50, 51] {
            let value = format!("{} {round}", if author == 50 { CANARY } else { "somebody else" });
            commit(store, Operation::Post { author: Key(author), value: value.as_bytes().into() }).await;
        }
        commit(store, follow(50, 60 + round)).await;
        commit(store, follow(60 + round, 50)).await;
        commit(store, unfollow(50, 60 + round)).await;
        let idempotency = Some(IdempotencyKey { scope: [round as u8; 16], request: 1 });
        store.commit(Write { idempotency, ..Write::from(follow(50, 70 + round)) }).await.unwrap();
        store.checkpoint().await.unwrap();
    }
}

async fn erase(store: &Store) {
    assert_eq!(commit(store, Operation::Erase { key: Key(50), created: None }).await, Reply::Gone { changed: true });
    erase_the_rest(store).await;
}

async fn erase_the_rest(store: &Store) {
    while !matches!(
        commit(store, Operation::EraseEdges { key: Key(50), limit: 2 }).await,
        Reply::EdgesErased { left: false, .. }
    ) {}
}

fn holds_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
}

fn stained(names: &[String], read: impl Fn(&str) -> Vec<u8>) -> Vec<String> {
    names.iter().filter(|name| holds_canary(&read(name))).cloned().collect()
}

fn on_disk(disk: &CrashDisk) -> Vec<String> {
    stained(&disk.names(), |name| disk.contents(name).unwrap())
}

async fn assert_clean(store: &Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

#[test]
fn blocks_forget_with_a_checkpoint_and_the_log_when_it_is_told_to() {
    block_on(async {
        let disk = CrashDisk::new();
        let store = open_on(&disk, Options::tiny()).unwrap();
        populate(&store).await;
        let before = on_disk(&disk);
        for family in ["users-", "documents-", "log-"] {
            assert!(before.iter().any(|name| name.starts_with(family)), "{before:?}");
        }
        erase(&store).await;
        store.checkpoint().await.unwrap();
        let left = on_disk(&disk);
        assert!(!left.is_empty() && left.iter().all(|name| name.starts_with("log-")), "{left:?}");
        let known = graph(&store).await.unwrap();
        store.erase_now().await.unwrap();
        assert_eq!(on_disk(&disk), Vec::<String>::new());
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;
        let gone = store.events_after(Sequence::ZERO, 10).await.unwrap_err();
        assert_eq!(gone.code(), Code::EventsExpired);
        let resume = Sequence(gone.resume().unwrap().parse().unwrap());
        assert!(store.events_after(resume, 10).await.unwrap().is_empty());
        let made = store.commit(user(50, "somebody new").into()).await.unwrap();
        assert_eq!(store.events_after(resume, 10).await.unwrap()[0].sequence, made.watermark.sequence());
        drop(store);
        let store = open_on(&disk, Options::tiny()).unwrap();
        assert_clean(&store).await;
        assert_eq!(store.events_after(resume, 10).await.unwrap().len(), 1);
        assert_eq!(store.count_records(Space::Notification, Key(50)).await.unwrap(), 0);
        assert_eq!(store.count_records(Space::Notification, Key(51)).await.unwrap(), 8);
        assert_eq!(store.count_records(Space::Post, Key(50)).await.unwrap(), 0);
        assert_eq!(store.count_records(Space::Post, Key(51)).await.unwrap(), 3);
        assert_eq!(store.count_records(Space::PostAuthor, Key::SERVER).await.unwrap(), 3);
        // Again, with nobody to erase: nothing is wrong with that.
        store.erase_now().await.unwrap();
        store.erase_now().await.unwrap();
        assert_clean(&store).await;
    });
}

/// Posts go after their author: a checkpoint that comes between has seen the erasure, and the next one must mind it.
#[test]
fn posts_that_went_in_chunks_are_in_no_block_either() {
    block_on(async {
        let disk = CrashDisk::new();
        let store = open_on(&disk, Options::tiny()).unwrap();
        populate(&store).await;
        commit(&store, Operation::Erase { key: Key(50), created: None }).await;
        store.checkpoint().await.unwrap();
        assert!(on_disk(&disk).iter().any(|name| name.starts_with("documents-")), "{:?}", on_disk(&disk));
        erase_the_rest(&store).await;
        store.checkpoint().await.unwrap();
        let left = on_disk(&disk);
        assert!(left.iter().all(|name| name.starts_with("log-")), "{left:?}");
        assert_clean(&store).await;
    });
}

#[test]
fn a_real_folder_and_its_backup_hold_nothing_either() {
    block_on(async {
        let (folder, to) = (TemporaryFolder::new(), TemporaryFolder::new());
        let store = open_real(folder.path(), Options { segment_bytes: 1 << 20, ..Options::default() }).unwrap();
        populate(&store).await;
        erase(&store).await;
        store.erase_now().await.unwrap();
        let backup: Arc<dyn Disk> = Arc::new(RealDisk::new(to.path()).unwrap());
        store.backup(Arc::clone(&backup), |_, _| {}).await.unwrap();
        let known = graph(&store).await.unwrap();
        for path in [folder.path(), to.path()] {
            for entry in std::fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                assert!(!holds_canary(&std::fs::read(&path).unwrap()), "{}", path.display());
            }
        }
        store.close().await.unwrap();
        let restored = CrashDisk::new();
        restore(&*backup, &restored, |_, _| {}).unwrap();
        let options = Options { segment_bytes: 1 << 20, ..Options::tiny() };
        let store =
            Store::open(Arc::new(restored), "restored", options, Arc::new(entourage_store::SystemClock)).unwrap();
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;
    });
}

/// The power goes at every write of the last step: everything is there, or everything but what was to go.
#[test]
fn a_power_cut_during_erase_now_loses_nothing_that_is_kept() {
    let options = Options { segment_bytes: 4 << 10, ..Options::tiny() };
    let prepare = async |disk: &CrashDisk| {
        let store = open_on(disk, options).unwrap();
        for number in [1, 2, 50] {
            commit(&store, user(number, if number == 50 { CANARY } else { "somebody" })).await;
        }
        commit(&store, follow(1, 2)).await;
        commit(&store, follow(50, 1)).await;
        commit(&store, record(1, 1, "kept")).await;
        store.checkpoint().await.unwrap();
        erase(&store).await;
        store
    };
    block_on(async {
        let whole = CrashDisk::new();
        let store = prepare(&whole).await;
        let before = whole.operations();
        let known = graph(&store).await.unwrap();
        store.erase_now().await.unwrap();
        let steps = whole.operations() - before;
        assert!(steps > 8, "{steps}");
        drop(store);
        for step in 0..steps {
            let disk = CrashDisk::new();
            let store = prepare(&disk).await;
            disk.crash_after(disk.operations() + step);
            let erased = store.erase_now().await;
            drop(store);
            for image in [Image::Nothing, Image::Everything, Image::Random(step), Image::Random(step + 1_000)] {
                let left = disk.image(image);
                let store = open_on(&left, options).unwrap_or_else(|fault| panic!("{step} {image:?}: {fault}"));
                assert_eq!(graph(&store).await.unwrap(), known, "{step} {image:?}");
                assert_eq!(store.count_records(Space::Notification, Key(1)).await.unwrap(), 1);
                assert_clean(&store).await;
                store.erase_now().await.unwrap();
                assert_eq!(on_disk(&left), Vec::<String>::new(), "{step} {image:?} {erased:?}");
            }
        }
    });
}

#[test]
fn history_is_dropped_when_it_is_old() {
    block_on(async {
        let (disk, clock) = (CrashDisk::new(), still_clock());
        let options = Options { history_retention: Duration::from_millis(10 * DAY_MILLIS), ..Options::tiny() };
        let store = open_at(&disk, options, &clock).unwrap();
        for number in 1..=3 {
            commit(&store, user(number, "somebody")).await;
        }
        let end = async |store: &Store, follower| {
            commit(store, follow(follower, 3)).await;
            commit(store, unfollow(follower, 3)).await;
        };
        let ends = async |store: &Store, follower| store.scan_history(Key(follower), None, 10).await.unwrap().len();
        let documents = |disk: &CrashDisk| {
            let names = disk.list().unwrap();
            names.iter().filter(|name| name.starts_with("documents-")).count()
        };
        end(&store, 1).await;
        end(&store, 2).await;
        store.checkpoint().await.unwrap();
        assert_eq!(documents(&disk), 1);
        clock.advance(6 * DAY_MILLIS);
        end(&store, 1).await;
        assert_eq!((ends(&store, 1).await, ends(&store, 2).await), (2, 1));
        clock.advance(6 * DAY_MILLIS);
        assert_eq!((ends(&store, 1).await, ends(&store, 2).await), (1, 0));
        store.checkpoint().await.unwrap();
        assert_eq!((ends(&store, 1).await, ends(&store, 2).await), (1, 0));
        clock.advance(6 * DAY_MILLIS);
        assert_eq!(ends(&store, 1).await, 0);
        store.checkpoint().await.unwrap();
        assert_eq!(documents(&disk), 0, "{:?}", disk.names());
        assert_clean(&store).await;
        drop(store);
        let store = open_at(&disk, options, &clock).unwrap();
        assert_eq!((ends(&store, 1).await, ends(&store, 2).await), (0, 0));
        assert_clean(&store).await;
    });
}

/// Memory counts what it holds of records, and lets go of it with a checkpoint.
#[test]
fn records_count_towards_the_budget_until_they_are_in_blocks() {
    block_on(async {
        let disk = CrashDisk::new();
        let store = open_on(&disk, Options { segment_bytes: 1 << 20, ..Options::tiny() }).unwrap();
        commit(&store, user(1, "somebody")).await;
        let empty = store.memory_estimate();
        for id in 0..20 {
            commit(&store, record(1, id, &"x".repeat(30_000))).await;
        }
        assert!(store.memory_estimate() > empty + 600_000);
        store.checkpoint().await.unwrap();
        assert!(store.memory_estimate() < empty + 10_000, "{}", store.memory_estimate());
        assert_eq!(store.count_records(Space::Notification, Key(1)).await.unwrap(), 20);
    });
}
