//! The homes as seen from outside: the reply of a block over two of them, and health when their tasks end.

use std::{process::Command, sync::Arc, time::Duration};

use entourage_memory::partitioned::Store;
use entourage_model::{Change, IdempotencyKey, Key, Operation, Overwrite, Secret, UserId, UserPatch, Version, Write};
use entourage_store::{Covered, Health, Identity, Store as _, StoreExt as _, SystemClock, Whose};
use entourage_testkit::conformance::block_on;

const PEOPLE: i64 = 8;
/// Names the fail point at which a task panics.
const PANIC: &str = "ENTOURAGE_TEST_PANIC";
/// How often health is polled, with a pause of a millisecond: generous, for a busy machine.
const TRIES: usize = 20_000;

async fn with_people(homes: u16) -> Store {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    let store = Store::new(identity, Arc::new(SystemClock), homes);
    for key in (0..PEOPLE).map(Key) {
        let (patch, overwrite) = (UserPatch::default(), Overwrite::Replace);
        store.commit(Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite }.into()).await.unwrap();
    }
    store
}

fn follow(follower: Key, target: Key) -> Write {
    Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false }.into()
}

#[test]
fn what_comes_after_a_block_exceeds_its_changes_in_both_homes() {
    block_on(async {
        let store = with_people(16).await;
        let mut has_two_versions = false;
        for (a, b) in (1..PEOPLE).map(|other| (Key(0), Key(other))) {
            store.commit(follow(b, a)).await.unwrap();
            let outcome = store.commit(Operation::Block { actor: a, target: b }.into()).await.unwrap();
            let versions = outcome.changes.iter().filter_map(|change| match change {
                Change::Edge(edge) => Some(edge.after.version),
                _ => None,
            });
            let versions: Vec<Version> = versions.collect();
            assert_eq!((versions.len(), versions.iter().max()), (2, Some(&outcome.newest())), "{outcome:?}");
            has_two_versions |= versions[0] != versions[1];
            let lifted = Operation::Unblock { actor: a, target: b };
            let next = store.commit(Write { floor: outcome.newest(), ..lifted.into() }).await.unwrap();
            assert!(next.version > outcome.newest());
        }
        assert!(has_two_versions, "some live in two homes");
    });
}

#[test]
fn who_hears_a_reply_again_sees_both_sides_of_it() {
    block_on(async {
        let store = with_people(16).await;
        for (a, b) in (1..PEOPLE).map(|other| (Key(0), Key(other))) {
            store.commit(follow(b, a)).await.unwrap();
            let key = IdempotencyKey { scope: [b.0 as u8; 16], request: 1 };
            let block = Write { idempotency: Some(key), ..Operation::Block { actor: a, target: b }.into() };
            store.commit(block).await.unwrap();
            let replayed = store.replay_all(&[key]).await.pop().unwrap().unwrap().unwrap();
            let mut tries = 0..TRIES;
            while store.covers(&replayed.watermark, Whose::Of(&[a, b])).await.unwrap() != Covered::Yes {
                assert!(tries.next().is_some(), "never covered");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(store.get_counts(a).await.unwrap().unwrap().followers, 0, "{b} is gone from the list of {a}");
        }
    });
}

/// In a process of its own: the environment names the fail point.
#[test]
fn health_says_when_a_relay_or_an_applier_has_ended() {
    if let Ok(place) = std::env::var(PANIC) {
        println!("{}", block_on(ends(&place)));
        return;
    }
    for place in ["relay", "applier"] {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "partitioned_life::health_says_when_a_relay_or_an_applier_has_ended", "--nocapture"]);
        let output = test.env(PANIC, place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{place}: {said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("a {place} has ended")), "{place}: {said}");
    }
}

/// The reason that health reports.
async fn ends(place: &str) -> String {
    let store = with_people(4).await;
    assert_eq!(store.health().await, Health::Ready, "nothing has settled yet");
    for other in (1..PEOPLE).map(Key) {
        store.commit(follow(other, Key(0))).await.unwrap();
    }
    for _ in 0..TRIES {
        if let Health::Degraded(why) = store.health().await {
            return why.to_string();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the end of a {place} is told to nobody");
}
