//! Events applied to a copy of the graph, on PostgreSQL.

use crate::kit::replayed;

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Store, SystemClock};

#[test]
fn a_copy_made_of_events_is_what_postgresql_exports() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    // Connections live where they were made.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for seed in [20, 21] {
        let schema = format!("test_{:016x}", rand::random::<u64>());
        let open = || {
            let store = postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock));
            Arc::new(runtime.block_on(store).expect("the store opens")) as Arc<dyn Store>
        };
        replayed::run(open, seed, 400, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
