//! Random runs of feeds over the wire, in memory and on an embedded store.

use std::sync::Arc;

use entourage_testkit::simulator as sim;

use crate::kit::feed_random::{Read, Wires};
use entourage_testkit::service::feed::{Twist, run};

fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("ENTOURAGE_SOAK").is_some() { count * 20 } else { count }
}

#[tokio::test]
async fn feeds_by_cursor_are_the_plain_feed_over_rest_and_resp() {
    for seed in seeds(4) {
        run(&mut Wires::new(Read::Pages, seed), seed, 200, None).await.unwrap();
    }
}

#[tokio::test]
async fn feeds_by_rank_and_time_are_the_plain_feed_over_resp() {
    for seed in seeds(3) {
        run(&mut Wires::new(Read::Sorted, 100 + seed), 100 + seed, 150, None).await.unwrap();
    }
}

/// Homes, relays and appliers, and everything that can befall them.
#[tokio::test]
async fn feeds_on_homes_that_settle_are_the_plain_feed_over_rest_and_resp() {
    for seed in sim::seeds(6) {
        let (store, read) = (sim::forgetful_store(seed), if seed % 2 == 0 { Read::Pages } else { Read::Sorted });
        let mut wires = Wires::over(read, Box::new(move || Arc::clone(&store)));
        run(&mut wires, seed, 150, None).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[tokio::test]
async fn a_rule_left_out_of_feeds_is_noticed_over_the_wire() {
    for (read, twist) in [(Read::Pages, Twist::UnfollowsHideNothing), (Read::Sorted, Twist::BelowTheFloorIsLost)] {
        let mut failure = None;
        for seed in (0..8).step_by(2) {
            failure = run(&mut Wires::new(read, seed), seed, 200, Some(twist)).await.err();
            if failure.is_some() {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| panic!("{twist:?} goes unnoticed"));
        assert!(failure.contains(" must "), "{twist:?}: {failure}");
    }
}
