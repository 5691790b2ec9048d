//! Random runs of feeds over REST and RESP on PostgreSQL, the server stopped and started now and then.

use entourage_testkit::service::feed as feed_kit;

use crate::kit::feed_random;

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Store, SystemClock};

use self::{
    feed_kit::run,
    feed_random::{Read, Wires},
};

/// Opened by a thread of its own: whoever asks for it is in the middle of a run.
pub(super) fn open(url: String, schema: String) -> Arc<dyn Store> {
    let opening = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)))
    });
    Arc::new(opening.join().unwrap().expect("the store opens"))
}

/// With workers: a connection that this test opened belongs to its runtime, and the server uses it while the test waits
/// for the server.
#[tokio::test(flavor = "multi_thread")]
async fn feeds_on_postgresql_are_the_plain_feed_over_rest_and_resp() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    for (seed, read) in [(7, Read::Pages), (8, Read::Sorted)] {
        let (url, schema) = (url.clone(), format!("test_{:016x}", rand::random::<u64>()));
        let mut wires = Wires::over(read, Box::new(move || open(url.clone(), schema.clone())));
        run(&mut wires, seed, 80, None).await.unwrap();
    }
}
