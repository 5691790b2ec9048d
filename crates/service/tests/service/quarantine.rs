//! Quarantine: whose follows are parked, who sees that they are, and how a wave ends.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_memory::partitioned;
use entourage_model::{Code, Key, KeyHasher, Millis, Secret, State, UserId, UserPatch};
use entourage_service::{
    AbuseRules, Actor, BatchDone, BatchOperation, Call, Credential, Ending, GROUP_ROWS_MAX, JobState, Limit, Limits,
    Rules, Service, Surges,
};
use entourage_store::{Derived, Identity, Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Default)]
struct Forced(Mutex<HashSet<Key>>);

impl Surges for Forced {
    fn is_surging(&self, target: Key) -> bool {
        self.0.lock().unwrap().contains(&target)
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) service: Arc<Service>,
    surges: Arc<Forced>,
}

fn id(name: impl ToString) -> UserId {
    UserId::try_from(name.to_string()).unwrap()
}

fn as_user(name: &str) -> Call {
    Call { actor: Actor::User(id(name)), admin: false, credential: Credential::User, ..Call::default() }
}

impl World {
    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        Self::with(store, true)
    }

    fn with(store: Arc<dyn Store>, enabled: bool) -> Self {
        let surges = Arc::new(Forced::default());
        let abuse = AbuseRules { quarantine: enabled, fresh_account: DAY, ..AbuseRules::default() };
        let rules = Rules { limits: Limits::NONE, audit_interval: None, abuse, ..Rules::default() };
        let service = Service::new(Arc::clone(&store), rules).with_surges(Arc::clone(&surges) as _);
        Self { store, service: Arc::new(service), surges }
    }

    async fn put(&self, name: &str, private: bool) {
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        self.service.graph.put_user(&Call::default(), id(name), patch).await.unwrap();
    }

    fn surge(&self, target: &str, is_open: bool) {
        let key = KeyHasher::new(&self.store.identity().secret).key(&id(target));
        let mut targets = self.surges.0.lock().unwrap();
        if is_open {
            targets.insert(key)
        } else {
            targets.remove(&key)
        };
    }

    async fn follow(&self, call: &Call, follower: &str, target: &str) -> State {
        self.service.graph.follow(call, &id(follower), &id(target), None).await.unwrap().edge.state
    }

    async fn counts(&self, name: &str) -> (u64, u64, Option<u64>) {
        let counts = self.service.graph.get_user(&Call::default(), &id(name)).await.unwrap().counts;
        (counts.followers, counts.following, counts.requests)
    }

    /// Lets all jobs run to their end; the edges of the newest.
    async fn work(&self) -> u64 {
        while self.service.jobs.work().await.unwrap() {}
        let jobs = self.service.jobs.list(&Call::default(), None, Limit::DEFAULT).await.unwrap().rows;
        assert!(jobs.iter().all(|job| job.state == JobState::Done), "{jobs:?}");
        jobs[0].edges
    }

    async fn parked(&self, target: &str) -> Vec<String> {
        let (call, target) = (Call::default(), id(target));
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.service.graph.parked_followers(&call, &target, cursor.as_deref(), Limit::DEFAULT);
            let page = page.await.unwrap();
            found.extend(page.rows.iter().map(|row| row.id.as_str().to_owned()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return found;
            }
        }
    }
}

pub(crate) fn memory_store() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

