//! Stores on the PostgreSQL that the environment names, each in a schema of its own.

pub(crate) mod cluster;
pub(crate) mod network;
pub(crate) mod words;

use std::sync::Arc;

use entourage_model::Clock;
use entourage_postgres as postgres;
use entourage_postgres::{Options, TimeSource};
use entourage_store::{Store, SystemClock};

pub(crate) async fn fresh_store() -> Arc<dyn Store> {
    Arc::new(connect(&fresh_schema(), Arc::new(SystemClock)).await)
}

pub(crate) fn fresh_schema() -> String {
    format!("test_{:016x}", rand::random::<u64>())
}

pub(crate) async fn connect(schema: &str, clock: Arc<dyn Clock>) -> postgres::Store {
    connect_with(schema, Options::default(), clock).await
}

pub(crate) async fn connect_with(schema: &str, options: Options, clock: Arc<dyn Clock>) -> postgres::Store {
    postgres::Store::connect(&url(), schema, options, clock).await.expect("the store opens")
}

/// With a clock that the test turns, and nobody questions.
pub(crate) async fn connect_at(schema: &str, options: Options, clock: Arc<dyn Clock>) -> postgres::Store {
    connect_with(schema, Options { time: TimeSource::Given, ..options }, clock).await
}

/// A suite that cannot run is red, not skipped.
pub(crate) fn url() -> String {
    std::env::var("ENTOURAGE_TEST_POSTGRES").expect(
        "ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or set it to what `scripts/postgres start` prints",
    )
}
