//! Non-interference on PostgreSQL: two stores that differ only in what a viewer may not see are the same to that viewer.

use crate::worlds::pair;

use std::sync::Arc;

use entourage_model::Clock;
use entourage_postgres as postgres;
use entourage_postgres::{Options, TimeSource};
use entourage_store::Store;

use self::pair::{Open, Stores, run_seeds};

/// Each has a secret of its own.
fn stores() -> Stores {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let open = || -> Open {
        let (url, schema) = (url.clone(), format!("test_{:016x}", rand::random::<u64>()));
        // A connection lives as long as the runtime that it was made on.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Box::new(move |clock: Arc<dyn Clock>| {
            let options = Options { time: TimeSource::Given, ..Options::default() };
            let store = runtime.block_on(postgres::Store::connect(&url, &schema, options, clock));
            Arc::new(store.expect("the store opens")) as Arc<dyn Store>
        })
    };
    Stores { open: [open(), open()], are_strangers: true, are_durable: true }
}

#[test]
fn worlds_on_postgresql_are_the_same_to_whom_their_differences_are_hidden_from() {
    run_seeds(2, stores);
}