#[tokio::test]
async fn only_fresh_accounts_on_a_surging_target_are_parked() {
    let world = World::over(memory_store());
    for name in ["star", "calm", "fresh", "second", "third"] {
        world.put(name, false).await;
    }
    let old = UserPatch { registered_at: Some(Millis::from_since_2000(1)), ..UserPatch::default() };
    world.service.graph.put_user(&Call::default(), id("old"), old).await.unwrap();
    world.surge("star", true);
    let service = Call::default();
    assert_eq!(world.follow(&service, "old", "star").await, State::Active);
    assert_eq!(world.follow(&service, "fresh", "calm").await, State::Active);
    assert_eq!(world.follow(&service, "fresh", "star").await, State::Parked, "a service sees it as it is");
    assert_eq!(world.follow(&as_user("fresh"), "fresh", "star").await, State::Pending, "its follower sees a request");
    assert_eq!(world.follow(&as_user("second"), "second", "star").await, State::Pending);
    let admin = Call { admin: true, ..as_user("third") };
    assert_eq!(world.follow(&admin, "third", "star").await, State::Active, "an admin's own follow is not parked");
    assert_eq!(world.counts("star").await, (2, 0, Some(0)));
    assert_eq!(world.counts("fresh").await, (0, 1, Some(0)));
    assert_eq!(world.parked("star").await, ["second", "fresh"]);
    // What was parked stays so when the surge is over; who comes later is not.
    world.surge("star", false);
    assert_eq!(world.follow(&service, "fresh", "star").await, State::Parked);
    assert_eq!(world.follow(&service, "calm", "star").await, State::Active);
    let off = World::with(memory_store(), false);
    off.put("star", false).await;
    off.put("fresh", false).await;
    off.surge("star", true);
    assert_eq!(off.follow(&service, "fresh", "star").await, State::Active, "the setting is off");
}

#[tokio::test]
async fn every_way_in_parks() {
    let world = World::over(memory_store());
    for name in ["star", "a", "b", "c"] {
        world.put(name, false).await;
    }
    world.surge("star", true);
    let follow = |name: &str| BatchOperation::Follow { follower: id(name), target: id("star"), quiet: None };
    let batch = world.service.graph.batch(&Call::default(), vec![follow("a"), follow("b")]).await.unwrap();
    for result in batch.results {
        let BatchDone::Followed(done) = result.unwrap() else { panic!("a follow") };
        assert_eq!((done.edge.state, done.created), (State::Parked, true));
    }
    let pipelined = world.service.graph.pipeline(&as_user("c"), vec![follow("c"), follow("c")]).await;
    let edges: Vec<_> = pipelined.results.into_iter().map(|result| result.unwrap()).collect();
    assert_eq!(edges[0].edge.map(|edge| edge.state), Some(State::Pending));
    assert!(edges[0].created && !edges[0].listed && !edges[1].changed);
    assert_eq!(world.parked("star").await, ["c", "b", "a"]);
}

