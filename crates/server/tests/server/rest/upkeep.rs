//! Whether the store agrees with itself, asked over REST; and an audit that is shown stores which do not.

use std::{sync::Arc, time::Duration};

use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch};
use entourage_service::{AuditReport, Call, Rules, Service};
use entourage_store::{Store, StoreExt as _};

use super::{
    recorded::{Lie, Recorded},
    server::{Server, memory_store},
};

#[test]
fn the_last_audit_a_whole_check_and_repairs_are_an_admins() {
    let rules = Rules { audit_interval: Some(Duration::from_secs(6)), ..Rules::default() };
    let server = Server::with(memory_store(1), rules);
    server.check("GET /admin/audit", r#"200 {"report": null}"#);
    server.check("PUT /users/a", "201");
    server.check("PUT /users/b", "201");
    server.check("@a POST /users/b/follow", "201");
    server.check_all(&[
        ("POST /admin/verify", r#"200 {"clean": true, "users": 2, "edges": 1, "events": 3, "problems": []}"#),
        (r#"POST /admin/verify {"x": 1}"#, "400 invalid_request /x"),
        ("POST /admin/recount", "400 invalid_request"),
        (r#"POST /admin/recount {"users": 1}"#, "400 invalid_request /users"),
        ("POST /admin/heal", "400 invalid_request"),
        (r#"POST /admin/heal {"users": 1}"#, "400 invalid_request /users"),
    ]);
    let found = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        server.ask("GET /admin/audit").body["report"]["users"] == 2
    });
    assert!(found, "no audit within ten seconds");
    let clean = r#"200 {"report": {"users": 2, "edges": 1, "drifted": 0, "drift_ratio": 0.0, "alert": false,
        "unsettled": 0, "drifts": [], "started_at": "*", "finished_at": "*"}}"#;
    server.check("GET /admin/audit", clean);
    assert!(server.ask("GET //metrics").text.contains("entourage_audit_users_total"));
}

/// Users 1 to 4; 1, 2 and quietly 3 follow 4.
async fn audited(lie: Option<Lie>) -> AuditReport {
    let store = memory_store(1);
    for number in 1..=4 {
        let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
        let put = Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite };
        store.commit(put.into()).await.unwrap();
    }
    for follower in 1..=3 {
        let (follower, target, quiet) = (Key(follower), Key(4), follower == 3);
        store
            .commit(Operation::Follow { follower, target, quiet: Some(quiet), cap: None, park: false }.into())
            .await
            .unwrap();
    }
    let store: Arc<dyn Store> = Recorded::over(store, lie);
    Service::new(store, Rules::default()).upkeep.audit(&Call::default()).await.unwrap()
}

#[tokio::test]
async fn an_audit_names_what_does_not_agree_and_why() {
    let clean = audited(None).await;
    assert_eq!((clean.users, clean.edges, clean.drifts.len(), clean.is_alert()), (4, 3, 0, false));
    let causes = |report: &AuditReport| {
        let mut causes: Vec<_> = report.drifts.iter().map(|d| (d.user.as_str().to_owned(), d.list, d.cause)).collect();
        causes.sort();
        causes
    };
    let short = audited(Some(Lie::ShortLists)).await;
    assert_eq!((short.drifted, short.unsettled, short.is_alert()), (4, 0, true));
    let of = |user: &str, list, cause| (user.to_owned(), list, cause);
    assert_eq!(
        causes(&short),
        [
            of("1", "following", "count"),
            of("2", "following", "count"),
            of("3", "following", "count"),
            of("3", "following", "quiet_count"),
            of("4", "followers", "count"),
        ]
    );
    let flags = audited(Some(Lie::Quiet)).await;
    assert_eq!(causes(&flags), vec![of("4", "followers", "different_mirror"); 3]);
}
