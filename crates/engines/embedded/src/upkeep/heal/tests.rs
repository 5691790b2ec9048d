use std::sync::Arc;

use entourage_model::{
    EdgeChange, EdgeValue, Key, Kind, List, ManualClock, Millis, Operation, Overwrite, Plane, Secret, Sequence, Side,
    UserId, UserPatch, Write,
};

use crate::{Damage, Options, Store, state::plane::StoredPlane};
use entourage_store::{EdgeName, Identity, Store as _, StoreExt as _};
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

/// The edge that is damaged.
const EDGE: EdgeName = EdgeName { kind: Kind::Follow, follower: Key(1), target: Key(2) };

fn open(disk: &CrashDisk) -> Store {
    let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
    let identity = || Identity { epoch: 7, secret: Secret::from_bytes([7; 32]) };
    Store::open_as(Arc::new(disk.clone()), "disk", Options::tiny(), clock, identity).unwrap()
}

async fn write(store: &Store, operation: Operation) {
    store.commit(operation.into()).await.unwrap();
}

fn put_user(number: i64, private: bool) -> Operation {
    let patch = UserPatch { private: Some(private), ..UserPatch::default() };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Keep }
}

fn follow(follower: i64, target: i64, quiet: bool) -> Operation {
    Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(quiet), cap: None, park: false }
}

/// Users 1 to 6, of whom 6 is private; 1, 3 and quietly 4 follow 2; 1 asks 6, blocks 4 and mutes 5.
async fn small_store(disk: &CrashDisk) -> Store {
    let store = open(disk);
    for number in 1..=6 {
        write(&store, put_user(number, number == 6)).await;
    }
    write(&store, follow(3, 2, false)).await;
    store.checkpoint().await.unwrap();
    let (actor, target) = (Key(1), Key(5));
    for operation in [
        follow(1, 2, false),
        follow(4, 2, true),
        follow(1, 6, false),
        Operation::Block { actor, target: Key(4) },
        Operation::Mute { actor, target, expires_at: None },
    ] {
        write(&store, operation).await;
    }
    assert_clean(&store, "at first").await;
    store
}

async fn assert_clean(store: &Store, when: &str) {
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{when}: {:?}", report.problems);
}

async fn value(store: &Store, edge: EdgeName) -> Option<EdgeValue> {
    store.get_edges(edge.kind, &[(edge.follower, edge.target)]).await.unwrap()[0]
}

/// Damages an edge; a stray one is left by an unfollow that missed the other side.
async fn damage(store: &Store, edge: EdgeName, what: Damage) {
    let what = match what {
        Damage::Stray(_) => {
            let value = value(store, edge).await.unwrap();
            write(store, Operation::Unfollow { follower: edge.follower, target: edge.target }).await;
            Damage::Stray(value)
        }
        other => other,
    };
    assert!(store.damage(edge.kind, edge.follower, edge.target, what).unwrap());
    assert!(!store.verify().await.unwrap().is_clean(), "{what:?} is no damage");
}

fn damages() -> [Damage; 4] {
    let value = EdgeValue::active(entourage_model::Version::ZERO);
    [Damage::Missing, Damage::Stray(value), Damage::Flag, Damage::Place]
}

async fn changes(store: &Store) -> Vec<EdgeChange> {
    store.changed_edges(Sequence::ZERO, usize::MAX).await.unwrap().edges
}

#[test]
fn each_damage_is_seen_healed_and_stays_healed() {
    block_on(async {
        for what in damages() {
            for in_blocks in [false, true] {
                let disk = CrashDisk::new();
                let store = small_store(&disk).await;
                assert_eq!(store.differing(changes(&store).await).await.unwrap(), []);
                damage(&store, EDGE, what).await;
                if in_blocks {
                    store.checkpoint().await.unwrap();
                }
                let seen = store.differing(changes(&store).await).await.unwrap();
                assert!(
                    !seen.is_empty() && seen.iter().all(|change| EdgeName::from(change) == EDGE),
                    "{what:?}: {seen:?}"
                );
                let (events, truth) = (store.last_event(0).await.unwrap(), value(&store, EDGE).await);
                let healed = store.heal(&[EDGE, EDGE]).await.unwrap();
                assert_eq!((healed.looked, healed.mended, healed.unclear), (1, vec![EDGE], vec![]), "{what:?}");
                assert_clean(&store, "after healing").await;
                assert_eq!((store.last_event(0).await.unwrap(), value(&store, EDGE).await), (events, truth));
                assert_eq!(store.differing(changes(&store).await).await.unwrap(), []);
                // Writes continue from there.
                write(&store, Operation::Unfollow { follower: Key(1), target: Key(2) }).await;
                write(&store, follow(1, 2, true)).await;
                assert_clean(&store, "after writing on").await;
                store.close().await.unwrap();
                drop(store);
                assert_clean(&open(&disk), "after a restart").await;
            }
        }
    });
}

