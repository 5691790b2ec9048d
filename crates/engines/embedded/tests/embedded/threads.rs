//! What fails beside the writers: a sync of a checkpoint, a thread that panics, a block that rotted. Nobody waits for what
//! will not come, nothing is built on what may be lost, and nothing is tried again at the cost of the disk.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::embedded_kit::open_on;
use entourage_embedded::{Options, Store};
use entourage_model::{Condition, Key, List, Operation, Overwrite, RecordId, Space, UserId, UserPatch, Write};
use entourage_store::{Health, Store as _, StoreExt as _, disk::Disk as _};
use entourage_testkit::portrait::portrait;
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, FailedSync, Image},
};

/// Long enough for a machine that does much else.
const SOON: Duration = Duration::from_secs(60);

fn user(number: i64, name: &str) -> Operation {
    let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
}

fn record(owner: i64) -> Operation {
    let (id, value, condition) = (RecordId::new(b"id").unwrap(), Some([7; 40].as_slice().into()), Condition::Any);
    Operation::PutRecord { space: Space::Notification, owner: Key(owner), id, value, condition, cap: None }
}

async fn commit(store: &Store, operation: Operation) {
    store.commit(operation.into()).await.unwrap();
}

/// Does not wait for ever.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    wait.recv_timeout(SOON).unwrap_or_else(|_| panic!("{what} has not ended"))
}

