//! Requests of a server whose clock is ten minutes ahead look as if they came after whatever the others do.

use std::sync::Arc;

use entourage_model::{Clock, ManualClock, UserId, UserPatch};
use entourage_postgres as postgres;
use entourage_postgres::{Options, TimeSource};
use entourage_service::{Call, JobState, Limit, Limits, Rules, Service};
use entourage_store::{Store, SystemClock};

const AHEAD_MILLIS: u64 = 600_000;

async fn server(url: &str, schema: &str, clock: Arc<dyn Clock>) -> Service {
    let options = Options { time: TimeSource::Given, ..Options::default() };
    let store = postgres::Store::connect(url, schema, options, Arc::clone(&clock)).await;
    let store: Arc<dyn Store> = Arc::new(store.expect("the store opens"));
    let rules = Rules { limits: Limits::NONE, ..Rules::default() };
    Service::new(store, rules).with_clock(clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_leaves_no_request_behind() {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    for opens in [false, true] {
        let schema = format!("test_{:016x}", rand::random::<u64>());
        let right = server(&url, &schema, Arc::new(SystemClock)).await;
        let ahead = Arc::new(ManualClock::new(SystemClock.now().plus(AHEAD_MILLIS)));
        let ahead = server(&url, &schema, ahead).await;
        let (call, [star, early, late, later]) = (Call::default(), ["star", "early", "late", "later"].map(id));
        for person in [&star, &early, &late, &later] {
            let patch = UserPatch { private: Some(*person == star), ..UserPatch::default() };
            right.graph.put_user(&call, person.clone(), patch).await.unwrap();
        }
        right.graph.follow(&call, &early, &star, false).await.unwrap();
        ahead.graph.follow(&call, &late, &star, false).await.unwrap();
        ahead.graph.follow(&call, &later, &star, false).await.unwrap();
        if opens {
            let open = UserPatch { private: Some(false), ..UserPatch::default() };
            right.graph.patch_user(&call, star.clone(), open).await.unwrap();
        } else {
            right.jobs.accept_all(&call, &star).await.unwrap();
        }
        while right.jobs.work().await.unwrap() {}
        let jobs = right.jobs.list(&Call { admin: true, ..Call::default() }, None, Limit::DEFAULT).await.unwrap().rows;
        assert!(jobs.iter().all(|job| job.state == JobState::Done), "opens: {opens}, {jobs:?}");
        assert_eq!(jobs.iter().map(|job| job.edges).sum::<u64>(), 3, "opens: {opens}, {jobs:?}");
        let counts = right.graph.get_user(&call, &star).await.unwrap().counts;
        assert_eq!((counts.followers, counts.requests), (3, Some(0)), "opens: {opens}");
    }
}

fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}
