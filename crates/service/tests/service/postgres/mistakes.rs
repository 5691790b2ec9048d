//! Mistakes of other graphs, tried on PostgreSQL.

use entourage_testkit::service::mistakes as mistakes_kit;

use std::sync::Arc;

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::SystemClock;
use mistakes_kit::World;

async fn world() -> (World, ()) {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let schema = format!("test_{:016x}", rand::random::<u64>());
    let store = postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)).await;
    let store = Arc::new(store.expect("the store opens"));
    (World::new(Arc::clone(&store) as _, Some(store)), ())
}

entourage_testkit::mistakes!(world);
