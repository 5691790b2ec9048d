//! The random runs of the rules over REST and RESP on PostgreSQL, suggestions among them, the server stopped and started now
//! and then.
//!
//! With workers: a connection that a test opened belongs to its runtime, and the server uses it while the test waits for
//! the server.

use std::sync::Arc;

use entourage_store::Store;
use entourage_testkit::service::rules::run_seeds;

use super::feed_wire::open;
use crate::{kit::rules_front::RestFront, resp::random::RespFront};

/// A schema of its own that every server of one run opens.
fn fresh() -> impl Fn() -> Arc<dyn Store> {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let schema = format!("test_{:016x}", rand::random::<u64>());
    move || open(url.clone(), schema.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_hold_on_postgresql_over_rest() {
    run_seeds(2, 100, async || RestFront::restarted(fresh())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_hold_on_postgresql_over_resp() {
    run_seeds(2, 100, async || RespFront::over(fresh())).await;
}
