//! Random runs of the rules through the service, on PostgreSQL.

use entourage_testkit::service::{front as service_front, rules};

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::SystemClock;

use self::{rules::run_seeds, service_front::ServiceFront};

#[tokio::test(flavor = "multi_thread")]
async fn runs_agree_with_the_rules() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    run_seeds(2, 120, async || {
        let schema = format!("test_{:016x}", rand::random::<u64>());
        let store = postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)).await;
        ServiceFront::new(Arc::new(store.expect("the store opens")))
    })
    .await;
}
