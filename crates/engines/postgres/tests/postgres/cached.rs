//! The cached layer over PostgreSQL under the whole suite, with room and without, and two servers on one schema.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::postgres_kit::{
    connect, fresh_schema,
    words::{follow, people, raw, unfollow},
};
use entourage_model::{Key, Kind};
use entourage_store::{Answer, Store, StoreExt as _, SystemClock, disk::Disk as _, layers::cached::Options};
use entourage_testkit::cached::{a_write_between_read_and_fill, follows, over, over_with_disk, peek, slow, tiny};
use entourage_testkit::{
    conformance::{Fixture, block_on, random},
    crash_disk::CrashDisk,
};

/// Closed and reopened with the snapshot that the last one left.
async fn fixture(options: Options) -> Fixture {
    fixture_with(options, |_| {}).await
}

/// The same; `meanwhile` alters the snapshot.
async fn fixture_with(options: Options, meanwhile: fn(&CrashDisk)) -> Fixture {
    let (schema, disk) = (fresh_schema(), CrashDisk::new());
    let open = move || {
        let (schema, disk) = (schema.clone(), disk.clone());
        meanwhile(&disk);
        async move {
            let store = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
            Arc::new(over_with_disk(store, options, Arc::new(disk)).await) as Arc<dyn Store>
        }
    };
    Fixture::from(open().await).reopened_by(move |closed| {
        drop(closed);
        open()
    })
}

async fn roomy() -> Fixture {
    fixture(Options::default()).await
}

async fn cramped() -> Fixture {
    fixture(tiny()).await
}

mod with_room {
    use super::roomy;

    entourage_testkit::conformance!(
        fresh = roomy,
        skips = ["races::cap_is_exact_at_9_999", "records::a_large_group_goes_in_chunks"]
    );
}

mod evicting_all_the_time {
    use super::cramped;

    entourage_testkit::conformance!(
        fresh = cramped,
        skips = ["races::cap_is_exact_at_9_999", "records::a_large_group_goes_in_chunks"]
    );
}

#[test]
fn random_operations_agree_with_the_reference() {
    random::run_seeds(2, 300, roomy);
    random::run_seeds(2, 200, cramped);
}

#[test]
fn random_operations_agree_when_snapshots_are_damaged() {
    let damage = |disk: &CrashDisk| {
        if let Ok(mut bytes) = disk.contents("cache.snapshot") {
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
            disk.create("cache.snapshot").unwrap().write_at(&bytes, 0).unwrap();
        }
    };
    random::run_seeds(2, 200, async || fixture_with(Options::default(), damage).await);
}

#[test]
fn a_fill_that_a_write_overtakes_is_not_held() {
    block_on(async {
        for through_layer in [true, false] {
            let store = connect(&fresh_schema(), Arc::new(SystemClock)).await;
            a_write_between_read_and_fill(Arc::new(store), through_layer).await;
        }
    });
}

#[test]
fn two_servers_on_a_slow_store() {
    block_on(async {
        let store = connect(&fresh_schema(), Arc::new(SystemClock)).await;
        slow::two_servers_on_a_slow_store(Arc::new(store), 60).await;
    });
}

