//! A wave of parked follows on PostgreSQL.

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_store::SystemClock;

#[tokio::test(flavor = "multi_thread")]
async fn a_wave_is_accepted_or_dropped() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let schema = format!("test_{:016x}", rand::random::<u64>());
    let store = postgres::Store::connect(&url, &schema, postgres::Options::default(), Arc::new(SystemClock)).await;
    crate::quarantine::a_wave_is_accepted_or_dropped(Arc::new(store.expect("the store opens")), 60).await;
}
