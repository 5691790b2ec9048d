//! Random runs of the rules through the service, on memory and on an embedded store in a folder of its own.

use entourage_testkit::service::{front as service_front, rules};

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::Secret;
use entourage_store::{Identity, SystemClock, disk::RealDisk};
use entourage_testkit::simulator as sim;

use self::{
    rules::{reference::Twist, run, run_seeds},
    service_front::ServiceFront,
};

fn on_memory() -> ServiceFront {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    ServiceFront::new(Arc::new(memory::Store::new(identity, Arc::new(SystemClock))))
}

#[tokio::test]
async fn runs_on_memory_agree_with_the_rules() {
    run_seeds(12, 400, async || on_memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_on_an_embedded_store_agree_with_the_rules() {
    let folder = std::env::temp_dir().join(format!("entourage-rules-{:016x}", rand::random::<u64>()));
    run_seeds(4, 300, async || {
        let place = folder.join(format!("{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&place).unwrap();
        let disk = Arc::new(RealDisk::new(&place).unwrap());
        let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
        let store = embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap();
        ServiceFront::new(Arc::new(store))
    })
    .await;
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Homes, relays and appliers, and everything that can befall them.
#[tokio::test]
async fn runs_on_homes_that_settle_agree_with_the_rules() {
    for seed in sim::seeds(100) {
        let store = if seed % 2 == 0 { sim::store(seed) } else { sim::forgetful_store(seed) };
        if let Err(failure) = run(&ServiceFront::new(store), seed, 250, None).await {
            panic!("{failure}");
        }
    }
}

#[tokio::test]
async fn a_rule_left_out_is_noticed() {
    for twist in [
        Twist::QuietIsSeen,
        Twist::BlocksHideNothing,
        Twist::PrivateIsOpen,
        Twist::HiddenListsAreOpen,
        Twist::EvidenceIsWhatAnyListShows,
        Twist::RequestsCountAsFollows,
        Twist::MutesNeverEnd,
        Twist::ErasedAreListed,
        Twist::SuspendedMayFollow,
        Twist::HistoryForgetsBlocks,
        Twist::StrangersStayInGroups,
        Twist::DismissedAreSuggested,
        Twist::MutedAreSuggested,
    ] {
        let mut failure = None;
        for seed in 1..5 {
            failure = run(&on_memory(), seed, 400, Some(twist)).await.err();
            if failure.is_some() {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| panic!("{twist:?} goes unnoticed"));
        assert!(failure.contains(" must "), "{twist:?}: {failure}");
    }
}
