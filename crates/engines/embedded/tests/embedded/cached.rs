//! The cached layer over the embedded engine, under the whole suite.

use std::sync::Arc;

use entourage_embedded::Options;
use entourage_store::{Store, layers::cached};
use entourage_testkit::{
    cached::{over, tiny},
    conformance::{Fixture, random},
    crash_disk::CrashDisk,
};

use crate::embedded_kit::open_on;

async fn opened(disk: &CrashDisk, options: cached::Options) -> Arc<dyn Store> {
    Arc::new(over(Arc::new(open_on(disk, Options::default()).expect("the store opens")), options).await)
}

async fn fixture(options: cached::Options) -> Fixture {
    let disk = CrashDisk::new();
    Fixture::from(opened(&disk, options).await).reopened_by(move |closed| {
        drop(closed);
        let disk = disk.clone();
        async move { opened(&disk, options).await }
    })
}

mod with_room {
    use super::*;

    async fn fresh() -> Fixture {
        fixture(cached::Options::default()).await
    }

    entourage_testkit::conformance!(
        fresh = fresh,
        skips = ["races::cap_is_exact_at_9_999", "records::a_large_group_goes_in_chunks"]
    );

    #[test]
    fn random_operations_agree_with_the_reference() {
        random::run_seeds(3, 1_200, fresh);
    }
}

mod evicting_all_the_time {
    use super::*;

    async fn fresh() -> Fixture {
        fixture(tiny()).await
    }

    entourage_testkit::conformance!(
        fresh = fresh,
        skips = ["races::cap_is_exact_at_9_999", "records::a_large_group_goes_in_chunks"]
    );
}
