//! Limits of the embedded store, large accounts, and clocks that jump.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::embedded_kit::{identity, open_on};
use entourage_embedded::{Options, Store};
use entourage_model::{
    Clock, Code, Key, Kind, List, ManualClock, Millis, Operation, Overwrite, Place, Reply, Sequence, UserId, UserPatch,
    Version, Write,
};
use entourage_store::{Store as _, StoreExt as _, Sweep};
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

fn user(number: i64) -> Write {
    let patch = UserPatch::default();
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Keep }.into()
}

fn follow(follower: i64, target: i64) -> Write {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
        .into()
}

fn unfollow(follower: i64, target: i64) -> Write {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }.into()
}

#[test]
fn past_the_memory_budget_nothing_grows_and_everything_else_goes_on() {
    let disk = CrashDisk::new();
    let options = Options { memory_budget: 200_000, ..Options::default() };
    let store = open_on(&disk, options).expect("the store opens");
    block_on(async {
        for number in 0..3 {
            store.commit(user(number)).await.expect("there is room");
        }
        store.commit(follow(0, 1)).await.expect("there is room");
        let mut made = 3;
        let refused = loop {
            match store.commit(user(made)).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 10_000, "the budget is never reached");
        };
        assert_eq!(refused.code(), Code::MemoryFull);
        assert!(refused.retry_delay().is_some());
        assert_eq!(store.commit(follow(1, 2)).await.expect_err("follows grow").code(), Code::MemoryFull);
        assert_eq!(store.get_counts(Key(1)).await.unwrap().unwrap().followers, 1);
        assert!(store.commit(unfollow(0, 1)).await.expect("unfollows do not grow").reply.changed());
        assert!(store.verify().await.unwrap().is_clean());
    });
}

/// With sixteen times as many users, one that looked at everybody for each page would take 256 times as long. The bound
/// leaves room for whoever else works on this machine.
#[test]
fn a_sweep_takes_time_in_proportion_to_the_users() {
    let least = |users: i64| {
        let store = open_on(&CrashDisk::new(), Options::default()).expect("the store opens");
        block_on(async {
            let writes: Vec<Write> = (0..users).map(|number| user(number * 7_919 % users)).collect();
            for writes in writes.chunks(1_000) {
                store.commit_all(writes.to_vec()).await.into_iter().for_each(|made| drop(made.expect("there is room")));
            }
            let mut least = Duration::MAX;
            for _ in 0..8 {
                let (began, mut sweep, mut seen) = (Instant::now(), Sweep::default(), 0);
                while let Some(page) = sweep.next(&store, 50).await.expect("users can be swept") {
                    seen += page.len();
                }
                assert_eq!(seen as i64, users);
                least = least.min(began.elapsed());
            }
            least
        })
    };
    let (few, many) = (least(10_000), least(160_000));
    println!("a sweep of 10,000 takes {few:?}, of 160,000 {many:?}");
    assert!(many < 100 * few, "{many:?} against {few:?}");
}

async fn all(store: &Store, list: List, size: usize) -> Vec<Key> {
    let (mut keys, mut after): (Vec<Key>, Option<Place>) = (Vec::new(), None);
    loop {
        let page = store.scan(list, after, size).await.expect("the list can be read");
        keys.extend(page.edges.iter().map(|edge| list.other(edge)));
        after = page.edges.last().map(|edge| list.place(edge));
        if !page.more {
            assert_eq!(page.total, keys.len() as u64, "the number is the list");
            return keys;
        }
    }
}

