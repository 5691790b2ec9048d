//! A standby that is promoted: what it never got is lost, and nobody is told otherwise.

use std::{sync::Arc, time::Duration};

use crate::postgres_kit::{
    cluster::{Server, url_of},
    words::*,
};
use entourage_model::{Code, EventPosition, EventPositions, Key, Kind, Outcome, Result};
use entourage_postgres as postgres;
use entourage_store::{Answer, Covered, Store, StoreExt as _, SystemClock, Whose, layers::cached::Options};
use entourage_testkit::cached::{follows, over, peek};

const SCHEMA: &str = "entourage";

async fn connect(url: &str) -> Arc<postgres::Store> {
    let (options, clock) = (postgres::Options::default(), Arc::new(SystemClock));
    Arc::new(postgres::Store::connect(url, SCHEMA, options, clock).await.unwrap())
}

/// Writes until the store has found a PostgreSQL that takes writes.
async fn written(store: &dyn Store, follower: i64, target: i64) -> Outcome {
    for _ in 0..200 {
        let outcome: Result<Outcome> = store.commit(follow(follower, target).into()).await;
        match outcome {
            Ok(outcome) => return outcome,
            Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no PostgreSQL takes writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_positions_and_caches_of_lost_writes_are_refused() {
    let primary = Server::primary();
    let standby = primary.standby();
    let url = url_of(&[&primary, &standby]);
    let store = connect(&url).await;
    let cached = over(Arc::clone(&store) as Arc<dyn Store>, Options::default()).await;
    people(&*store, 0..=60).await;
    let kept = written(&*store, 1, 2).await;
    let first = store.lineage();
    assert!(kept.watermark.lineage() == first && first.0 > 0);
    // The standby has it, and then hears nothing any more.
    let follower = standby.raw().await;
    let has_it = format!("SELECT sequence >= {} FROM {SCHEMA}.relay", kept.watermark.sequence());
    while !follower.query_one(&has_it, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    follower.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    follower.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let walreceiver = "SELECT count(*) FROM pg_stat_wal_receiver";
    while follower.query_one(walreceiver, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut lost = Vec::new();
    for target in 10..=20 {
        lost.push(written(&*store, 1, target).await);
    }
    let last = lost.last().unwrap().clone();
    assert!(follows(&cached, 1, 20).await && cached.has_seen(&last.watermark).await.unwrap());
    assert_eq!(peek(&cached, 1, 20), Answer::Yes);
    let position = EventPosition { lineage: first, partition: 0, offset: last.watermark.sequence() };

    primary.kill();
    standby.promote();
    // More events than were lost: their sequences are given out again.
    let mut fresh = written(&*store, 2, 30).await;
    for target in 31..=50 {
        fresh = written(&*store, 2, target).await;
    }
    let second = store.lineage();
    assert!(second.0 > first.0, "{second:?} {first:?}");
    assert!(fresh.watermark.sequence() > last.watermark.sequence());
    assert_eq!(fresh.watermark.lineage(), second);

    for asked in [&*store as &dyn Store, &cached] {
        let covers = async |outcome: &Outcome| asked.covers(&outcome.watermark, Whose::Everybody).await.unwrap();
        for outcome in &lost {
            assert_eq!(covers(outcome).await, Covered::OtherLineage);
        }
        assert_eq!(covers(&kept).await, Covered::Yes, "what the standby had is there");
        assert_eq!(covers(&fresh).await, Covered::Yes);
        let edges = asked.get_edges(Kind::Follow, &[(Key(1), Key(2)), (Key(1), Key(20))]).await.unwrap();
        assert_eq!(edges.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        // A reader of events learns where to go on.
        let error = asked.events(position, 10).await.unwrap_err();
        assert_eq!(error.code(), Code::EventsExpired);
        let resumed = EventPosition::from_text(0, error.resume().unwrap()).unwrap();
        assert_eq!((resumed.lineage, resumed.offset), (second, kept.watermark.sequence()));
        assert_eq!(asked.events(resumed, 100).await.unwrap().len(), 21);
    }
    assert_eq!(peek(&cached, 1, 20), Answer::No, "the cache has let go of what was lost");
    assert!(follows(&cached, 2, 50).await);
    // Another server, which was started afterwards, says the same.
    let other = connect(&url).await;
    assert_eq!(other.lineage(), second);
    assert_eq!(other.covers(&last.watermark, Whose::Everybody).await.unwrap(), Covered::OtherLineage);
    assert_clean(&*other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_and_refuses_nothing() {
    let primary = Server::primary();
    let store = connect(&url_of(&[&primary])).await;
    people(&*store, 0..=5).await;
    let before = written(&*store, 1, 2).await;
    let read = EventPosition { lineage: store.lineage(), partition: 0, offset: before.watermark.sequence() };
    primary.restart();
    let after = written(&*store, 1, 3).await;
    assert!(after.watermark.lineage().0 > before.watermark.lineage().0);
    for outcome in [&before, &after] {
        assert_eq!(store.covers(&outcome.watermark, Whose::Everybody).await.unwrap(), Covered::Yes);
    }
    assert_eq!(store.events(read, 10).await.unwrap().len(), 1);
    // A reader goes on, page after page, and then stands in the new lineage.
    let mut reader = EventPositions::new(read.lineage, [read.offset]);
    for target in 4..=5 {
        written(&*store, 1, target).await;
        let page = store.events_since(&mut reader, 10).await.unwrap();
        assert!(!page.is_empty());
        page.iter().for_each(|(partition, event)| reader.advance(*partition, event.sequence));
    }
    assert_eq!(reader.lineage(), store.lineage());
    assert_clean(&*store).await;
}
