//! The memory backend under the whole suite.

use std::sync::Arc;

use entourage_memory as memory;
use entourage_memory::Graph;
use entourage_model::{
    Clock, IdempotencyKey, Key, ManualClock, Millis, Operation, Outcome, Overwrite, Secret, UserId, UserPatch, Write,
};
use entourage_store::{Identity, Store, StoreExt as _, SystemClock};
use entourage_testkit::conformance::{block_on, random};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

fn with_clock(clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    Arc::new(memory::Store::new(identity, clock))
}

async fn fresh() -> Arc<dyn Store> {
    with_clock(Arc::new(SystemClock))
}

entourage_testkit::conformance!(
    fresh = fresh,
    skips = [
        "sweeps::a_cursor_stays_good_after_reopening",
        "parked::parked_follows_survive_reopening",
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
    random::run_seeds(20, 2_000, fresh);
}

fn applied<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Graph {
    let mut graph = Graph::default();
    outcomes.into_iter().for_each(|outcome| graph.apply(outcome));
    graph
}

#[test]
fn outcomes_in_any_order_and_any_number_come_to_the_same_graph() {
    for seed in 0..6 {
        let run =
            block_on(async { random::run(fresh().await, random::Plan::new(seed, 1_200), random::straight_on).await });
        let outcomes = run.unwrap_or_else(|failure| panic!("{failure}")).outcomes;
        let expected = applied(&outcomes);
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..8 {
            let mut shuffled: Vec<&Outcome> = outcomes.iter().collect();
            for _ in 0..outcomes.len() / 2 {
                shuffled.push(&outcomes[rng.random_range(0..outcomes.len())]);
            }
            shuffled.shuffle(&mut rng);
            assert!(applied(shuffled) == expected, "seed {seed}");
        }
        let one_lost = outcomes.iter().rev().find(|outcome| !outcome.changes.is_empty()).expect("something changed");
        let without = applied(outcomes.iter().filter(|outcome| outcome.version != one_lost.version));
        assert!(without != expected, "the last change makes a difference");
    }
}

#[test]
fn an_idempotency_key_is_forgotten_after_a_day() {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let clock = Arc::new(ManualClock::new(Millis::from_since_2000(DAY)));
    let store = with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    block_on(async {
        for number in [1, 2] {
            let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
            let put = Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace };
            store.commit(put.into()).await.expect("the user is made");
        }
        let key = IdempotencyKey { scope: [1; 16], request: 1 };
        let unfollow = Operation::Unfollow { follower: Key(1), target: Key(2) };
        let write = Write { idempotency: Some(key), ..Write::from(unfollow) };
        for (wait, replayed) in [(0, false), (0, true), (DAY - 1, true), (1, false), (DAY - 1, true)] {
            clock.advance(wait);
            let outcome = store.commit(write.clone()).await.expect("the write is taken");
            assert_eq!(outcome.replayed, replayed, "after another {wait} ms");
        }
    });
}
