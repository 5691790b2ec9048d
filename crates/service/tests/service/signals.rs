//! Signals: counted, bounded, saved, and forgotten with the people they are about.

use std::{sync::Arc, time::Duration};

use entourage_embedded as embedded;
use entourage_model::{Code, Key, ManualClock, Millis, Space, UserId, UserPatch};
use entourage_service::{
    Actor, Call, Credential, Limits, Rules, SIGNALS_MAX, Service, Signal, SignalRules, Signalled, VIEWED_MAX,
};
use entourage_store::{Store, StoreExt as _};
use entourage_testkit::crash_disk::CrashDisk;

const START: Millis = Millis::from_since_2000(800_000_000_000);
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;

struct World {
    disk: CrashDisk,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    service: Arc<Service>,
}

fn id(number: i64) -> UserId {
    UserId::from(number)
}

fn view(viewer: i64, viewed: i64, count: u32) -> Signal {
    Signal { viewer: id(viewer), viewed: id(viewed), count, at: None }
}

impl World {
    fn open(disk: CrashDisk, clock: Arc<ManualClock>, counters_max: usize) -> Self {
        let options = embedded::Options::default();
        let store = embedded::Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::clone(&clock) as _);
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let signals = SignalRules { counters_max, ..SignalRules::default() };
        let rules = Rules { limits: Limits::NONE, audit_interval: None, signals, ..Rules::default() };
        let service = Service::new(Arc::clone(&store), rules).with_clock(Arc::clone(&clock) as _);
        Self { disk, clock, store, service: Arc::new(service) }
    }

    async fn new(people: i64, counters_max: usize) -> Self {
        let world = Self::open(CrashDisk::new(), Arc::new(ManualClock::new(START)), counters_max);
        for number in 0..people {
            world.service.graph.put_user(&Call::default(), id(number), UserPatch::default()).await.unwrap();
        }
        world
    }

    /// Stops the server in good order, and starts another one on the same disk.
    async fn restarted(self) -> Self {
        let running = Arc::clone(&self.service);
        let running = tokio::spawn(async move { running.run().await });
        tokio::task::yield_now().await;
        self.service.end_streams();
        tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
        self.store.close().await.unwrap();
        let Self { disk, clock, .. } = self;
        let world = Self::open(disk, clock, 1_000_000);
        let running = Arc::clone(&world.service);
        tokio::spawn(async move { running.run().await });
        let saved = world.store.count_records(Space::Signal, Key::SERVER).await.unwrap();
        for _ in 0..1_000 {
            if saved == 0 || world.service.signals.counters() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world
    }

    async fn signal(&self, signals: &[Signal]) -> Signalled {
        self.service.signals.signal(&Call::default(), signals).await.unwrap()
    }

    async fn viewed(&self, viewer: i64) -> Vec<(i64, f64)> {
        let found = self.service.signals.viewed_by(&Call::default(), &id(viewer)).await.unwrap();
        found.iter().map(|(id, weight)| (id.as_number().unwrap(), (weight * 100.0).round() / 100.0)).collect()
    }
}

