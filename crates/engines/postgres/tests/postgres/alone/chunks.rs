//! Many writes of one caller, as imports and jobs have them: large transactions, side by side, with the outcomes of one
//! write after the other.

use std::{sync::Arc, time::Duration};

use crate::postgres_kit::{connect, connect_with, fresh_schema, fresh_store, words::*};
use entourage_model::{Code, Key, Kind, Millis, Operation, Outcome, Reply, Result, Write};
use entourage_postgres::Options;
use entourage_store::{Store, StoreExt as _, SystemClock};
use entourage_testkit::cached::memory;

fn import(follower: i64, target: i64) -> Operation {
    let at = Millis::from_since_2000((follower * 31 + target) as u64);
    Operation::Import { follower: Key(follower), target: Key(target), at, quiet: target % 9 == 0 }
}

/// Users come while they are followed already; edges come twice; some are removed, blocked, asked for again.
fn mixed(people: i64, count: i64) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for number in 0..count {
        let (one, other) = (number * 7_919 % people, number * 104_729 % (people + 3));
        if number % 5 == 0 {
            writes.push(put(number / 5 % people).into());
        }
        writes.push(Write::from(match number % 23 {
            3 => unfollow(one, other),
            7 => block(one, other),
            11 => follow(one, other),
            _ => import(one, other),
        }));
    }
    writes
}

fn comparable(store: &[Result<Outcome>]) -> Vec<String> {
    let reply = |reply: &Reply| match reply {
        Reply::Edge { value, created, changed } => {
            format!("{:?} {created} {changed} {}", value.state, value.quiet)
        }
        other => format!("{other:?}"),
    };
    let said = |outcome: &Result<Outcome>| match outcome {
        Ok(outcome) => format!("{} {}", reply(&outcome.reply), outcome.changes.len()),
        Err(error) => format!("{:?}", error.code()),
    };
    store.iter().map(said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writes_of_one_caller_are_as_one_after_the_other() {
    for (writers, chunk) in [(1, 1_000), (2, 500), (4, 130)] {
        let options = Options { writers, chunk, ..Options::default() };
        let store = connect_with(&fresh_schema(), options, Arc::new(SystemClock)).await;
        let reference = memory();
        for people in [400, 90] {
            let (seen, wanted) =
                (store.commit_all(mixed(people, 4_000)).await, reference.commit_all(mixed(people, 4_000)).await);
            assert_eq!(comparable(&seen), comparable(&wanted), "{writers} writers, {chunk} a chunk");
        }
        let changes = reference.last_event(0).await.unwrap().0 as usize;
        assert!(changes > 3_000, "{changes} changes");
        events(&store, changes).await;
        for user in 0..90 {
            assert_eq!(counts(&store, user).await, counts(&*reference, user).await, "{user}");
        }
        assert_clean(&store).await;
        store.close().await.unwrap();
    }
}

/// What was removed has a row: it is changed, not copied.
#[tokio::test(flavor = "multi_thread")]
async fn edges_that_were_removed_are_imported_again() {
    let store = fresh_store().await;
    people(&*store, 0..=800).await;
    let all = |operation: fn(i64, i64) -> Operation| (1..=800).map(|other| operation(0, other).into()).collect();
    let first = store.commit_all(all(import)).await;
    assert_eq!(created(&first), 800);
    let gone = store.commit_all((1..=600).map(|other| unfollow(0, other).into()).collect()).await;
    assert!(gone.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.reply.changed())));
    assert_eq!(counts(&*store, 0).await, (0, 200));
    let again = store.commit_all(all(import)).await;
    assert_eq!(created(&again), 600);
    for (first, again) in first.iter().flatten().zip(again.iter().flatten()).take(600) {
        assert!(first.version < again.version);
    }
    assert_eq!(counts(&*store, 0).await, (0, 800));
    assert_clean(&*store).await;
}

