//! A dump that is restored into the same PostgreSQL: system identifier, timeline and start of the postmaster stay, and what
//! came after the dump is lost all the same.

use std::{sync::Arc, time::Duration};

use entourage_model::{Code, EventPosition, Outcome};
use entourage_postgres as postgres;
use entourage_store::{Covered, Store, StoreExt as _, SystemClock, Whose, layers::cached::Options};
use entourage_testkit::cached::{follows, over};

use crate::postgres_kit::{cluster::Server, words::*};

const SCHEMA: &str = "entourage";
/// The id of the server on the first database.
const LIVE: u64 = 7;

async fn connect(server: &Server, database: &str) -> Arc<postgres::Store> {
    let (options, clock) = (postgres::Options::default(), Arc::new(SystemClock));
    Arc::new(postgres::Store::connect(&server.url(database), SCHEMA, options, clock).await.unwrap())
}

async fn write_all(store: &dyn Store, follower: i64, targets: std::ops::RangeInclusive<i64>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for target in targets {
        outcomes.push(store.commit(follow(follower, target).into()).await.unwrap());
    }
    outcomes
}

async fn covers(store: &dyn Store, outcome: &Outcome) -> Covered {
    store.covers(&outcome.watermark, Whose::Everybody).await.unwrap()
}

/// What was acked before the dump, and after it.
struct History {
    kept: Outcome,
    lost: Vec<Outcome>,
}

impl History {
    async fn position(&self) -> EventPosition {
        let last = &self.lost.last().unwrap().watermark;
        EventPosition { lineage: last.lineage(), partition: 0, offset: last.sequence() }
    }

    /// On the restored one, before anything else is written there and once more is than was lost.
    async fn assert_lost(&self, store: &dyn Store, way: &str) {
        let mut fresh = Vec::new();
        for targets in [30..=30, 31..=50] {
            for lost in &self.lost {
                assert_eq!(covers(store, lost).await, Covered::OtherLineage, "{way}");
            }
            assert_eq!(covers(store, &self.kept).await, Covered::Yes, "{way}");
            fresh.extend(write_all(store, 2, targets).await);
        }
        let last = fresh.last().unwrap();
        assert!(last.watermark.sequence() > self.lost.last().unwrap().watermark.sequence());
        assert_ne!(last.watermark.lineage(), self.kept.watermark.lineage(), "{way}");
        assert_eq!(covers(store, last).await, Covered::Yes, "{way}");
        let error = store.events(self.position().await, 10).await.expect_err(way);
        assert_eq!(error.code(), Code::EventsExpired, "{way}");
        let resumed = EventPosition::from_text(0, error.resume().unwrap()).unwrap();
        assert_eq!((resumed.lineage, resumed.offset), (store.lineage(), self.kept.watermark.sequence()), "{way}");
        assert_eq!(store.events(resumed, 100).await.unwrap().len(), 21, "{way}");
        assert_clean(store).await;
    }
}

