//! Races between connections, and between processes on one schema.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::postgres_kit::{connect, connect_at, fresh_schema, fresh_store, words::*};
use entourage_model::{
    Code, Event, EventBody, IdempotencyKey, Key, Kind, List, ManualClock, Millis, Operation, Outcome, Place, Reply,
    Result, Sequence, State, Version, Write,
};
use entourage_postgres::Options;
use entourage_store::{Store, StoreExt as _, SystemClock};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn equal_follows_create_once_and_equal_unfollows_remove_once() {
    let store = fresh_store().await;
    people(&*store, 1..=2).await;
    let outcomes = race(&[Arc::clone(&store)], vec![follow(1, 2).into(); TASKS]).await;
    assert_eq!(created(&outcomes), 1);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(counts(&*store, 2).await, (1, 0));
    let outcomes = race(&[Arc::clone(&store)], vec![unfollow(1, 2).into(); TASKS]).await;
    let gone = |outcome: &&Result<Outcome>| matches!(outcome, Ok(Outcome { reply: Reply::Gone { changed: true }, .. }));
    assert_eq!(outcomes.iter().filter(gone).count(), 1);
    assert_eq!((counts(&*store, 1).await, counts(&*store, 2).await), ((0, 0), (0, 0)));
    events(&*store, 4).await;
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_is_exact_on_two_stores_of_one_schema() {
    let schema = fresh_schema();
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
    ];
    let tasks = TASKS as i64;
    people(&*stores[0], 1..=100 + tasks).await;
    for target in 2..=100 {
        stores[0].commit(follow(1, target).into()).await.unwrap();
    }
    let capped = |target| Operation::Follow {
        follower: Key(1),
        target: Key(target),
        quiet: Some(false),
        cap: Some(100),
        park: false,
    };
    let outcomes = race(&stores, (101..=100 + tasks).map(|target| capped(target).into()).collect()).await;
    assert_eq!((created(&outcomes), refused(&outcomes, Code::FollowingLimit)), (1, TASKS - 1));
    assert_eq!(counts(&*stores[1], 1).await, (0, 100));
    // One removal makes room for one more.
    stores[1].commit(unfollow(1, 2).into()).await.unwrap();
    assert_eq!(created(&race(&stores, (101..=100 + tasks).map(|target| capped(target).into()).collect()).await), 1);
    assert_clean(&*stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_against_follows_ends_without_an_edge() {
    let store = fresh_store().await;
    people(&*store, 1..=40).await;
    for pair in 0..20 {
        let (a, b) = (2 * pair + 1, 2 * pair + 2);
        let mut writes: Vec<Write> = (0..8).map(|_| follow(a, b).into()).collect();
        writes.extend((0..8).map(|_| Write::from(follow(b, a))));
        writes.insert(usize::try_from(pair).unwrap() % 16, block(b, a).into());
        let outcomes = race(&[Arc::clone(&store)], writes).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), refused(&outcomes, Code::Blocked));
        let left = store.get_edges(Kind::Follow, &[(Key(a), Key(b)), (Key(b), Key(a))]).await.unwrap();
        assert_eq!(left, [None, None]);
        assert_eq!((counts(&*store, a).await, counts(&*store, b).await), ((0, 0), (0, 0)));
    }
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_went_private_is_followed_only_by_request() {
    let store = fresh_store().await;
    let tasks = TASKS as i64;
    people(&*store, 0..=tasks).await;
    let mut writes: Vec<Write> = (1..=tasks).map(|follower| follow(follower, 0).into()).collect();
    writes.insert(TASKS / 2, set_private(0, true).into());
    for outcome in race(&[Arc::clone(&store)], writes).await {
        outcome.unwrap();
    }
    // In the order of the events nobody became a follower after the account went private.
    let mut private = false;
    for event in events(&*store, 2 * TASKS + 2).await {
        match event.body {
            EventBody::User { key: Key(0), existed: true, .. } => private = true,
            EventBody::Edge { after, .. } => {
                assert_eq!(after, Some(if private { State::Pending } else { State::Active }), "{event:?}");
            }
            EventBody::User { .. } | EventBody::Record { .. } => {}
        }
    }
    assert!(private);
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_have_one_effect_and_one_reply() {
    let store = fresh_store().await;
    people(&*store, 1..=3).await;
    let key = |request| Some(IdempotencyKey { scope: *b"scope of request", request });
    let write = Write { idempotency: key(u64::MAX), ..Write::from(follow(1, 2)) };
    let outcomes = race(&[Arc::clone(&store)], vec![write.clone(); TASKS]).await;
    // The reply of the first is everyone's reply: all say `created`, one did it.
    assert_eq!(created(&outcomes), TASKS);
    let outcomes: Vec<Outcome> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.replayed).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.version == outcomes[0].version));
    store.commit(unfollow(1, 2).into()).await.unwrap();
    assert!(store.commit(write.clone()).await.unwrap().replayed);
    assert_eq!(store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap(), [None]);
    let other = Write { idempotency: key(7), ..Write::from(follow(1, 3)) };
    assert_eq!(store.commit(other).await.unwrap_err().code(), Code::IdempotencyMismatch);
    events(&*store, 5).await;
}

/// Only the key is shared, so only its own lock can serialize these.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_on_many_users_has_one_effect() {
    let store = fresh_store().await;
    people(&*store, 0..=TASKS as i64).await;
    let idempotency = Some(IdempotencyKey { scope: [9; 16], request: 1 });
    let write = |follower| Write { idempotency, ..Write::from(follow(follower, 0)) };
    let outcomes = race(&[Arc::clone(&store)], (1..=TASKS as i64).map(write).collect()).await;
    let effects = |outcome: &&Result<Outcome>| outcome.as_ref().is_ok_and(|outcome| !outcome.replayed);
    assert_eq!((created(&outcomes), outcomes.iter().filter(effects).count()), (TASKS, 1));
    assert_eq!(counts(&*store, 0).await, (1, 0));
}

