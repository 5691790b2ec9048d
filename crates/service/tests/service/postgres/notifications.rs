//! Notifications and the audit on PostgreSQL.

use entourage_testkit::service::notifications as notification_kit;

use std::sync::Arc;

use entourage_model::{ManualClock, UserId, UserPatch};
use entourage_postgres as postgres;
use entourage_postgres::{Options, TimeSource};
use entourage_service::{Call, Rules, Service};
use tokio_postgres::NoTls;

use self::notification_kit::{clock, run};

/// A suite that cannot run is red, not skipped.
fn url() -> String {
    std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`")
}

async fn fresh(clock: &Arc<ManualClock>) -> (String, Arc<postgres::Store>) {
    let schema = format!("test_{:016x}", rand::random::<u64>());
    let options = Options { time: TimeSource::Given, ..Options::default() };
    let store = postgres::Store::connect(&url(), &schema, options, Arc::clone(clock) as _).await;
    (schema, Arc::new(store.expect("the store opens")))
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_agree_with_the_reference() {
    let clock = clock();
    let (_, store) = fresh(&clock).await;
    run(store, clock, rand::random(), 60, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_drift_is_found_with_its_cause_and_set_right() {
    let (schema, store) = fresh(&clock()).await;
    let service = Service::new(Arc::clone(&store) as _, Rules::default()).with_maintenance(Some(store));
    let call = Call::default();
    for number in 0..5 {
        service.graph.put_user(&call, UserId::from(number), UserPatch::default()).await.unwrap();
    }
    for follower in 1..5 {
        service.graph.follow(&call, &UserId::from(follower), &UserId::from(0), follower == 4).await.unwrap();
    }
    let report = service.upkeep.audit(&call).await.unwrap();
    assert_eq!((report.users, report.edges, report.drifted, report.is_alert()), (5, 4, 0, false));
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let sabotage = format!(
        "SET search_path TO {schema}; \
         INSERT INTO count_deltas (user_key, plane, side, total, quiet) VALUES (0, 0, 1, 2, -1), (3, 1, 0, 1, 0)"
    );
    client.batch_execute(&sabotage).await.unwrap();
    let report = service.upkeep.audit(&call).await.unwrap();
    let found: Vec<_> = report.drifts.iter().map(|d| (d.user.as_str(), d.list, d.cause, d.detail.as_str())).collect();
    let expected = [
        ("0", "followers", "count", "counts 6, has 4"),
        ("0", "followers", "quiet_count", "counts 0 quiet ones, has 1"),
        ("3", "requested", "count", "counts 1, has 0"),
    ];
    assert_eq!((report.drifted, report.is_alert(), found), (2, true, expected.into()));
    assert_eq!(service.upkeep.last_audit(&call).unwrap().unwrap().drifted, 2);
    assert_eq!(service.upkeep.recount(&call, Some(&UserId::from(3))).await.unwrap().corrected, 1);
    assert_eq!(service.upkeep.audit(&call).await.unwrap().drifted, 1);
    assert_eq!(service.upkeep.recount(&call, None).await.unwrap().corrected, 1);
    assert_eq!(service.upkeep.audit(&call).await.unwrap().drifted, 0);
    assert!(service.upkeep.verify(&call).await.unwrap().is_clean());
    assert_eq!(service.graph.get_user(&call, &UserId::from(0)).await.unwrap().counts.followers, 4);
}
