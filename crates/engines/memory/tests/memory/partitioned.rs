//! Partitioned memory under the whole suite, with 1, 4 and 16 homes.

use std::sync::Arc;

use entourage_memory::partitioned;
use entourage_model::Secret;
use entourage_store::{Answer, Identity, Store, SystemClock, layers::cached::Options};
use entourage_testkit::{
    cached::{done, follow, over, peek, people},
    conformance::{block_on, random},
};

fn with_homes(homes: u16) -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    Arc::new(partitioned::Store::new(identity, Arc::new(SystemClock), homes))
}

/// A layer that follows one log holds nothing over these.
async fn cached() -> Arc<dyn Store> {
    Arc::new(over(with_homes(4), Options::default()).await)
}

macro_rules! suite {
    ($name:ident, $homes:literal) => {
        mod $name {
            use super::*;

            async fn fresh() -> Arc<dyn Store> {
                with_homes($homes)
            }

            entourage_testkit::conformance!(
                fresh = fresh,
                skips = [
                    "sweeps::a_cursor_stays_good_after_reopening",
                    "parked::parked_follows_survive_reopening",
                    "events::progress_tells_which_outcomes_are_listed",
                    "races::histories_are_linear",
                    "quotas::what_was_taken_survives_reopening",
                    "records::records_survive_reopening",
                    "fences::they_survive_reopening",
                    "posts::they_survive_reopening",
                    "erasing::erasing_survives_reopening",
                    "life::a_closed_store_refuses_writes",
                    "life::acked_writes_survive_reopening",
                    "life::retries_are_recognised_after_reopening",
                    "life::versions_and_sequences_go_on_after_reopening",
                ]
            );

            #[test]
            fn random_operations_agree_with_the_reference() {
                random::run_seeds(6, 1_200, fresh);
            }
        }
    };
}

suite!(one_home, 1);
suite!(four_homes, 4);
suite!(sixteen_homes, 16);

mod four_homes_cached {
    use super::cached;

    entourage_testkit::conformance!(
        fresh = cached,
        skips = [
            "sweeps::a_cursor_stays_good_after_reopening",
            "parked::parked_follows_survive_reopening",
            "events::progress_tells_which_outcomes_are_listed",
            "races::cap_is_exact_at_9_999",
            "races::histories_are_linear",
            "quotas::what_was_taken_survives_reopening",
            "records::a_large_group_goes_in_chunks",
            "records::records_survive_reopening",
            "fences::they_survive_reopening",
            "posts::they_survive_reopening",
            "erasing::erasing_survives_reopening",
            "life::a_closed_store_refuses_writes",
            "life::acked_writes_survive_reopening",
            "life::retries_are_recognised_after_reopening",
            "life::versions_and_sequences_go_on_after_reopening",
        ]
    );
}

#[test]
fn the_cached_layer_takes_no_answer_from_one_of_several_logs() {
    block_on(async {
        let (store, layer) = (with_homes(4), cached().await);
        for store in [&store, &layer] {
            people(&**store, 1..=2).await;
            done(&**store, follow(1, 2)).await;
        }
        assert_eq!((peek(&*store, 1, 2), peek(&*layer, 1, 2)), (Answer::Yes, Answer::Unknown));
    });
}
