//! The memory backend under the whole suite.

use std::sync::Arc;

use entourage_model::Secret;
use entourage_store::{Identity, Store, SystemClock, backends::memory, conformance::random};

async fn fresh() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

entourage_store::conformance!(
    fresh = fresh,
    skips = [
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
