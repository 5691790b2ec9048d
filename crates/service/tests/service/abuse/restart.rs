//! Cases, pauses and quotas are the store's: the next server has them, and goes on counting where the last one was.

use entourage_embedded as embedded;
use entourage_model::{CaseMark, Condition, Key, Operation, RecordId, Space, Version};
use entourage_store::StoreExt as _;
use entourage_testkit::crash_disk::CrashDisk;

use super::*;

fn open(disk: &CrashDisk, clock: &Arc<ManualClock>) -> Arc<embedded::Store> {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::clone(clock) as _);
    Arc::new(embedded::Store::open(disk, "the test's folder", embedded::Options::default(), clock).unwrap())
}

async fn flip(world: &World, times: u64) {
    for _ in 0..times {
        world.follow("a", "b").await.unwrap();
        world.unfollow("a", "b").await;
        world.clock.advance(1_000);
    }
}

async fn start(disk: &CrashDisk, clock: &Arc<ManualClock>, abuse: AbuseRules) -> (Arc<embedded::Store>, World) {
    let store = open(disk, clock);
    (Arc::clone(&store), World::over(store, Arc::clone(clock), abuse).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn cases_pauses_and_quotas_survive_a_restart() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let rules = AbuseRules { auto_suspend: true, ..AbuseRules::default() };
    let (store, world) = start(&disk, &clock, rules).await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    world.user("c", 90 * DAY).await;
    flip(&world, 12).await;
    let before = world.only_case().await;
    world.service.abuse.set_target_quota(&Call::default(), &id("b"), Some(1)).await.unwrap();
    store.close().await.unwrap();
    let (store, world) = start(&disk, &clock, rules).await;
    let after = world.only_case().await;
    assert_eq!(after, before);
    assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
    assert_eq!(world.follow("c", "b").await, Ok(()));
    world.user("d", 90 * DAY).await;
    assert_eq!(world.follow("d", "b").await, Err(Code::RateLimited));
    // What was dismissed stays dismissed, for what happened before as well.
    world.service.abuse.close(&Call::default(), before.id, CaseState::Dismissed).await.unwrap();
    store.close().await.unwrap();
    let (_store, world) = start(&disk, &clock, rules).await;
    assert_eq!(world.only_case().await.state, CaseState::Dismissed);
    world.service.abuse.set_target_quota(&Call::default(), &id("b"), None).await.unwrap();
    assert_eq!(world.follow("a", "b").await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_within_the_last_hour_is_counted_again_after_a_restart() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    flip(&world, 6).await;
    assert_eq!(world.kinds().await, []);
    store.close().await.unwrap();
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    flip(&world, 4).await;
    assert_eq!(world.kinds().await, [CaseKind::PairChurn]);
    store.close().await.unwrap();
    // Nothing is counted twice: what was read from the log is not handed over as well.
    let (disk, clock) = (CrashDisk::new(), self::clock());
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    flip(&world, 9).await;
    store.close().await.unwrap();
    let (_store, world) = start(&disk, &clock, AbuseRules::default()).await;
    world.detect().await;
    assert_eq!(world.kinds().await, []);
}

/// The server stopped between two of its writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_was_half_done_is_finished_by_the_next_server() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let rules = AbuseRules { auto_suspend: true, ..AbuseRules::default() };
    let (store, world) = start(&disk, &clock, rules).await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    flip(&world, 12).await;
    let case = world.only_case().await;
    let key = entourage_model::KeyHasher::new(&store.identity().secret).key(&id("a"));
    // The case says that it holds, and the user does not know yet.
    store.commit(Operation::Suspend { key, suspended: false }.into()).await.unwrap();
    store.close().await.unwrap();
    let (store, world) = start(&disk, &clock, rules).await;
    assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
    // Dismissed, but the right was not given back.
    world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    assert_eq!(world.follow("a", "b").await, Ok(()));
    store.close().await.unwrap();
}

/// Pairs are counted over seven days, an actor's ended follows over 48 hours.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_within_the_longest_window_is_counted_again_after_a_restart() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    flip(&world, 6).await;
    clock.advance(5 * DAY);
    store.close().await.unwrap();
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    flip(&world, 3).await;
    assert_eq!(world.kinds().await, []);
    flip(&world, 1).await;
    assert_eq!(world.kinds().await, [CaseKind::PairChurn]);
    store.close().await.unwrap();
    // An actor's.
    let (disk, clock) = (CrashDisk::new(), self::clock());
    let (store, world) = start(&disk, &clock, AbuseRules::default()).await;
    world.user("a", 90 * DAY).await;
    for target in 0..50_u64 {
        world.user(target, (100 + 3 * target) * DAY).await;
    }
    let churn = async |world: &World, targets: std::ops::Range<u64>| {
        for target in targets {
            world.follow("a", target).await.unwrap();
            world.unfollow("a", target).await;
            world.clock.advance(1_000);
        }
    };
    churn(&world, 0..30).await;
    clock.advance(40 * HOUR);
    store.close().await.unwrap();
    let (_store, world) = start(&disk, &clock, AbuseRules::default()).await;
    churn(&world, 30..49).await;
    assert_eq!(world.kinds().await, []);
    churn(&world, 49..50).await;
    assert_eq!(world.kinds().await, [CaseKind::FollowChurn]);
}

