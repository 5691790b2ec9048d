//! Heartbeats: who is there, who is silent, and what becomes of the transactions of one that is.

use std::{sync::Arc, time::Duration};

use entourage_model::Key;
use entourage_store::{Server, Store, StoreExt as _, SystemClock};

use crate::postgres_kit::{connect, fresh_schema, url, words::*};

async fn heard(store: &dyn Store, id: u64, of: u64) -> Server {
    let servers = store.heartbeat(id, "me").await.unwrap();
    assert_eq!(servers.iter().filter(|server| server.id == id).count(), 1, "{servers:?}");
    servers.into_iter().find(|server| server.id == of).unwrap_or_else(|| panic!("{of} is not listed"))
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_hear_of_each_other_and_of_one_that_is_gone() {
    let schema = fresh_schema();
    let one = connect(&schema, Arc::new(SystemClock)).await;
    let other = connect(&schema, Arc::new(SystemClock)).await;
    assert_eq!(one.heartbeat(1, "one").await.unwrap().len(), 1);
    let first = heard(&other, u64::MAX, 1).await;
    assert!(&*first.about == "one" && first.is_connected && first.silent_for < Duration::from_secs(1), "{first:?}");
    let second = heard(&one, 1, u64::MAX).await;
    assert!(first.number.is_some() && second.number.is_some() && first.number != second.number);
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    let paused = heard(&other, u64::MAX, 1).await;
    assert!(paused.is_connected && paused.silent_for >= Duration::from_millis(1_600), "{paused:?}");
    // As if it were killed: its connections end, and nothing is said.
    drop(one);
    for _ in 0..100 {
        if !heard(&other, u64::MAX, 1).await.is_connected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!heard(&other, u64::MAX, 1).await.is_connected, "its connections are gone");
    // One that stops as asked is not listed any more.
    let third = connect(&schema, Arc::new(SystemClock)).await;
    assert_eq!(third.heartbeat(3, "three").await.unwrap().len(), 3);
    third.close().await.unwrap();
    assert!(third.heartbeat(3, "three").await.is_err());
    assert!(other.heartbeat(u64::MAX, "me").await.unwrap().iter().all(|server| server.id != 3));
}

/// A process that is paused in the middle of a transaction keeps its locks: others wait until it is disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_disconnected_holds_nothing_up_and_can_go_on() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 1..=2).await;
    store.heartbeat(2, "me").await.unwrap();
    let paused = connect(&schema, Arc::new(SystemClock)).await;
    paused.heartbeat(1, "paused").await.unwrap();
    // A session of the paused one, by its application name, with a lock that a follow needs.
    let session = format!("SELECT to_hex(session) FROM {schema}.heartbeats WHERE id = 1");
    let session: String = raw().await.query_one(&session, &[]).await.unwrap().get(0);
    let name = format!("entourage {schema} {session}");
    let mut config: tokio_postgres::Config = url().parse().unwrap();
    config.application_name(&name).options(format!("-c search_path={schema}"));
    let (mut held, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let open = held.transaction().await.unwrap();
    open.execute("LOCK TABLE edges IN EXCLUSIVE MODE", &[]).await.unwrap();
    let waiting = store.commit(follow(1, 2).into());
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "it waits for the lock");
    store.disconnect(1).await.unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(3), waiting).await.expect("nothing keeps it waiting");
    outcome.unwrap();
    assert!(open.commit().await.is_err(), "what it had open is rolled back");
    assert!(connection.await.unwrap().is_err());
    // It goes on with new connections.
    paused.heartbeat(1, "awake").await.unwrap();
    assert!(paused.commit(unfollow(1, 2).into()).await.is_ok());
    // Nobody disconnects itself.
    store.disconnect(2).await.unwrap();
    assert!(store.get_users(&[Key(1)]).await.unwrap()[0].is_some());
}
