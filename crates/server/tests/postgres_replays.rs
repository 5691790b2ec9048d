//! Events applied to a copy of the graph, on PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]
#![allow(dead_code, reason = "these helpers serve the tests of the other stores too")]

#[path = "rest/described.rs"]
mod described;
#[path = "rest/replayed.rs"]
mod replayed;
#[path = "rest/server.rs"]
mod server;
#[path = "rest/table.rs"]
mod table;

use std::sync::Arc;

use entourage_store::{
    Store, SystemClock,
    backends::postgres::{self, Options},
};

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