/// What has a window of an hour is over, and what was judged is not judged again.
#[tokio::test(flavor = "multi_thread")]
async fn what_happened_long_before_a_restart_opens_nothing() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let off = AbuseRules { detect: false, ..AbuseRules::default() };
    let (store, world) = start(&disk, &clock, off).await;
    world.user("a", 90 * DAY).await;
    for target in 0..300_u64 {
        world.user(target, (100 + 3 * target) * DAY).await;
        world.follow("a", target).await.unwrap();
    }
    clock.advance(2 * HOUR);
    store.close().await.unwrap();
    let rules = AbuseRules { cool_down: std::time::Duration::from_secs(60), ..AbuseRules::default() };
    let (store, world) = start(&disk, &clock, rules).await;
    assert_eq!(world.kinds().await, []);
    world.user("b", 90 * DAY).await;
    flip(&world, 12).await;
    let case = world.only_case().await;
    world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    clock.advance(DAY);
    store.close().await.unwrap();
    // Its cool-down is over, and all of its evidence is from before it was dismissed.
    let (_store, world) = start(&disk, &clock, rules).await;
    assert_eq!(world.only_case().await.state, CaseState::Dismissed);
}

/// A record that cannot be read is left out: other cases, quarantine and every follow go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_cannot_be_read_is_left_out() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let rules = AbuseRules { quarantine: true, ..AbuseRules::default() };
    let (store, world) = start(&disk, &clock, rules).await;
    for user in ["a", "b", "c", "d"] {
        world.user(user, 90 * DAY).await;
    }
    flip(&world, 12).await;
    let case = world.only_case().await;
    let damage = async |store: &embedded::Store, id: Version, value: &[u8]| {
        let (space, owner, id) = (Space::Case, Key::SERVER, RecordId::of_version(id));
        let (value, condition) = (Some(value.into()), Condition::Any);
        let write = Operation::PutRecord { space, owner, id, value, condition, cap: None };
        store.commit(write.into()).await.unwrap();
    };
    let other = Version::from_bits(case.id.bits() + 1_000);
    damage(&store, other, &[CaseMark::Open.byte(), b'{']).await;
    damage(&store, Version::from_bits(7), b"").await;
    assert_eq!(world.only_case().await, case, "while the server runs");
    store.close().await.unwrap();
    let (store, world) = start(&disk, &clock, rules).await;
    assert_eq!(world.only_case().await, case);
    assert_eq!(world.follow("c", "d").await, Ok(()));
    let refused = world.service.abuse.get(&Call::default(), other).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    // The case itself: its evidence is found again, and has another id.
    damage(&store, case.id, &[CaseMark::Open.byte(), 0xff]).await;
    store.close().await.unwrap();
    let (_store, world) = start(&disk, &clock, rules).await;
    let again = world.only_case().await;
    assert!(again.id != case.id && again.kind == case.kind, "{again:?}");
    assert_eq!(world.follow("d", "c").await, Ok(()));
}
