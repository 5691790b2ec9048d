//! The search for rings in a larger store, beside somebody who wants their turn. It prints how long it took and what it
//! needed; `ENTOURAGE_SOAK=1` has a million users with ten million follows.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_model::{Key, Operation, Overwrite, Write};
use entourage_testkit::crash_disk::CrashDisk;

use super::*;

const RING: i64 = 50;
const RING_TARGETS: i64 = 40;
const FOLLOWS: i64 = 10;
const BATCH: i64 = 5_000;

fn people() -> i64 {
    let is_long = std::env::var("ENTOURAGE_SOAK").is_ok_and(|value| value == "1");
    if is_long { 1_000_000 } else { 20_000 }
}

fn put(key: i64) -> Write {
    let (key, id, patch) = (Key(key), UserId::from(key), UserPatch::default());
    Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep }.into()
}

fn follow(follower: i64, target: i64) -> Write {
    let (follower, target) = (Key(follower), Key(target));
    Operation::Follow { follower, target, quiet: None, cap: None, park: false }.into()
}

async fn commit(store: &embedded::Store, writes: Vec<Write>) {
    for outcome in store.commit_all(writes).await {
        outcome.unwrap();
    }
}

/// Everybody follows ten of anywhere; a ring in the middle follows the same forty as well.
async fn filled(clock: &Arc<ManualClock>) -> Arc<embedded::Store> {
    let (disk, people) = (Arc::new(CrashDisk::new()), people());
    let store = embedded::Store::open(disk, "the test disk", embedded::Options::default(), Arc::clone(clock) as _);
    let store = Arc::new(store.unwrap());
    for first in (0..people).step_by(BATCH as usize) {
        commit(&store, (first..first + BATCH).map(put).collect()).await;
        clock.advance(HOUR);
    }
    for first in (0..people).step_by(BATCH as usize) {
        let edges = (first..first + BATCH).flat_map(|user| {
            (1..=FOLLOWS).map(move |step| (user, (user * 7_919 + step * step * 104_729 + step) % people))
        });
        commit(&store, edges.filter(|(user, target)| user != target).map(|(a, b)| follow(a, b)).collect()).await;
        clock.advance(HOUR);
    }
    let ring = people / 2..people / 2 + RING;
    let edges = ring.flat_map(|user| (0..RING_TARGETS).map(move |target| follow(user, people / 4 + target)));
    commit(&store, edges.collect()).await;
    store
}

fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    (text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096) >> 20
}

/// One worker: whoever holds it holds up everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_ring_is_found_in_a_larger_store_and_nobody_waits_for_that() {
    let clock = clock();
    let store = filled(&clock).await;
    let world = World::over(store, clock, AbuseRules::default()).await;
    let (before, began, is_done) = (resident_mib(), Instant::now(), Arc::new(AtomicBool::new(false)));
    let stop = Arc::clone(&is_done);
    let turns = tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            longest = longest.max(began.elapsed());
        }
        longest
    });
    let found = world.service.abuse.find_clusters().await.unwrap();
    let took = began.elapsed();
    is_done.store(true, Ordering::Relaxed);
    let longest = turns.await.unwrap();
    println!(
        "{} users, {} clusters in {took:.1?}; {} MiB before, {} after; others waited {longest:.1?} at the longest",
        found.users,
        found.clusters,
        before,
        resident_mib()
    );
    assert_eq!((found.users, found.clusters), (people() as u64, 1));
    let case = world.list(None, Some(CaseKind::Cluster)).await.pop().unwrap();
    let ring: Vec<String> = (people() / 2..people() / 2 + RING).map(|user| user.to_string()).collect();
    let found = ids(&case.actors);
    assert!(found.iter().all(|user| ring.contains(user)), "{found:?}");
    assert!(found.len() * 10 >= ring.len() * 8, "{} of {}", found.len(), ring.len());
}