#[test]
fn two_servers_see_each_others_writes_in_time_and_at_once_with_the_token() {
    block_on(async {
        let schema = fresh_schema();
        let server = async || over(Arc::new(connect(&schema, Arc::new(SystemClock)).await), Options::default()).await;
        let (one, other) = (server().await, server().await);
        people(&one, 1..=3).await;
        for round in 0..20 {
            let (operation, now, wrong) = match round % 2 {
                0 => (follow(1, 2), Answer::Yes, Answer::No),
                _ => (unfollow(1, 2), Answer::No, Answer::Yes),
            };
            let outcome = one.commit(operation.into()).await.unwrap();
            assert_ne!(peek(&one, 1, 2), wrong, "the writing server sees it at once");
            if round % 3 == 0 {
                assert!(other.has_seen(&outcome.watermark).await.unwrap());
                assert_ne!(peek(&other, 1, 2), wrong, "with the token so does every other");
                assert_eq!(follows(&other, 1, 2).await, now == Answer::Yes);
            } else {
                let began = Instant::now();
                while peek(&other, 1, 2) != now {
                    assert!(began.elapsed() < Duration::from_secs(10), "never heard of");
                    follows(&other, 1, 2).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
    });
}

/// Thousands of checks of users whom memory does not know: answered as the store does, and memory knows them soon.
#[test]
fn cold_rows_are_read_many_at_a_time() {
    const PEOPLE: i64 = 3_000;
    block_on(async {
        let store = Arc::new(connect(&fresh_schema(), Arc::new(SystemClock)).await);
        people(&*store, 0..=PEOPLE).await;
        let edges = (0..PEOPLE * 4).map(|number| (number % PEOPLE, (number * 37 + number / PEOPLE * 11 + 1) % PEOPLE));
        let follows = edges.filter(|(one, other)| one != other).map(|(one, other)| follow(one, other).into());
        assert!(store.commit_all(follows.collect()).await.iter().all(Result::is_ok));
        let layer = over(Arc::clone(&store) as _, Options::default()).await;
        let pairs: Vec<(Key, Key)> = (0..PEOPLE).map(|user| (Key(user), Key((user * 37 + 1) % PEOPLE))).collect();
        let exact = store.get_edges(Kind::Follow, &pairs).await.unwrap();
        let began = Instant::now();
        let mut answers = vec![Answer::Unknown; pairs.len()];
        while answers.contains(&Answer::Unknown) {
            assert!(began.elapsed() < Duration::from_secs(30), "memory never knows all of them");
            for some in pairs.chunks(500) {
                layer.get_edges(Kind::Follow, some).await.unwrap();
            }
            layer.peek_all(Kind::Follow, &pairs, &mut answers);
        }
        println!("{PEOPLE} cold rows: {:?}", began.elapsed());
        for (answer, edge) in answers.iter().zip(&exact) {
            assert_eq!(*answer, if edge.is_some() { Answer::Yes } else { Answer::No });
        }
    });
}

#[test]
fn an_open_transaction_keeps_no_news_from_others() {
    block_on(async {
        let schema = fresh_schema();
        let server = async || over(Arc::new(connect(&schema, Arc::new(SystemClock)).await), Options::default()).await;
        let (one, other) = (server().await, server().await);
        people(&one, 1..=3).await;
        assert!(!follows(&other, 1, 2).await);
        let foreign = raw().await;
        foreign.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
        let outcome = one.commit(follow(1, 2).into()).await.unwrap();
        assert!(other.has_seen(&outcome.watermark).await.unwrap());
        assert_ne!(peek(&other, 1, 2), Answer::No);
        let began = Instant::now();
        while peek(&other, 1, 2) != Answer::Yes {
            assert!(began.elapsed() < Duration::from_secs(5), "the open transaction delays the event");
            follows(&other, 1, 2).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        foreign.batch_execute("COMMIT").await.unwrap();
    });
}

/// Readers in the background ask the layer whether there is anything to read: never "nothing" after a write of their own
/// process, and not for long after one of another.
#[tokio::test(flavor = "multi_thread")]
async fn the_layer_knows_whether_there_is_news_without_asking() {
    let schema = fresh_schema();
    let open = async || {
        let store = Arc::new(connect(&schema, Arc::new(SystemClock)).await);
        over(store, Options::default()).await
    };
    let (one, other) = (open().await, open().await);
    people(&one, 1..=3).await;
    let began = Instant::now();
    for round in 0..20 {
        let operation = |forth: bool| if forth { follow(1, 2) } else { unfollow(1, 2) };
        let before = one.last_events().await.unwrap();
        one.commit(operation(round % 2 == 0).into()).await.unwrap();
        assert_eq!(one.quiet_for(&before), None, "its own write is news at once");
        let after = one.last_events().await.unwrap();
        let waited = Instant::now();
        while other.quiet_for(&before).is_some() {
            assert!(waited.elapsed() < Duration::from_secs(2), "a write of another server is news within two seconds");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while other.quiet_for(&after).is_none() || one.quiet_for(&after).is_none() {
            assert!(waited.elapsed() < Duration::from_secs(5), "nothing lies behind it");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(one.quiet_for(&after).is_some_and(|age| age <= Duration::from_secs(2)));
    }
    println!("20 writes were news to the other server and then old in {:?}", began.elapsed());
}