async fn degraded(store: &Store) -> String {
    match store.health().await {
        Health::Degraded(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Every sync of a checkpoint fails in turn. The bytes that it was for are gone, whatever a later one says.
#[test]
fn after_a_failed_sync_of_a_checkpoint_nothing_more_is_written() {
    let mut failed = 0;
    for (nth, kind) in (0..12).flat_map(|nth| [(nth, FailedSync::DropsWrites), (nth, FailedSync::ForgetsWrites)]) {
        let disk = CrashDisk::new();
        let store = open_on(&disk, Options::tiny()).unwrap();
        let drawn = block_on(async {
            for number in 1..=5 {
                commit(&store, user(number, "first")).await;
            }
            store.checkpoint().await.unwrap();
            for number in 1..=4 {
                commit(&store, follow(number, 5)).await;
                commit(&store, user(number, "second")).await;
                commit(&store, record(number)).await;
            }
            portrait(&store).await.unwrap()
        });
        disk.fail_sync(nth, kind);
        if block_on(store.checkpoint()).is_ok() {
            continue;
        }
        failed += 1;
        let why = block_on(degraded(&store));
        assert!(why.contains("poisoned: a sync failed"), "{why}");
        let operations = disk.operations();
        block_on(store.commit(follow(5, 1).into())).unwrap_err();
        block_on(store.checkpoint()).unwrap_err();
        if nth % 4 == 0 && kind == FailedSync::ForgetsWrites {
            thread::sleep(Duration::from_millis(1_200));
        }
        let store = soon("closing", move || {
            let _ = block_on(store.close());
            store
        });
        drop(store);
        assert_eq!(disk.operations(), operations, "something was attempted again\n{}", disk.trace());
        for image in [Image::Nothing, Image::Everything, Image::Random(nth)] {
            let left = disk.image(image);
            let store =
                open_on(&left, Options::tiny()).unwrap_or_else(|fault| panic!("{nth} {kind:?} {image:?}: {fault}"));
            block_on(async {
                assert_eq!(portrait(&store).await.unwrap(), drawn, "{nth} {kind:?} {image:?}");
                let report = store.verify().await.unwrap();
                assert!(report.is_clean(), "{nth} {kind:?} {image:?}: {:?}", report.problems);
                commit(&store, follow(5, 1)).await;
                store.close().await.unwrap();
            });
        }
    }
    assert!(failed >= 10, "{failed}");
}

/// Lets a thread of the store panic at its next write.
fn let_panic(disk: &CrashDisk, thread: &'static str) -> Arc<AtomicBool> {
    let has = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&has);
    let concerns = move |_: &str| {
        if thread::current().name() == Some(thread) && !told.swap(true, Ordering::SeqCst) {
            // Others come meanwhile, if there are any, and wait for it.
            thread::sleep(Duration::from_millis(100));
            panic!("{thread} is made to panic");
        }
        false
    };
    disk.fail_write_with(io::ErrorKind::Other, concerns, u64::MAX);
    has
}

fn missed_thread(name: &'static str, options: Options, provoke: impl Fn(&Arc<Store>) + Send + 'static) {
    let disk = CrashDisk::new();
    let store = Arc::new(open_on(&disk, options).unwrap());
    block_on(async {
        for number in 1..=5 {
            commit(&store, user(number, "first")).await;
        }
    });
    let has_panicked = let_panic(&disk, name);
    let of_store = Arc::clone(&store);
    soon(name, move || provoke(&of_store));
    assert!(has_panicked.load(Ordering::SeqCst), "{name} had nothing to write");
    // The caller may hear of it while the thread is still unwinding.
    let of_store = Arc::clone(&store);
    soon("the word of it", move || {
        while block_on(of_store.health()) == Health::Ready {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let why = block_on(degraded(&store));
    assert!(why.contains("poisoned") && why.contains(name.trim_start_matches("entourage-")), "{why}");
    let of_store = Arc::clone(&store);
    soon("a write", move || block_on(of_store.commit(follow(1, 2).into()))).unwrap_err();
    let of_store = Arc::clone(&store);
    soon("a checkpoint", move || block_on(of_store.checkpoint())).unwrap_err();
    let users = block_on(store.sweep_all()).unwrap();
    soon("closing", move || {
        let _ = block_on(store.close());
        drop(store);
    });
    let store = open_on(&disk.image(Image::Nothing), Options::tiny()).unwrap();
    block_on(async {
        let again = store.sweep_all().await.unwrap();
        assert!(users.iter().all(|user| again.contains(user)), "acked users are gone");
        assert!(store.verify().await.unwrap().is_clean());
        commit(&store, follow(1, 2)).await;
    });
}

#[test]
fn a_sequencer_that_panics_is_missed() {
    missed_thread("entourage-sequencer", Options::tiny(), |store| {
        block_on(store.commit(follow(1, 2).into())).unwrap_err();
    });
}

/// Those whose writes it has not even taken are told, too.
#[test]
fn a_sequencer_that_panics_leaves_nobody_waiting() {
    missed_thread("entourage-sequencer", Options::tiny(), |store| {
        let write = |number| {
            let store = Arc::clone(store);
            thread::spawn(move || while block_on(store.commit(user(number, "waits").into())).is_ok() {})
        };
        let writers: Vec<_> = (100..108).map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_checkpoint_writer_that_panics_is_missed() {
    missed_thread("entourage-checkpoint", Options::tiny(), |store| {
        block_on(store.checkpoint()).unwrap_err();
    });
}

#[test]
fn a_maker_of_segments_that_panics_is_missed() {
    let options = Options { prepare_ahead: true, ..Options::tiny() };
    missed_thread("entourage-segments", options, |store| {
        // The next segment may be there already; the one after it is not.
        let mut number = 100;
        while block_on(store.commit(user(number, &"a long name ".repeat(10)).into())).is_ok() {
            number += 1;
        }
    });
}

#[test]
fn a_second_committer_that_panics_is_missed() {
    missed_thread("entourage-commit", Options { large_batch: 2, ..Options::tiny() }, |store| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let store = Arc::clone(store);
                thread::spawn(move || {
                    for round in 0.. {
                        let number = 1_000 + writer * 100_000 + round * 3;
                        let writes: Vec<Write> = (0..3).map(|next| user(number + next, "of many").into()).collect();
                        if block_on(store.commit_all(writes)).iter().any(Result::is_err) {
                            break;
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

fn block_bytes(disk: &CrashDisk) -> usize {
    let live = disk.image(Image::Everything);
    let blocks = live.names().into_iter().filter(|name| name.ends_with(".blocks"));
    blocks.map(|name| live.contents(&name).unwrap().len()).sum()
}

/// Turns a bit around in the list of the first user's followers, and says in which file.
async fn rot(disk: &CrashDisk, store: &Store) -> String {
    let followers = List::followers(Key(1));
    let file = disk.names().into_iter().find(|name| name.starts_with("followers-")).unwrap();
    for bit in (0..disk.contents(&file).unwrap().len() as u64 * 8).step_by(97) {
        disk.flip_bit(&file, bit).unwrap();
        if let Err(error) = store.scan(followers, None, 1_000).await {
            assert!(error.detail().contains(&file), "{error}");
            return file;
        }
        disk.flip_bit(&file, bit).unwrap();
    }
    panic!("no bit of {file} is one of that list");
}

/// One block of one list is damaged. Checkpoints cannot be made, which is said; but trying takes no room, all else is in
/// blocks, and the log has everything.
#[test]
fn a_rotten_block_is_said_and_does_not_fill_the_disk() {
    let disk = CrashDisk::new();
    let store = open_on(&disk, Options::tiny()).unwrap();
    block_on(async {
        for number in 1..=300 {
            commit(&store, user(number, "a name that takes some room in a block of users")).await;
        }
        for number in 2..=300 {
            commit(&store, follow(number, 1)).await;
            commit(&store, follow(1, number)).await;
        }
        store.checkpoint().await.unwrap();
        let file = rot(&disk, &store).await;
        for number in 1..=300 {
            commit(&store, user(number, "another name that takes as much room as the first one did")).await;
        }
        commit(&store, Operation::Unfollow { follower: Key(7), target: Key(1) }).await;
        commit(&store, follow(2, 3)).await;
        let mut sizes = Vec::new();
        for _ in 0..6 {
            let error = store.checkpoint().await.expect_err("the list cannot be read");
            assert!(error.detail().contains(&file), "{error}");
            sizes.push(block_bytes(&disk));
        }
        assert_eq!(sizes[0], sizes[5], "each attempt took more room: {sizes:?}");
        let why = degraded(&store).await;
        assert!(why.contains("no checkpoint") && why.contains(&file), "{why}");
        assert_eq!(store.scan(List::followers(Key(3)), None, 9).await.unwrap().total, 2);
        commit(&store, follow(3, 2)).await;
        let _ = store.close().await;
        drop(store);
        let again = open_on(&disk.image(Image::Everything), Options::tiny()).unwrap();
        assert_eq!(again.scan(List::followers(Key(3)), None, 9).await.unwrap().total, 2);
        assert_eq!(again.get_counts(Key(1)).await.unwrap().unwrap().followers, 298);
        assert!(again.verify().await.is_err(), "the damage is still there");
    });
}

/// A damaged block in a file that is mostly dead: it is not signed anew and not lost, and stops nothing.
#[test]
fn a_rotten_block_that_would_be_moved_stays() {
    for is_rotten in [false, true] {
        let disk = CrashDisk::new();
        let store = open_on(&disk, Options::tiny()).unwrap();
        block_on(async {
            for number in 1..=120 {
                commit(&store, user(number, "somebody")).await;
            }
            let follows = (2..=9).map(|number| (number, 1));
            let follows = follows.chain((2..=90).flat_map(|number| (1..=20).map(move |step| (number, number + step))));
            let follows: Vec<Write> = follows.map(|(follower, target)| follow(follower, target).into()).collect();
            assert!(store.commit_all(follows).await.iter().all(Result::is_ok));
            store.checkpoint().await.unwrap();
            let first = disk.names().into_iter().find(|name| name.starts_with("followers-")).unwrap();
            if is_rotten {
                assert_eq!(rot(&disk, &store).await, first);
            }
            // Every other list of that file is written anew.
            for step in 21..24 {
                for number in 2..=90 {
                    commit(&store, follow(number, number + step)).await;
                }
                store.checkpoint().await.unwrap();
            }
            assert_eq!(store.health().await, Health::Ready);
            assert_eq!(disk.list().unwrap().contains(&first), is_rotten, "moved if it can be, and kept if not");
            assert_eq!(store.scan(List::followers(Key(50)), None, 100).await.unwrap().total, 23);
            if is_rotten {
                let error = store.scan(List::followers(Key(1)), None, 100).await.expect_err("it is damaged");
                assert!(error.detail().contains(&first), "{error}");
                let error = store.verify().await.expect_err("it is damaged");
                assert!(error.detail().contains(&first), "{error}");
            } else {
                assert!(store.verify().await.unwrap().is_clean());
            }
        });
    }
}
