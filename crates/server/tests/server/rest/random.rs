//! Random runs through REST on stores of this process; the embedded one is stopped and started now and then. The rules
//! for viewers are compared with a reference of their own.

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_store::{Store, SystemClock};
use entourage_testkit::{
    conformance::{
        block_on,
        random::{self, Plan, run_seeds_of_the_graph},
    },
    crash_disk::CrashDisk,
    simulator as sim,
};

use super::{
    recorded::Lie,
    rules::{reference::Twist, run as run_one, run_seeds as run_rules},
    rules_front::RestFront,
    server::memory_store,
    through::{RestStore, restarted},
};

#[test]
fn runs_on_memory_agree_with_the_reference() {
    run_seeds_of_the_graph(4, 250, async || Arc::new(RestStore::new(memory_store(1), None)) as Arc<dyn Store>);
}

#[test]
fn runs_on_an_embedded_store_agree_with_the_reference_across_restarts() {
    run_seeds_of_the_graph(4, 200, async || {
        let disk = CrashDisk::new();
        restarted(move || {
            let disk = Arc::new(disk.clone());
            let options = embedded::Options {
                segment_bytes: 256 << 10,
                frame_bytes: 64 << 10,
                checkpoint_entries: 100,
                ..embedded::Options::default()
            };
            async move {
                let store = embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock));
                Arc::new(store.unwrap()) as Arc<dyn Store>
            }
        })
        .await
    });
}

/// Requests, jobs, groups, mutes that end, suspension, erasing, history, derived lists and the leaderboard, as everybody
/// may see them, the server stopped and started now and then.
fn rules_front() -> RestFront {
    let disk = CrashDisk::new();
    RestFront::restarted(move || {
        let options = embedded::Options {
            segment_bytes: 256 << 10,
            frame_bytes: 64 << 10,
            checkpoint_entries: 100,
            ..embedded::Options::default()
        };
        let store = embedded::Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::new(SystemClock));
        Arc::new(store.unwrap())
    })
}

#[tokio::test]
async fn the_rules_hold_on_memory_for_every_viewer() {
    run_rules(2, 150, async || {
        let store = memory_store(1);
        RestFront::restarted(move || Arc::clone(&store))
    })
    .await;
}

#[tokio::test]
async fn the_rules_hold_on_an_embedded_store_for_every_viewer() {
    run_rules(4, 200, async || rules_front()).await;
}

/// Homes, relays and appliers, and everything that can befall them; the servers change, the homes stay.
#[tokio::test]
async fn the_rules_hold_on_homes_that_settle() {
    for seed in sim::seeds(8) {
        let store = if seed % 2 == 0 { sim::store(seed) } else { sim::forgetful_store(seed) };
        let front = RestFront::restarted(move || Arc::clone(&store));
        if let Err(failure) = run_one(&front, seed, 150, None).await {
            panic!("{failure}");
        }
    }
}

#[test]
fn runs_on_homes_that_settle_agree_with_the_reference() {
    for seed in sim::seeds(8) {
        let plan = Plan { beyond_graph: false, ..Plan::new(seed, 150) };
        let store = Arc::new(RestStore::new(sim::store(seed), None)) as Arc<dyn Store>;
        if let Err(failure) = block_on(random::run(store, plan, random::straight_on)) {
            panic!("{failure}");
        }
    }
}

#[tokio::test]
async fn a_rule_left_out_is_noticed_over_rest() {
    for twist in [Twist::QuietIsSeen, Twist::MutesNeverEnd, Twist::ErasedAreListed, Twist::StrangersStayInGroups] {
        let mut failure = None;
        for seed in 1..5 {
            failure = run_one(&rules_front(), seed, 400, Some(twist)).await.err();
            if failure.is_some() {
                break;
            }
        }
        assert!(failure.is_some_and(|failure| failure.contains(" must ")), "{twist:?} goes unnoticed");
    }
}

#[test]
fn the_comparison_notices_lies() {
    for lie in [Lie::ShortLists, Lie::Counts, Lie::Quiet] {
        let fresh = async || Arc::new(RestStore::new(memory_store(1), Some(lie))) as Arc<dyn Store>;
        let run = || run_seeds_of_the_graph(2, 120, fresh);
        assert!(std::panic::catch_unwind(run).is_err(), "{lie:?} went unnoticed");
    }
}
