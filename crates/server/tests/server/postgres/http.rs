//! Random runs through REST on PostgreSQL, the server stopped and started now and then.

use crate::kit::through;

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Store, SystemClock};
use entourage_testkit::conformance::random::run_seeds_of_the_graph;

#[test]
fn runs_agree_with_the_reference_across_restarts() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    run_seeds_of_the_graph(2, 100, async || {
        let (url, schema) = (url.clone(), format!("test_{:016x}", rand::random::<u64>()));
        through::restarted(move || {
            let (url, schema) = (url.clone(), schema.clone());
            async move {
                let store = postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)).await;
                Arc::new(store.expect("the store opens")) as Arc<dyn Store>
            }
        })
        .await
    });
}
