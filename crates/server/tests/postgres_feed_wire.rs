//! Random runs of feeds over REST and RESP on PostgreSQL, the server stopped and started now and then.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]
#![allow(dead_code, reason = "these helpers serve the tests of the other stores too")]

#[path = "rest/described.rs"]
mod described;
#[path = "../../service/tests/feed_kit/mod.rs"]
mod feed_kit;
#[path = "resp/feed_random.rs"]
mod feed_random;
#[path = "rest/server.rs"]
mod server;
#[path = "rest/table.rs"]
mod table;
#[path = "resp/wire.rs"]
mod wire;

use std::sync::Arc;

use entourage_store::{
    Store, SystemClock,
    backends::postgres::{self, Options},
};

use self::{
    feed_kit::run,
    feed_random::{Read, Wires},
};

/// Opened by a thread of its own: whoever asks for it is in the middle of a run.
fn open(url: String, schema: String) -> Arc<dyn Store> {
    let opening = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)))
    });
    Arc::new(opening.join().unwrap().expect("the store opens"))
}

#[tokio::test]
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
