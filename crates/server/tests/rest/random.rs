//! Random runs through REST on stores of this process; the embedded one is stopped and started now and then. The rules
//! for viewers are compared with a reference of their own.

use std::sync::Arc;

use entourage_store::{Store, SystemClock, backends::embedded, conformance::random::run_seeds, disk::crash::CrashDisk};

use super::{
    recorded::Lie,
    rules::run_seeds as run_rules,
    rules_front::RestFront,
    server::memory_store,
    through::{RestStore, restarted},
};

#[test]
fn runs_on_memory_agree_with_the_reference() {
    run_seeds(4, 250, async || Arc::new(RestStore::new(memory_store(1), None)) as Arc<dyn Store>);
}

#[test]
fn runs_on_an_embedded_store_agree_with_the_reference_across_restarts() {
    run_seeds(4, 200, async || {
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

#[tokio::test]
async fn the_rules_hold_on_an_embedded_store_for_every_viewer() {
    run_rules(2, 150, async || {
        let disk = Arc::new(CrashDisk::new());
        let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
        let store = embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock));
        RestFront::new(Arc::new(store.unwrap()))
    })
    .await;
}

#[test]
fn the_comparison_notices_lies() {
    for lie in [Lie::ShortLists, Lie::Counts, Lie::Quiet] {
        let fresh = async || Arc::new(RestStore::new(memory_store(1), Some(lie))) as Arc<dyn Store>;
        let run = || run_seeds(2, 120, fresh);
        assert!(std::panic::catch_unwind(run).is_err(), "{lie:?} went unnoticed");
    }
}
