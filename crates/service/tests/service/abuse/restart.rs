//! Cases, pauses and quotas are the store's: the next server has them, and goes on counting where the last one was.

use entourage_embedded as embedded;
use entourage_model::Operation;
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