#[tokio::test]
async fn what_does_not_count_is_ignored_and_what_is_wrong_is_refused() {
    let world = World::new(4, 100).await;
    let old = Signal { at: Some(START), ..view(1, 2, 1) };
    let ahead = Signal { at: Some(Millis::from_since_2000(2_000_000_000_000)), ..view(1, 3, 2) };
    world.clock.set(START.plus(31 * DAY_MILLIS));
    let done = world.signal(&[old, ahead, view(1, 1, 1), view(1, 99, 1), view(99, 1, 1), view(1, 0, 1)]).await;
    assert_eq!(done, Signalled { accepted: 2, ignored: 4 });
    assert_eq!(world.viewed(1).await, [(3, 2.0), (0, 1.0)]);
    let signals = &world.service.signals;
    let user = Call { actor: Actor::User(id(1)), admin: false, credential: Credential::User, ..Call::default() };
    let many = vec![view(1, 2, 1); SIGNALS_MAX + 1];
    for (call, batch, code) in [
        (&user, &[view(1, 2, 1)][..], Code::Forbidden),
        (&Call::default(), &[view(1, 2, 0)], Code::InvalidRequest),
        (&Call::default(), &[view(1, 2, 1_001)], Code::InvalidRequest),
        (&Call::default(), &many, Code::InvalidRequest),
    ] {
        assert_eq!(signals.signal(call, batch).await.unwrap_err().code(), code);
    }
    assert_eq!(world.signal(&many[1..]).await.accepted, SIGNALS_MAX as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_they_survive_a_restart_and_decay_meanwhile() {
    let world = World::new(30, 1_000).await;
    let all: Vec<Signal> =
        (1..30).flat_map(|viewer| [view(viewer, 0, 4), view(viewer, (viewer + 1) % 30, 2)]).collect();
    assert_eq!(world.signal(&all).await.accepted, 58);
    assert_eq!(world.viewed(5).await, [(0, 4.0), (6, 2.0)]);
    let world = world.restarted().await;
    assert_eq!(world.service.signals.counters(), 57, "two of them are of one pair");
    assert_eq!(world.viewed(5).await, [(0, 4.0), (6, 2.0)]);
    world.clock.set(START.plus(6 * DAY_MILLIS));
    assert_eq!(world.viewed(5).await, [(0, 2.0), (6, 1.0)]);
    world.signal(&[view(5, 6, 3)]).await;
    assert_eq!(world.viewed(5).await, [(6, 4.0), (0, 2.0)]);
    // Who is erased is forgotten here, and in what was saved.
    world.service.jobs.erase(&Call::default(), &id(0)).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    assert_eq!(world.viewed(5).await, [(6, 4.0)]);
    world.service.graph.put_user(&Call::default(), id(0), UserPatch::default()).await.unwrap();
    assert_eq!(world.viewed(5).await, [(6, 4.0)], "the id created again is somebody else");
    let world = world.restarted().await;
    assert_eq!(world.viewed(5).await, [(6, 4.0)]);
    assert_eq!(world.service.signals.counters(), 28);
    // In the end nothing of them is left.
    world.clock.set(START.plus(100 * DAY_MILLIS));
    let world = world.restarted().await;
    assert_eq!(world.store.count_records(Space::Signal, Key::SERVER).await.unwrap(), 0);
    assert!(world.store.verify().await.unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_stays_within_its_bounds() {
    let world = World::new(400, 5_000).await;
    for viewer in 0..400 {
        let batch: Vec<Signal> = (0..400).map(|viewed| view(viewer, viewed, 1 + (viewed as u32 % 7))).collect();
        world.signal(&batch).await;
        assert!(world.service.signals.counters() <= 5_000);
        assert!(world.viewed(viewer).await.len() <= VIEWED_MAX);
    }
    assert!(world.service.signals.counters() > 4_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_profile_a_user_looked_at_is_suggested_to_them_alone() {
    let world = World::new(5, 1_000).await;
    let views = [view(1, 2, 3), view(1, 3, 9), view(1, 4, 1)];
    world.service.signals.signal(&Call::default(), &views).await.unwrap();
    // Whom they follow by now is not suggested.
    world.service.graph.follow(&Call::default(), &id(1), &id(4), None).await.unwrap();
    let suggested = async |viewer| {
        let found = world.service.suggestions.suggestions(&Call::default(), &id(viewer), None, 50).await.unwrap();
        let by_signal = found.into_iter().filter(|one| one.reason == entourage_service::Reason::Signal);
        by_signal.map(|one| one.person.id).collect::<Vec<_>>()
    };
    assert_eq!(suggested(1).await, [id(3), id(2)]);
    assert!(suggested(2).await.is_empty());
}
