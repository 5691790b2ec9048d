//! Two servers of one PostgreSQL: one of them runs a task.

use std::{sync::Arc, time::Duration};

use entourage_model::ManualClock;
use entourage_postgres as postgres;
use entourage_store::{Store, SystemClock};

use crate::scheduler::START;

/// Longer than a connected server may be silent.
const SILENCE: Duration = Duration::from_millis(10_500);

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_runs_it() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let schema = format!("test_{:016x}", rand::random::<u64>());
    let open = async || {
        let options = postgres::Options::default();
        let store = postgres::Store::connect(&url, &schema, options, Arc::new(SystemClock)).await;
        Arc::new(store.expect("the store opens")) as Arc<dyn Store>
    };
    let (clock, stores) = (Arc::new(ManualClock::new(START)), [open().await, open().await]);
    // By the clock of PostgreSQL.
    let silence = async || tokio::time::sleep(SILENCE).await;
    crate::scheduler::one_of_two_servers_runs_it(stores, clock, silence).await;
}
