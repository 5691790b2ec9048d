//! Two servers of one PostgreSQL: one of them runs a task.

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_store::{Store, SystemClock};

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
    crate::scheduler::one_of_two_servers_runs_it([open().await, open().await]).await;
}
