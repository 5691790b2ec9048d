//! What an audit doubts at each look is drift only if it is the same edge, or the same list, that it doubts.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{
    EdgeValue, Key, Kind, List, Operation, Overwrite, Page, Place, Result, Secret, UserId, UserPatch,
};
use entourage_service::{AuditReport, Call, Rules, Service};
use entourage_store::{Identity, Store, StoreExt as _, SystemClock};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

const FOLLOWED: Key = Key(0);
/// A page of an audit and two.
const FOLLOWERS: i64 = 1_002;

fn follow(follower: Key, target: Key, quiet: bool) -> Operation {
    Operation::Follow { follower, target, quiet: Some(quiet), cap: None, park: false }
}

async fn write(store: &dyn Store, operation: Operation) {
    store.commit(operation.into()).await.unwrap();
}

/// Users 0 to `followers`, everybody following 0, audited through `hooks`.
async fn audited(followers: i64, quiet: bool, hooks: impl Hooks) -> AuditReport {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    for number in 0..=followers {
        let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
        write(&*store, Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep }).await;
    }
    for follower in 1..=followers {
        write(&*store, follow(Key(follower), FOLLOWED, quiet)).await;
    }
    let store: Arc<dyn Store> = Arc::new(Hooked::new(store, hooks));
    Service::new(store, Rules::default()).upkeep.audit(&Call::default()).await.unwrap()
}

/// Between a list and the other direction of its edges they end, and begin again afterwards.
struct Flips;

#[async_trait]
impl Hooks for Flips {
    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        for &(follower, target) in pairs {
            write(inner, Operation::Unfollow { follower, target }).await;
        }
        let found = inner.get_edges(kind, pairs).await;
        for &(follower, target) in pairs {
            write(inner, follow(follower, target, false)).await;
        }
        found
    }
}

#[tokio::test]
async fn an_edge_that_is_another_one_at_each_look_is_no_drift() {
    let report = audited(1, false, Flips).await;
    assert_eq!((report.drifted, report.unsettled), (0, 1), "{report:?}");
}

/// Behind the first page of a list its oldest edge ends and begins again, at the top.
struct Moves {
    quiet: bool,
    oldest: AtomicI64,
}

#[async_trait]
impl Hooks for Moves {
    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        // One row is what the other direction of an edge is looked up by.
        if list == List::followers(FOLLOWED) && after.is_some() && limit > 1 {
            let follower = Key(self.oldest.fetch_add(1, Ordering::SeqCst));
            write(inner, Operation::Unfollow { follower, target: FOLLOWED }).await;
            write(inner, follow(follower, FOLLOWED, self.quiet)).await;
        }
        inner.scan(list, after, limit).await
    }
}

#[tokio::test]
async fn a_long_list_that_changes_while_it_is_walked_is_no_drift() {
    for quiet in [false, true] {
        let report = audited(FOLLOWERS, quiet, Moves { quiet, oldest: AtomicI64::new(1) }).await;
        assert_eq!((report.drifted, report.unsettled), (0, 1), "{report:?}");
    }
}

/// The other direction of an edge is never there.
struct Forgets;

#[async_trait]
impl Hooks for Forgets {
    async fn get_edges(&self, _: &dyn Store, _: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        Ok(vec![None; pairs.len()])
    }
}

#[tokio::test]
async fn an_edge_that_is_the_same_at_each_look_is_drift() {
    let report = audited(2, false, Forgets).await;
    assert_eq!((report.drifted, report.drifts.len(), report.unsettled), (1, 2, 0), "{report:?}");
    assert!(report.drifts.iter().all(|drift| drift.cause == "missing_mirror"), "{report:?}");
}
