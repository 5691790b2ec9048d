//! Random runs of feeds against the plain feed, on memory and on an embedded store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]
#![allow(clippy::print_stdout, reason = "a failed run is replayed by the seed it printed")]

mod feed_kit;

use std::sync::Arc;

use entourage_model::Secret;
use entourage_store::{
    Identity, Store, SystemClock,
    backends::{embedded, memory},
    disk::RealDisk,
};

use self::feed_kit::{Twist, run, service::ServiceFront};

fn on_memory() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("ENTOURAGE_SOAK").is_some() { count * 20 } else { count }
}

#[tokio::test]
async fn feeds_on_memory_are_the_plain_feed() {
    for seed in seeds(30) {
        let mut front = ServiceFront::new(on_memory(), false);
        run(&mut front, seed, 400, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_the_plain_feed_while_fan_out_runs() {
    for seed in seeds(12) {
        let mut front = ServiceFront::new(on_memory(), true);
        run(&mut front, seed, 300, None).await.unwrap();
        front.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_on_an_embedded_store_are_the_plain_feed() {
    let folder = std::env::temp_dir().join(format!("entourage-feeds-{:016x}", rand::random::<u64>()));
    for seed in seeds(6) {
        let place = folder.join(seed.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let disk = Arc::new(RealDisk::new(&place).unwrap());
        let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
        let store = embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap();
        let mut front = ServiceFront::new(Arc::new(store), seed % 2 == 0);
        run(&mut front, seed, 250, None).await.unwrap();
        front.stop().await;
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_rule_left_out_is_noticed() {
    for twist in [
        Twist::MutesHideNothing,
        Twist::UnfollowsHideNothing,
        Twist::DeletedAreShown,
        Twist::OldestFirst,
        Twist::BelowTheFloorIsLost,
    ] {
        let mut failure = None;
        for seed in 0..6 {
            let mut front = ServiceFront::new(on_memory(), false);
            failure = run(&mut front, seed, 300, Some(twist)).await.err();
            if failure.is_some() {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| panic!("{twist:?} goes unnoticed"));
        assert!(failure.contains(" must "), "{twist:?}: {failure}");
    }
}