/// A database with a dump of it, and writes that came after.
async fn dumped(server: &Server, database: &str) -> (Arc<postgres::Store>, History, String) {
    server.tool("createdb", &[database]);
    let store = connect(server, database).await;
    people(&*store, 0..=60).await;
    let kept = write_all(&*store, 1, 2..=2).await.remove(0);
    store.heartbeat(LIVE, "live").await.unwrap();
    let file = server.file(&format!("{database}.dump"));
    server.tool("pg_dump", &["-Fc", "-f", &file, database]);
    let lost = write_all(&*store, 1, 10..=20).await;
    (store, History { kept, lost }, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_database_of_the_same_postgresql_is_another_history() {
    let server = Server::primary();
    let (store, history, file) = dumped(&server, "live").await;
    server.tool("createdb", &["restored"]);
    server.tool("pg_restore", &["-d", "restored", &file]);
    let restored = connect(&server, "restored").await;
    history.assert_lost(&*restored, "restored beside it").await;
    // The first one goes on as if nothing had been.
    assert_eq!(covers(&*store, history.lost.last().unwrap()).await, Covered::Yes);
    assert_eq!(write_all(&*store, 1, 40..=40).await[0].watermark.lineage(), history.kept.watermark.lineage());
    // Its server is in the heartbeats of the copy, and is not connected there. Nobody may end its connections from there.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'live'";
    let raw = server.raw().await;
    let before: i64 = raw.query_one(sessions, &[]).await.unwrap().get(0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let listed = restored.heartbeat(8, "restored").await.unwrap();
    assert!(listed.iter().any(|server| server.id == LIVE && !server.is_connected), "{listed:?}");
    restored.disconnect(LIVE).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(raw.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0), before);
    // Files that PostgreSQL copied itself hold the very same rows.
    store.close().await.unwrap();
    drop(store);
    server.tool("createdb", &["copy", "-T", "live"]);
    let (live, copy) = (connect(&server, "live").await, connect(&server, "copy").await);
    let after = write_all(&*live, 1, 41..=45).await;
    write_all(&*copy, 2, 41..=55).await;
    for outcome in &after {
        assert_eq!(covers(&*copy, outcome).await, Covered::OtherLineage, "copied as a template");
    }
    assert_eq!(covers(&*copy, &history.lost[0]).await, Covered::Yes, "it was there when it was copied");
}

/// The tables are replaced under connections that stay open.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_notices_that_its_schema_was_restored() {
    let server = Server::primary();
    for (database, options) in [("cleaned", &["--clean", "--if-exists"][..]), ("emptied", &["--data-only"])] {
        let (store, history, file) = dumped(&server, database).await;
        let cached = over(Arc::clone(&store) as Arc<dyn Store>, Options::default()).await;
        assert!(follows(&cached, 1, 20).await);
        if options.contains(&"--data-only") {
            let empty = "DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' \
                 AND relnamespace = 'entourage'::regnamespace LOOP EXECUTE 'TRUNCATE entourage.' || name; END LOOP; END $$";
            server.tool("psql", &["-v", "ON_ERROR_STOP=1", "-d", database, "-c", empty]);
        }
        server.tool("pg_restore", &[options, &["-d", database, &file]].concat());
        history.assert_lost(&*store, database).await;
        // Nobody asks the cache: it finds out by itself.
        for attempt in 0.. {
            if !follows(&cached, 1, 20).await && follows(&cached, 2, 50).await {
                break;
            }
            assert!(attempt < 100, "{database}: the cache holds what was lost");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for lost in &history.lost {
            assert_eq!(covers(&cached, lost).await, Covered::OtherLineage, "{database}");
        }
    }
}

/// Its history has begun lineages that the restored one never heard of, and then the restored one begins its own.
#[tokio::test(flavor = "multi_thread")]
async fn lineages_that_were_lost_are_not_taken_for_later_ones() {
    let server = Server::primary();
    let (store, mut history, file) = dumped(&server, "live").await;
    drop(store);
    for targets in [21..=25, 26..=29] {
        server.restart();
        let store = connect(&server, "live").await;
        history.lost.extend(write_all(&*store, 1, targets).await);
    }
    server.tool("createdb", &["restored"]);
    server.tool("pg_restore", &["-d", "restored", &file]);
    let restored = connect(&server, "restored").await;
    write_all(&*restored, 2, 30..=60).await;
    for restarts in 0..2 {
        for lost in &history.lost {
            assert_eq!(covers(&*restored, lost).await, Covered::OtherLineage, "{restarts} restarts: {lost:?}");
        }
        let error = restored.events(history.position().await, 10).await.expect_err("it is of another history");
        let resumed = EventPosition::from_text(0, error.resume().unwrap()).unwrap();
        assert!(resumed.offset <= history.kept.watermark.sequence(), "events would be missed: {resumed:?}");
        server.restart();
        while restored.commit(follow(3, 4 + restarts).into()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
