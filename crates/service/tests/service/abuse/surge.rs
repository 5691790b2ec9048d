//! Detectors and quarantine together: a surge that was found parks what comes after it.

use entourage_embedded as embedded;
use entourage_model::State;
use entourage_store::Store as _;
use entourage_testkit::crash_disk::CrashDisk;

use super::*;

const TARGET: &str = "target";

fn start(disk: &CrashDisk, clock: &Arc<ManualClock>) -> (Arc<embedded::Store>, World) {
    let (disk, of_store) = (Arc::new(disk.clone()), Arc::clone(clock) as _);
    let store = embedded::Store::open(disk, "the test's folder", embedded::Options::default(), of_store).unwrap();
    let store = Arc::new(store);
    let rules = rules(AbuseRules { quarantine: true, ..AbuseRules::default() });
    let service = Service::new(Arc::clone(&store) as _, rules).with_clock(Arc::clone(clock) as _);
    (store, World { service, clock: Arc::clone(clock) })
}

impl World {
    async fn state(&self, follower: impl ToString) -> State {
        let done = self.service.graph.follow(&Call::default(), &id(follower), &id(TARGET), false).await;
        done.unwrap().edge.state
    }

    async fn followers(&self) -> u64 {
        self.service.graph.get_user(&Call::default(), &id(TARGET)).await.unwrap().counts.followers
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_surges_after_its_case_was_opened_is_parked_also_by_the_next_server() {
    let (disk, clock) = (CrashDisk::new(), clock());
    let (store, world) = start(&disk, &clock);
    world.detect().await;
    world.user(TARGET, 100 * DAY).await;
    world.user("old", 100 * DAY).await;
    for fresh in 0..300 {
        world.user(fresh, HOUR).await;
        assert_eq!(world.state(fresh).await, State::Active);
    }
    let case = world.only_case().await;
    world.user("late", HOUR).await;
    assert_eq!(world.state("late").await, State::Parked);
    assert_eq!(world.state("old").await, State::Active);
    store.close().await.unwrap();

    // Its detectors have not run yet.
    let (store, world) = start(&disk, &clock);
    for later in ["later", "last"] {
        world.user(later, HOUR).await;
        assert_eq!(world.state(later).await, State::Parked);
    }
    assert_eq!(world.followers().await, 301);
    world.service.jobs.release_parked(&Call::default(), &id(TARGET), true).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    assert_eq!(world.followers().await, 304);
    world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    world.user("after", HOUR).await;
    assert_eq!(world.state("after").await, State::Active);
    assert!(store.verify().await.unwrap().is_clean());
}