/// Many blocks, tombstones in old ones, re-follows, and a restart: what a reconciler that stops at the first
/// 10,000 would get wrong.
#[test]
fn an_account_with_10_001_followers_is_whole() {
    let disk = CrashDisk::new();
    let open = || open_on(&disk, Options::default()).expect("the store opens");
    let store = open();
    let count = 10_001;
    block_on(async {
        let users = (0..=count).map(user).collect();
        assert!(store.commit_all(users).await.iter().all(Result::is_ok));
        let follows = (1..=count).map(|follower| follow(follower, 0)).collect();
        assert!(store.commit_all(follows).await.iter().all(Result::is_ok));
        store.checkpoint().await.expect("a checkpoint is made");
        let mut expected: Vec<Key> = (1..=count).rev().map(Key).collect();
        assert_eq!(all(&store, List::followers(Key(0)), 997).await, expected);
        // Every seventh leaves; every 21st comes back and is the newest.
        let left: Vec<i64> = (1..=count).filter(|number| number % 7 == 0).collect();
        let back: Vec<i64> = left.iter().copied().filter(|number| number % 3 == 0).collect();
        assert!(store.commit_all(left.iter().map(|&n| unfollow(n, 0)).collect()).await.iter().all(Result::is_ok));
        assert!(store.commit_all(back.iter().map(|&n| follow(n, 0)).collect()).await.iter().all(Result::is_ok));
        expected.retain(|key| key.0 % 7 != 0);
        expected.splice(0..0, back.iter().rev().map(|&number| Key(number)));
        for size in [53, 200, 4096] {
            assert_eq!(all(&store, List::followers(Key(0)), size).await, expected, "from tail and blocks");
        }
        store.checkpoint().await.expect("a checkpoint is made");
        assert_eq!(all(&store, List::followers(Key(0)), 200).await, expected, "from blocks");
        assert!(store.verify().await.unwrap().is_clean());
        drop(store);
        let store = open();
        assert_eq!(all(&store, List::followers(Key(0)), 200).await, expected, "after a restart");
        assert!(store.verify().await.unwrap().is_clean());
    });
}

/// Imports without times all have one position: pages are cut inside it, by key.
#[test]
fn thousands_of_equal_positions_page_by_key() {
    let disk = CrashDisk::new();
    let store = open_on(&disk, Options::default()).expect("the store opens");
    block_on(async {
        assert!(store.commit_all((0..=3_000).map(user).collect()).await.iter().all(Result::is_ok));
        let import = |follower: i64| -> Write {
            let at = Millis::from_since_2000(5);
            Operation::Import { follower: Key(follower), target: Key(0), at, quiet: false }.into()
        };
        for part in [(1..=1_500), (1_501..=3_000)] {
            assert!(store.commit_all(part.map(import).collect()).await.iter().all(Result::is_ok));
            store.checkpoint().await.expect("a checkpoint is made");
        }
        let expected: Vec<Key> = (1..=3_000).rev().map(Key).collect();
        for size in [1_000, 53] {
            assert_eq!(all(&store, List::followers(Key(0)), size).await, expected);
        }
    });
}

#[test]
fn a_clock_that_jumps_an_hour_either_way_reorders_nothing() {
    let disk = CrashDisk::new();
    let hour = 60 * 60 * 1000;
    let noon = Millis::from_since_2000(800_000_000_000);
    let clock = Arc::new(ManualClock::new(noon));
    let open = || {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        Store::open_as(Arc::new(disk.clone()), "the test disk", Options::tiny(), clock, identity).expect("it opens")
    };
    let mut store = open();
    let mut last = Version::ZERO;
    block_on(async {
        for number in 0..40 {
            store.commit(user(number)).await.expect("the user is made");
        }
        for (step, number) in (1..40).enumerate() {
            match step % 4 {
                0 => clock.set(noon.plus(hour)),
                1 => clock.set(noon),
                2 => clock.set(Millis::from_since_2000(noon.since_2000() - hour)),
                _ => {
                    drop(store);
                    store = open();
                }
            }
            let outcome = store.commit(follow(number, 0)).await.expect("the follow is made");
            assert!(outcome.version > last, "{} after {last}", outcome.version);
            last = outcome.version;
        }
        let expected: Vec<Key> = (1..40).rev().map(Key).collect();
        assert_eq!(all(&store, List::followers(Key(0)), 7).await, expected, "the order of writing");
        let events = store.events_after(Sequence(40), 100).await.expect("events can be read");
        assert!(events.is_sorted_by_key(|event| event.version));
        assert_eq!(events.len(), 39);
        let edge = store.get_edges(Kind::Follow, &[(Key(39), Key(0))]).await.unwrap()[0].unwrap();
        // The clock is at most an hour ahead: versions leapt once and then counted on.
        assert!(edge.version.millis() <= noon.plus(hour + 10));
        assert!(store.verify().await.unwrap().is_clean());
    });
}

