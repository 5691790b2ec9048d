//! Short forms to write, to race, and to retry.

use std::sync::Arc;

use entourage_model::{
    Code, Event, Key, Operation, Outcome, Overwrite, Reply, Result, Sequence, UserId, UserPatch, Write,
};
use entourage_store::{Health, Store, StoreExt as _};
use tokio::{sync::Barrier, task::JoinSet};
use tokio_postgres::NoTls;

use super::url;

pub(crate) const TASKS: usize = 64;

pub(crate) fn put(key: i64) -> Operation {
    let patch = UserPatch::default();
    Operation::PutUser { key: Key(key), id: UserId::from(key), patch, overwrite: Overwrite::Replace }
}

pub(crate) fn set_private(key: i64, private: bool) -> Operation {
    let patch = UserPatch { private: Some(private), ..UserPatch::default() };
    Operation::PutUser { key: Key(key), id: UserId::from(key), patch, overwrite: Overwrite::Merge }
}

pub(crate) fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(false), cap: None, park: false }
}

pub(crate) fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

pub(crate) fn block(actor: i64, target: i64) -> Operation {
    Operation::Block { actor: Key(actor), target: Key(target) }
}

pub(crate) async fn people(store: &dyn Store, keys: std::ops::RangeInclusive<i64>) {
    for outcome in store.commit_all(keys.map(|key| put(key).into()).collect()).await {
        outcome.unwrap();
    }
}

/// Every write from a task of its own, all released at once.
pub(crate) async fn race(stores: &[Arc<dyn Store>], writes: Vec<Write>) -> Vec<Result<Outcome>> {
    let barrier = Arc::new(Barrier::new(writes.len()));
    let mut tasks = JoinSet::new();
    for (index, write) in writes.into_iter().enumerate() {
        let (store, barrier) = (Arc::clone(&stores[index % stores.len()]), Arc::clone(&barrier));
        tasks.spawn(async move {
            // Every connection is open before anybody starts.
            assert_eq!(store.health().await, Health::Ready);
            barrier.wait().await;
            store.commit(write).await
        });
    }
    tasks.join_all().await
}

pub(crate) fn created(outcomes: &[Result<Outcome>]) -> usize {
    let is_new =
        |outcome: &&Result<Outcome>| matches!(outcome, Ok(Outcome { reply: Reply::Edge { created: true, .. }, .. }));
    outcomes.iter().filter(is_new).count()
}

pub(crate) fn refused(outcomes: &[Result<Outcome>], code: Code) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Err(error) if error.code() == code)).count()
}

/// Exactly as many, without a gap.
pub(crate) async fn events(store: &dyn Store, wanted: usize) -> Vec<Event> {
    let listed = store.events_after(Sequence::ZERO, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), wanted);
    assert!(listed.iter().zip(1..).all(|(event, number)| event.sequence == Sequence(number)));
    listed
}

pub(crate) async fn assert_clean(store: &dyn Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

pub(crate) async fn counts(store: &dyn Store, user: i64) -> (u64, u64) {
    let counts = store.get_counts(Key(user)).await.unwrap().unwrap();
    (counts.followers, counts.following)
}

pub(crate) async fn raw() -> tokio_postgres::Client {
    raw_with(&url().parse().unwrap()).await
}

/// In another database of the same PostgreSQL.
pub(crate) async fn raw_in(database: &str) -> tokio_postgres::Client {
    let mut config: tokio_postgres::Config = url().parse().unwrap();
    config.dbname(database);
    raw_with(&config).await
}

async fn raw_with(config: &tokio_postgres::Config) -> tokio_postgres::Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