/// In this database and in another one, with a number each and with rows of the store.
#[tokio::test(flavor = "multi_thread")]
async fn open_transactions_hold_up_no_events_no_tokens_and_no_writes() {
    let schema = fresh_schema();
    let store: Arc<dyn Store> = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    people(&*store, 0..=TASKS as i64).await;
    let (here, elsewhere) = (raw().await, raw_in("template1").await);
    let open = format!("BEGIN; SELECT pg_current_xact_id(); SELECT count(*) FROM {schema}.edges");
    here.batch_execute(&open).await.unwrap();
    elsewhere.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let began = Instant::now();
    let outcomes = race(&[Arc::clone(&store)], (1..=TASKS as i64).map(|a| follow(a, 0).into()).collect()).await;
    assert_eq!(created(&outcomes), TASKS);
    let listed = store.events_after(Sequence::ZERO, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), 2 * TASKS + 1);
    assert!(listed.iter().zip(1..).all(|(event, number)| event.sequence == Sequence(number)));
    let progress = store.progress(0).await.unwrap();
    assert_eq!((progress.listed, progress.covered), (progress.newest, progress.newest));
    for outcome in outcomes.into_iter().map(Result::unwrap) {
        assert!(store.has_seen(&outcome.watermark).await.unwrap());
        let at = usize::try_from(outcome.watermark.sequence().0).unwrap() - 1;
        assert_eq!(listed[at].version, outcome.version, "a watermark is the sequence of the last change");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    here.batch_execute("COMMIT").await.unwrap();
    elsewhere.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_events_during_writes_never_see_a_gap_or_a_change_of_mind() {
    let schema = fresh_schema();
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
    ];
    people(&*stores[0], 1..=8).await;
    let mut tasks = JoinSet::new();
    for writer in 1..=8_i64 {
        let store = Arc::clone(&stores[usize::try_from(writer % 2).unwrap()]);
        tasks.spawn(async move {
            for round in 0..40 {
                let target = (writer + round % 7) % 8 + 1;
                let operation = if round % 3 == 2 { unfollow(writer, target) } else { follow(writer, target) };
                match store.commit(operation.into()).await {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.code(), Code::SelfFollow),
                }
            }
        });
    }
    let mut seen: Vec<Event> = Vec::new();
    let mut turn = 0;
    while !tasks.is_empty() {
        let after = seen.last().map_or(Sequence::ZERO, |event| event.sequence);
        let fresh = stores[turn % 2].events_after(after, 5).await.unwrap();
        for (index, event) in fresh.iter().enumerate() {
            assert_eq!(event.sequence, after.plus(index as u64 + 1));
        }
        seen.extend(fresh);
        turn += 1;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
    }
    let all = stores[0].events_after(Sequence::ZERO, usize::MAX).await.unwrap();
    assert_eq!(all[..seen.len()], seen[..]);
    assert_clean(&*stores[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_with_clocks_ten_minutes_apart_never_write_an_older_version() {
    let schema = fresh_schema();
    let behind = Millis::parse_rfc3339("2026-05-01T12:00:00Z").unwrap();
    let stores = [
        connect_at(&schema, Options::default(), Arc::new(ManualClock::new(behind.plus(600_000)))).await,
        connect_at(&schema, Options::default(), Arc::new(ManualClock::new(behind))).await,
    ];
    assert_eq!(stores[0].identity().epoch, stores[1].identity().epoch);
    assert_eq!(stores[0].identity().secret, stores[1].identity().secret);
    people(&stores[0], 1..=2).await;
    let mut last = Version::ZERO;
    let mut servers = std::collections::HashSet::new();
    for round in 0..20 {
        let operation = if round % 2 == 0 { follow(1, 2) } else { unfollow(1, 2) };
        let outcome = stores[(round / 2) % 2].commit(operation.into()).await.unwrap();
        assert!(outcome.reply.changed() && outcome.version > last);
        last = outcome.version;
        servers.insert(last.server());
        for store in &stores {
            assert!(store.has_seen(&outcome.watermark).await.unwrap());
            let value = store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap()[0];
            assert_eq!(value.is_some(), round % 2 == 0);
        }
    }
    assert_eq!(servers.len(), 2, "each store has a server number of its own");
    assert_clean(&stores[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_totals_agree_while_followers_come_and_go() {
    let store = fresh_store().await;
    people(&*store, 0..=40).await;
    for follower in 1..=20 {
        store.commit(follow(follower, 0).into()).await.unwrap();
    }
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..6 {
                for follower in 21..=40 {
                    let operation = if round % 2 == 0 { follow(follower, 0) } else { unfollow(follower, 0) };
                    store.commit(operation.into()).await.unwrap();
                }
            }
        })
    };
    let list = List::followers(Key(0));
    while !writer.is_finished() {
        let whole = store.scan(list, None, usize::MAX).await.unwrap();
        assert_eq!((whole.edges.len() as u64, whole.more), (whole.total, false));
        let mut seen = Vec::new();
        let mut after: Option<Place> = None;
        loop {
            let page = store.scan(list, after, 3).await.unwrap();
            seen.extend(page.edges.iter().map(|edge| edge.follower.0));
            after = page.edges.last().map(|edge| list.place(edge));
            if !page.more {
                break;
            }
        }
        let stable: Vec<i64> = seen.iter().copied().filter(|&follower| follower <= 20).collect();
        assert_eq!(stable, (1..=20).rev().collect::<Vec<_>>());
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }
    writer.await.unwrap();
    assert_clean(&*store).await;
}