/// Writes that change nothing but carry a key have no sequence of their own: retention must not mistake the segment
/// they stand in for one that the checkpoint covers.
#[test]
fn retention_keeps_the_segment_in_which_the_checkpoint_was_taken() {
    let disk = CrashDisk::new();
    let options = Options { log_retain_bytes: 1, segment_bytes: 4 << 10, ..Options::tiny() };
    let store = Arc::new(open_on(&disk, options).expect("the store opens"));
    let keyed = |number: u64| {
        let mut scope = [9; 16];
        scope[..8].copy_from_slice(&number.to_be_bytes());
        let idempotency = Some(entourage_model::IdempotencyKey { scope, request: 1 });
        Write { idempotency, ..user(1) }
    };
    block_on(async {
        for number in 0..40 {
            store.commit(user(number)).await.expect("the user is made");
        }
        for round in 0..20u64 {
            store.commit(follow(1 + round as i64, 0)).await.expect("the follow is made");
            let writer = {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for chunk in 0..10 {
                        let first = round * 200 + chunk * 20;
                        let writes = (first..first + 20).map(keyed).collect();
                        assert!(store.commit_all(writes).await.iter().all(Result::is_ok));
                    }
                })
            };
            store.checkpoint().await.expect("a checkpoint is made");
            writer.await.expect("the writer ends");
            let copy = disk.image(entourage_testkit::crash_disk::Image::Nothing);
            let opened = open_on(&copy, options).unwrap_or_else(|fault| panic!("round {round}: {fault}"));
            for number in 0..(round + 1) * 200 {
                let again = opened.commit(keyed(number)).await.expect("a retry is answered");
                assert!(again.replayed, "round {round}: key {number} is forgotten");
            }
        }
    });
}

/// Whatever is written, the log does not outgrow what may be retained.
#[test]
fn writes_without_edges_bring_checkpoints_too() {
    let disk = CrashDisk::new();
    let options = Options {
        segment_bytes: 16 << 10,
        log_retain_bytes: 64 << 10,
        checkpoint_bytes: 1 << 30,
        checkpoint_entries: 1_000_000,
        ..Options::tiny()
    };
    let store = open_on(&disk, options).expect("the store opens");
    block_on(async {
        let rename = async |round: u32| {
            let patch = UserPatch { name: Some(Some(format!("round {round}").into())), ..UserPatch::default() };
            let write = Operation::PutUser { key: Key(1), id: UserId::from(1), patch, overwrite: Overwrite::Replace };
            store.commit(write.into()).await.expect("the user is changed");
        };
        for round in 0..4_000 {
            rename(round).await;
        }
        // The checkpoint writer has the lowest priority; on a busy machine it may still be at work, and the next
        // checkpoint begins with a write.
        let retained = || store.disk_bytes().expect("sizes can be read").1;
        for round in 0..1_000 {
            if retained() <= 2 * options.log_retain_bytes {
                return;
            }
            rename(round).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} bytes of log", retained());
    });
}

/// Removals since the last checkpoint hide what blocks and older tails still have, however many there are.
#[test]
fn pages_are_whole_among_hundreds_of_removals() {
    let store = open_on(&CrashDisk::new(), Options::default()).expect("the store opens");
    block_on(async {
        let users = (0..=1_300).map(user).collect();
        assert!(store.commit_all(users).await.iter().all(Result::is_ok));
        let mut expected = std::collections::BTreeSet::new();
        let list = List::followers(Key(0));
        let mut make = async |writes: Vec<Write>| {
            for (write, result) in writes.iter().zip(store.commit_all(writes.clone()).await) {
                let (follower, _) = write.operation.parties();
                match result.expect("the write is taken").reply {
                    Reply::Edge { value, .. } => assert!(expected.insert((value.position, follower))),
                    _ => expected.retain(|(_, key)| *key != follower),
                }
            }
            expected.iter().rev().map(|(_, key)| *key).collect::<Vec<Key>>()
        };
        // Times that fall: each goes in before the others.
        let import = |number: i64| {
            let (follower, target, at) = (Key(number), Key(0), Millis::from_since_2000(9_000 - number as u64));
            Operation::Import { follower, target, at, quiet: false }.into()
        };
        let steps: [Vec<Write>; 6] = [
            (1..=600).map(|number| follow(number, 0)).collect(),
            (601..=1_000).map(import).collect(),
            (100..=590).map(|number| unfollow(number, 0)).collect(),
            (1_001..=1_300).map(|number| follow(number, 0)).collect(),
            (700..=1_299).map(|number| unfollow(number, 0)).collect(),
            (100..=590).map(|number| follow(number, 0)).collect(),
        ];
        for (index, step) in steps.into_iter().enumerate() {
            let whole = make(step).await;
            for size in [7, 50, 400] {
                assert_eq!(all(&store, list, size).await, whole, "pages of {size} after step {index}");
            }
            if index % 2 == 0 {
                store.checkpoint().await.expect("a checkpoint can be made");
                assert_eq!(all(&store, list, 50).await, whole, "after the checkpoint of step {index}");
            }
            assert!(store.verify().await.unwrap().is_clean());
        }
    });
}