#[test]
fn what_was_healed_and_not_yet_in_blocks_is_found_again_after_a_crash() {
    block_on(async {
        for what in damages() {
            let disk = CrashDisk::new();
            let store = small_store(&disk).await;
            damage(&store, EDGE, what).await;
            store.checkpoint().await.unwrap();
            assert_eq!(store.heal(&[EDGE]).await.unwrap().mended, [EDGE]);
            // Without a checkpoint.
            drop(store);
            let store = open(&disk);
            assert!(!store.verify().await.unwrap().is_clean(), "{what:?} is gone by itself");
            assert!(!store.differing(changes(&store).await).await.unwrap().is_empty());
            assert_eq!(store.heal(&[EDGE]).await.unwrap().mended, [EDGE]);
            assert_clean(&store, "after healing again").await;
            store.close().await.unwrap();
        }
    });
}

#[test]
fn every_kind_and_state_is_healed() {
    block_on(async {
        let edge = |kind, target| EdgeName { kind, follower: Key(1), target: Key(target) };
        for edge in [edge(Kind::Follow, 6), edge(Kind::Block, 4), edge(Kind::Mute, 5)] {
            for what in [Damage::Missing, Damage::Place] {
                let store = small_store(&CrashDisk::new()).await;
                damage(&store, edge, what).await;
                assert_eq!(store.heal(&[edge]).await.unwrap().mended, [edge], "{what:?}");
                assert_clean(&store, "after healing").await;
            }
        }
    });
}

#[test]
fn nothing_wrong_is_left_as_it_is() {
    block_on(async {
        let store = small_store(&CrashDisk::new()).await;
        let edges: Vec<EdgeName> = changes(&store).await.iter().map(EdgeName::from).collect();
        let absent = EdgeName { follower: Key(2), target: Key(1), ..EDGE };
        let unknown = EdgeName { target: Key(99), ..EDGE };
        let before = (store.last_event(0).await.unwrap(), store.engine.state.delta_entries());
        let healed = store.heal(&[edges.as_slice(), &[absent, unknown]].concat()).await.unwrap();
        assert_eq!((healed.looked, healed.mended, healed.unclear), (8, vec![], vec![]));
        assert_eq!((store.last_event(0).await.unwrap(), store.engine.state.delta_entries()), before);
        assert_clean(&store, "after healing nothing").await;
    });
}

#[test]
fn a_follower_whose_own_side_disagrees_is_no_truth() {
    block_on(async {
        let store = small_store(&CrashDisk::new()).await;
        let ordinal = |key: Key| store.engine.state.ordinal(key).unwrap();
        let (from, to) = (ordinal(EDGE.follower), ordinal(EDGE.target));
        let followers = List::new(EDGE.target, Plane::Follow, Side::Followers);
        let listed = store.scan(followers, None, 10).await.unwrap();
        store.engine.state.shard(from).write().lists_mut(StoredPlane::Follow, from).unwrap().remove(to);
        let healed = store.heal(&[EDGE]).await.unwrap();
        assert_eq!((healed.mended, healed.unclear), (vec![], vec![EDGE]));
        assert_eq!(store.scan(followers, None, 10).await.unwrap(), listed, "nothing is taken away by a guess");
        assert_eq!(store.recount(Some(EDGE.follower)).await.unwrap().corrected, 1);
        assert_eq!(store.heal(&[EDGE]).await.unwrap().unclear, []);
        assert_clean(&store, "after a recount").await;
    });
}

/// A reconciler that read only the first 10,000 followers removed the others.
#[test]
fn a_list_of_10_001_is_healed_and_nobody_is_taken_away() {
    const MANY: i64 = 10_001;
    block_on(async {
        let disk = CrashDisk::new();
        let store = open(&disk);
        let writes = |operations: Vec<Operation>| operations.into_iter().map(Write::from).collect::<Vec<_>>();
        store.commit_all(writes((0..=MANY).map(|number| put_user(number, false)).collect())).await;
        store.commit_all(writes((1..=MANY).map(|number| follow(number, 0, number % 7 == 0)).collect())).await;
        store.checkpoint().await.unwrap();
        let edge = |follower| EdgeName { kind: Kind::Follow, follower: Key(follower), target: Key(0) };
        let lost = [1, 5_000, 10_000, MANY].map(edge);
        for edge in lost {
            damage(&store, edge, Damage::Missing).await;
        }
        let everybody: Vec<EdgeName> = (1..=MANY).map(edge).collect();
        let healed = store.heal(&everybody).await.unwrap();
        assert_eq!((healed.looked, healed.mended, healed.unclear), (MANY as u64, lost.to_vec(), vec![]));
        assert_clean(&store, "after healing").await;
        assert_eq!(store.get_counts(Key(0)).await.unwrap().unwrap().followers, MANY as u64);
        store.close().await.unwrap();
        drop(store);
        assert_clean(&open(&disk), "after a restart").await;
    });
}