#[tokio::test]
async fn a_parked_follow_is_for_its_follower_and_for_services() {
    let world = World::over(memory_store());
    for name in ["star", "fan", "other"] {
        world.put(name, false).await;
    }
    world.surge("star", true);
    world.follow(&as_user("fan"), "fan", "star").await;
    let graph = &world.service.graph;
    let edge = async |call: &Call| graph.get_follow(call, &id("fan"), &id("star")).await.map(|done| done.edge.state);
    assert_eq!(edge(&Call::default()).await.unwrap(), State::Parked);
    assert_eq!(edge(&as_user("fan")).await.unwrap(), State::Pending);
    for stranger in ["star", "other"] {
        assert_eq!(edge(&as_user(stranger)).await.unwrap_err().code(), Code::NotFound);
    }
    let requested = async |viewer: Call, of: &str, other: &str| {
        graph.relationships(&viewer, &id(of), &[id(other)]).await.unwrap()[0].requested
    };
    assert!(requested(as_user("fan"), "fan", "star").await);
    assert!(requested(Call::default(), "fan", "star").await);
    for viewer in ["star", "other"] {
        assert!(!requested(as_user(viewer), "fan", "star").await, "{viewer}");
    }
    assert!(!graph.is_following(&Call::default(), &id("fan"), &id("star")).await.unwrap().following);
    let requests = graph.follow_requests(&Call::default(), &id("star"), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((requests.rows.len(), requests.total), (0, Some(0)));
    let told =
        world.service.notifications.notifications(&as_user("star"), &id("star"), None, Limit::DEFAULT).await.unwrap();
    assert!(told.rows.is_empty() && told.unseen == 0);
    // The target cannot answer it, and does not learn of it by trying.
    for error in [
        graph.accept(&as_user("star"), &id("star"), &id("fan")).await.map(drop),
        graph.reject(&as_user("star"), &id("star"), &id("fan")).await.map(drop),
    ] {
        assert_eq!(error.unwrap_err().code(), Code::NotFound);
    }
    let refused = graph.parked_followers(&as_user("star"), &id("star"), None, Limit::DEFAULT).await;
    assert_eq!(refused.unwrap_err().code(), Code::Forbidden);
    let refused = world.service.jobs.release_parked(&as_user("star"), &id("star"), true).await;
    assert_eq!(refused.unwrap_err().code(), Code::Forbidden);
    let removed = graph.remove_follower(&as_user("star"), &id("star"), &id("fan")).await.unwrap();
    assert!(!removed.changed);
    assert_eq!(edge(&Call::default()).await.unwrap_err().code(), Code::NotFound);
    let history = graph.history(&as_user("fan"), &id("fan"), None, Limit::DEFAULT).await.unwrap().rows;
    assert_eq!(history.iter().map(|row| row.how).collect::<Vec<_>>(), [Ending::Rejected]);
}

/// Waits for lists of stores that settle.
async fn settled(holds: impl AsyncFn() -> bool) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A wave onto a public and a private account: one is accepted, then the rest dropped.
pub(crate) async fn a_wave_is_accepted_or_dropped(store: Arc<dyn Store>, wave: usize) {
    let world = World::over(store);
    for (target, private) in [("public", false), ("private", true)] {
        world.put(target, private).await;
        world.surge(target, true);
        let names: Vec<String> = (0..wave).map(|number| format!("{target}-{number}")).collect();
        for name in &names {
            world.put(name, false).await;
            assert_eq!(world.follow(&Call::default(), name, target).await, State::Parked);
        }
        let star = id(target);
        settled(async || world.parked(target).await.len() == wave).await;
        let mut parked = world.parked(target).await;
        // Homes that settle have clocks of their own.
        if world.store.guarantees().derived == Derived::Settling {
            parked.sort_by_key(|name| names.iter().rev().position(|known| known == name));
        }
        assert!(parked.into_iter().eq(names.iter().rev().cloned()), "newest first");
        world.service.graph.unfollow(&Call::default(), &id(&names[0]), &star).await.unwrap();
        world.service.jobs.release_parked(&Call::default(), &star, true).await.unwrap();
        assert_eq!(world.work().await, wave as u64 - 1);
        let late = format!("{target}-late");
        world.put(&late, false).await;
        world.follow(&Call::default(), &late, target).await;
        settled(async || world.parked(target).await == [late.as_str()]).await;
        assert_eq!(world.parked(target).await, [late.as_str()]);
        let expected = if private { (0, Some(wave as u64 - 1)) } else { (wave as u64 - 1, Some(0)) };
        let counts = async || {
            let (followers, _, requests) = world.counts(target).await;
            (followers, requests)
        };
        settled(async || counts().await == expected).await;
        assert_eq!(counts().await, expected);
        world.service.jobs.release_parked(&Call::default(), &star, false).await.unwrap();
        assert_eq!(world.work().await, 1);
        assert_eq!(
            world.follow(&as_user(&names[1]), &names[1], target).await,
            if private { State::Pending } else { State::Active }
        );
        // Nothing is left: both jobs end at once.
        for accept in [true, false] {
            world.service.jobs.release_parked(&Call::default(), &star, accept).await.unwrap();
            assert_eq!(world.work().await, 0);
        }
        let told =
            world.service.notifications.notifications(&as_user(target), &star, None, Limit::DEFAULT).await.unwrap();
        assert_eq!(told.rows.len(), 1, "who was let in is told of once");
        assert_eq!(told.rows[0].count, (wave as u64 - 1).min(GROUP_ROWS_MAX as u64));
    }
    assert!(world.store.verify().await.unwrap().is_clean());
}

#[tokio::test]
async fn a_wave_in_memory() {
    a_wave_is_accepted_or_dropped(memory_store(), 2_500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wave_in_homes_that_settle() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store = partitioned::Store::new(identity, Arc::new(SystemClock), 16);
    a_wave_is_accepted_or_dropped(Arc::new(store), 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wave_on_an_embedded_store() {
    let disk = Arc::new(CrashDisk::new());
    let options = embedded::Options::default();
    let store = embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap();
    a_wave_is_accepted_or_dropped(Arc::new(store), 1_200).await;
}