/// Two servers import the same edges while people write: each edge comes once, and blocks stay blocks.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_import_the_same_edges_while_people_write() {
    const PEOPLE: i64 = 300;
    let schema = fresh_schema();
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
        Arc::new(connect(&schema, Arc::new(SystemClock)).await),
    ];
    people(&*stores[0], 0..=PEOPLE).await;
    let edges = || (0..6_000i64).map(|number| (number % PEOPLE, (number * 17 + number / PEOPLE + 1) % PEOPLE));
    let distinct: std::collections::BTreeSet<(i64, i64)> = edges().filter(|(one, other)| one != other).collect();
    let imports: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            let writes = edges().map(|(one, other)| import(one, other).into()).collect();
            tokio::spawn(async move { store.commit_all(writes).await })
        })
        .collect();
    let blocking: Vec<_> = (0..40)
        .map(|number| {
            let store = Arc::clone(&stores[number as usize % 2]);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number as u64 * 5)).await;
                let (one, other) = (number, (number * 17 + 1) % PEOPLE);
                (one, other, store.commit(block(other, one).into()).await.unwrap())
            })
        })
        .collect();
    let mut made = 0;
    for import in imports {
        let outcomes = import.await.unwrap();
        assert!(outcomes.iter().all(|outcome| match outcome {
            Ok(_) => true,
            Err(error) => matches!(error.code(), Code::Blocked | Code::SelfFollow),
        }));
        made += created(&outcomes);
    }
    assert!(made <= distinct.len(), "{made} of {} edges were made", distinct.len());
    let mut removed = 0;
    for task in blocking {
        let (one, other, outcome) = task.await.unwrap();
        removed += outcome.changes.len() - 1;
        let left = stores[0].get_edges(Kind::Follow, &[(Key(one), Key(other)), (Key(other), Key(one))]).await.unwrap();
        assert_eq!(left, [None, None], "{other} blocks {one}");
    }
    let mut following = 0;
    for user in 0..=PEOPLE {
        following += counts(&*stores[1], user).await.1 as usize;
    }
    assert_eq!(following, made - removed);
    assert_clean(&*stores[0]).await;
}

/// A user who was imported is at the cap, whoever looks, and however the rest is written.
#[tokio::test(flavor = "multi_thread")]
async fn the_cap_counts_what_is_imported_meanwhile() {
    const CAP: u64 = 400;
    let store = fresh_store().await;
    people(&*store, 0..=1_200).await;
    let importing = Arc::clone(&store);
    let imports =
        tokio::spawn(
            async move { importing.commit_all((1..=350).map(|other| import(0, other).into()).collect()).await },
        );
    let within = |target: i64| Operation::Follow {
        follower: Key(0),
        target: Key(target),
        quiet: Some(false),
        cap: Some(CAP),
        park: false,
    };
    let follows = store.commit_all((401..=1_200).map(|target| within(target).into()).collect()).await;
    let imported = imports.await.unwrap();
    assert_eq!(created(&imported), 350);
    let (_, following) = counts(&*store, 0).await;
    assert_eq!(following as usize, 350 + created(&follows));
    assert!(created(&follows) as u64 <= CAP && created(&follows) as u64 >= CAP - 350);
    let last = store.commit(within(400).into()).await;
    assert_eq!(last.unwrap_err().code(), Code::FollowingLimit);
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_write_of_many_harms_no_other() {
    let schema = fresh_schema();
    let store = connect(&schema, Arc::new(SystemClock)).await;
    people(&store, 0..=700).await;
    let trap = format!(
        "SET search_path TO {schema}; \
         CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trap'; END $$; \
         CREATE TRIGGER trap BEFORE INSERT ON edges FOR EACH ROW WHEN (NEW.target = 13) EXECUTE FUNCTION trap()"
    );
    raw().await.batch_execute(&trap).await.unwrap();
    let outcomes = store.commit_all((1..=700).map(|target| import(0, target).into()).collect()).await;
    assert_eq!((created(&outcomes), refused(&outcomes, Code::Internal)), (699, 1));
    assert_eq!(outcomes[12].as_ref().unwrap_err().code(), Code::Internal);
    assert_eq!(counts(&store, 0).await, (0, 699));
    assert_clean(&store).await;
}
