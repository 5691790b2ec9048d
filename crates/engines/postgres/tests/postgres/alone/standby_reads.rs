//! A store that only reads, on a standby: it has a write or says that it does not, and it writes nothing.

use std::{sync::Arc, time::Duration};

use crate::postgres_kit::{
    cluster::{Server, url_of},
    words::*,
};
use entourage_model::{Code, Key, Kind, Outcome};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{Covered, Health, Maintenance, Store, StoreExt as _, SystemClock, Whose, layers::cached};
use entourage_testkit::cached::over;

const SCHEMA: &str = "entourage";

async fn open(url: &str, read_only: bool) -> entourage_model::Result<Arc<postgres::Store>> {
    let options = Options { read_only, ..Options::default() };
    postgres::Store::connect(url, SCHEMA, options, Arc::new(SystemClock)).await.map(Arc::new)
}

fn url(server: &Server) -> String {
    format!("postgres://entourage@127.0.0.1:{}/postgres", server.port)
}

async fn covers(store: &dyn Store, outcome: &Outcome) -> Covered {
    store.covers(&outcome.watermark, Whose::Everybody).await.unwrap()
}

async fn catches_up(store: &dyn Store, outcome: &Outcome) {
    for _ in 0..400 {
        if covers(store, outcome).await == Covered::Yes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the standby does not catch up");
}

async fn follows(store: &dyn Store, follower: i64, target: i64) -> bool {
    store.get_edges(Kind::Follow, &[(Key(follower), Key(target))]).await.unwrap()[0].is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_standby_have_the_write_or_say_that_they_do_not() {
    let primary = Server::primary();
    let refused = open(&url(&primary), true).await.err().unwrap().to_string();
    assert!(refused.contains("there is no schema"), "{refused}");
    let writer = open(&url_of(&[&primary]), false).await.unwrap();
    people(&*writer, 0..=300).await;
    let standby = primary.standby();
    let last = writer.commit(follow(1, 2).into()).await.unwrap();
    for _ in 0..400 {
        if let Ok(row) = standby.raw().await.query_one("SELECT sequence FROM entourage.relay", &[]).await
            && row.get::<_, i64>(0).unsigned_abs() >= last.watermark.sequence().0
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let reader = open(&url(&standby), true).await.unwrap();
    let cached = over(Arc::clone(&reader) as Arc<dyn Store>, cached::Options::default()).await;
    assert_eq!(reader.health().await, Health::Ready);
    assert_eq!(reader.identity().epoch, writer.identity().epoch);
    // Right or not yet, and never the old state where it is said to be there.
    let (mut yes, mut not_yet) = (0, 0);
    for target in 10..=200 {
        let outcome = writer.commit(follow(1, target).into()).await.unwrap();
        for store in [&*reader as &dyn Store, &cached] {
            match covers(store, &outcome).await {
                Covered::Yes => {
                    yes += 1;
                    assert!(follows(store, 1, target).await, "{target}: silently old");
                }
                Covered::NotYet => not_yet += 1,
                Covered::OtherLineage => panic!("it is the same history"),
            }
        }
    }
    println!("a standby behind a stream of writes: {yes} tokens covered, {not_yet} not yet");
    // Nothing of what a server does besides answering is written.
    for error in [
        reader.commit(follow(2, 3).into()).await.map(drop).unwrap_err(),
        reader.recount(None).await.map(drop).unwrap_err(),
        reader.erase_now().await.unwrap_err(),
    ] {
        assert!(error.code() == Code::Unavailable && error.detail().contains("only reads"), "{error}");
    }
    assert!(reader.heartbeat(7, "reader").await.unwrap().is_empty());
    assert!(reader.events_after(entourage_model::Sequence::ZERO, 10).await.unwrap().len() == 10);
    assert_eq!(writer.heartbeat(8, "writer").await.unwrap().len(), 1);

    // Replay is paused: the token is not covered, and it is when that goes on.
    let operator = standby.raw().await;
    operator.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
    let state = "SELECT pg_get_wal_replay_pause_state()";
    while operator.query_one(state, &[]).await.unwrap().get::<_, &str>(0) != "paused" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let outcome = writer.commit(follow(1, 250).into()).await.unwrap();
    for store in [&*reader as &dyn Store, &cached] {
        assert_eq!(covers(store, &outcome).await, Covered::NotYet);
        assert!(!follows(store, 1, 250).await);
    }
    operator.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    for store in [&*reader as &dyn Store, &cached] {
        catches_up(store, &outcome).await;
        assert!(follows(store, 1, 250).await);
    }
    // A lineage that begins while the standby is read comes with the log.
    let before = reader.lineage();
    primary.restart();
    let mut after = writer.commit(follow(1, 251).into()).await;
    while after.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after = writer.commit(follow(1, 251).into()).await;
    }
    let after = after.unwrap();
    assert!(after.watermark.lineage().0 > before.0);
    for store in [&*reader as &dyn Store, &cached] {
        catches_up(store, &after).await;
        assert!(follows(store, 1, 251).await);
        assert_eq!(covers(store, &outcome).await, Covered::Yes);
    }
    assert_clean(&*reader).await;
    cached.close().await.unwrap();
}

/// Of two standbys the one that is behind is not read after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_behind_the_one_before_is_not_read() {
    let primary = Server::primary();
    let writer = open(&url_of(&[&primary]), false).await.unwrap();
    people(&*writer, 0..=20).await;
    let standbys = [primary.standby(), primary.standby()];
    let behind = standbys[1].raw().await;
    behind.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
    let outcome = writer.commit(follow(1, 2).into()).await.unwrap();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", standbys[0].port, standbys[1].port);
    let reader = open(&format!("postgres://entourage@{hosts}/postgres"), true).await.unwrap();
    catches_up(&*reader, &outcome).await;
    assert!(follows(&*reader, 1, 2).await);
    standbys[0].kill();
    for _ in 0..20 {
        match reader.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await {
            Ok(edges) => assert!(edges[0].is_some(), "silently old"),
            Err(error) => assert_eq!(error.code(), Code::Unavailable),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    behind.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    for _ in 0..200 {
        if let Ok(edges) = reader.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await {
            assert!(edges[0].is_some());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the other standby is never read");
}
