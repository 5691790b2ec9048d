//! Damage to one direction of edges is found and set right: by itself after a write, and when somebody asks.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_embedded::{Damage, Store};
use entourage_model::{Code, Key, Kind, List, Operation, Overwrite, UserId, UserPatch};
use entourage_service::{Actor, Call, EdgesHealed, Limits, Rules, Service};
use entourage_store::{Store as _, StoreExt as _, SystemClock, disk::RealDisk};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinHandle;

/// What the rest of the server promises of the healer.
const IN_TIME: Duration = Duration::from_secs(30);
/// Those above the first eight are left to the writers.
const PEOPLE: i64 = 30;
/// More than the healer looks at after a start.
const LATER_WRITES: i64 = 10_100;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("entourage-healer-{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

struct World {
    store: Arc<Store>,
    service: Arc<Service>,
}

impl World {
    fn open(folder: &Folder) -> Self {
        let disk = Arc::new(RealDisk::new(&folder.0).unwrap());
        let options = embedded::Options { checkpoint_entries: 500, ..embedded::Options::default() };
        let store = Arc::new(Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap());
        let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
        let service = Service::new(Arc::clone(&store) as _, rules).with_maintenance(Some(Arc::clone(&store) as _));
        Self { store, service: Arc::new(service) }
    }

    async fn with_people(folder: &Folder) -> Self {
        let world = Self::open(folder);
        world.put_users(0..PEOPLE).await;
        world
    }

    async fn put_users(&self, numbers: std::ops::Range<i64>) {
        let put = |number| {
            let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
            Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep }.into()
        };
        for result in self.store.commit_all(numbers.map(put).collect()).await {
            result.unwrap();
        }
    }

    async fn follow(&self, follower: i64, target: i64) {
        self.service
            .graph
            .follow(&Call::default(), &UserId::from(follower), &UserId::from(target), false)
            .await
            .unwrap();
    }

    fn damage(&self, follower: i64, target: i64, damage: Damage) {
        assert!(self.store.damage(Kind::Follow, Key(follower), Key(target), damage).unwrap());
    }

    async fn unfollow(&self, follower: i64, target: i64) {
        self.service.graph.unfollow(&Call::default(), &UserId::from(follower), &UserId::from(target)).await.unwrap();
    }

    /// One of each: 0 → 1 is missing, 2 → 3 has the other flag, 4 → 5 another place; 6 → 7 is over and still there.
    async fn damage_each(&self) {
        for (follower, target, damage) in [(0, 1, Damage::Missing), (2, 3, Damage::Flag), (4, 5, Damage::Place)] {
            self.unfollow(follower, target).await;
            self.follow(follower, target).await;
            self.damage(follower, target, damage);
        }
        self.follow(6, 7).await;
        let value = self.store.get_edges(Kind::Follow, &[(Key(6), Key(7))]).await.unwrap()[0].unwrap();
        self.unfollow(6, 7).await;
        self.damage(6, 7, Damage::Stray(value));
    }

    /// What the targets' lists should be after `damage_each`.
    async fn is_healed(&self) -> bool {
        for (follower, target) in [(0, 1), (2, 3), (4, 5), (6, 7)] {
            let edge = self.store.get_edges(Kind::Follow, &[(Key(follower), Key(target))]).await.unwrap()[0];
            let page = self.store.scan(List::followers(Key(target)), None, 10).await.unwrap();
            let listed: Vec<_> = page.edges.iter().map(|edge| (edge.follower, edge.value)).collect();
            let expected: Vec<_> = edge.map(|value| (Key(follower), value)).into_iter().collect();
            let counts = self.store.get_counts(Key(target)).await.unwrap().unwrap();
            if listed != expected || (counts.followers, counts.followers_quiet) != (expected.len() as u64, 0) {
                return false;
            }
        }
        true
    }

    async fn wait_until_healed(&self) {
        let began = Instant::now();
        while !self.is_healed().await {
            assert!(began.elapsed() < IN_TIME, "not healed in time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn run(&self) -> JoinHandle<()> {
        let service = Arc::clone(&self.service);
        tokio::spawn(async move { service.run().await })
    }

    async fn assert_clean(&self) {
        let report = self.store.verify().await.unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }

    async fn stop(self, running: JoinHandle<()>) {
        self.service.end_streams();
        running.await.unwrap();
        self.store.close().await.unwrap();
    }
}

fn writers(service: &Arc<Service>, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let write = |seed| {
        let (service, stop) = (Arc::clone(service), Arc::clone(stop));
        tokio::spawn(async move {
            let (mut random, call) = (StdRng::seed_from_u64(seed), Call::default());
            while !stop.load(Ordering::SeqCst) {
                let [a, b] = [(); 2].map(|()| UserId::from(random.random_range(8..PEOPLE)));
                // A refusal is as good as a success here.
                if random.random_ratio(1, 2) {
                    drop(service.graph.follow(&call, &a, &b, random.random_ratio(1, 3)).await);
                } else {
                    drop(service.graph.unfollow(&call, &a, &b).await);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    (0..3).map(write).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn damage_is_healed_within_30_seconds_of_the_write_while_others_write_and_after_restarts() {
    let folder = Folder::new();
    let world = World::with_people(&folder).await;
    let running = world.run();
    let stop = Arc::new(AtomicBool::new(false));
    let writers = writers(&world.service, &stop);
    world.damage_each().await;
    assert!(!world.is_healed().await, "the damage is none");
    world.wait_until_healed().await;
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    world.assert_clean().await;
    world.stop(running).await;

    let world = World::open(&folder);
    world.assert_clean().await;
    let events = world.store.last_event(0).await.unwrap();
    let running = world.run();
    // It looks at all of that and has nothing to change.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.store.last_event(0).await.unwrap(), events);
    world.stop(running).await;

    // The damage is in blocks, and nobody looked at it before the end.
    let world = World::open(&folder);
    world.damage_each().await;
    world.store.close().await.unwrap();
    drop(world);
    let world = World::open(&folder);
    assert!(!world.is_healed().await, "the damage is none");
    let running = world.run();
    world.wait_until_healed().await;
    world.assert_clean().await;
    world.stop(running).await;
    World::open(&folder).assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_an_audit_finds_is_healed_however_old_it_is() {
    let folder = Folder::new();
    let world = World::with_people(&folder).await;
    world.damage_each().await;
    world.put_users(PEOPLE..PEOPLE + LATER_WRITES).await;
    let report = world.service.upkeep.audit(&Call::default()).await.unwrap();
    // 1 and 6 have what cannot be seen from the other end; of 3 and 5 both ends know.
    assert!(report.drifted >= 4, "{report:?}");
    assert!(!world.is_healed().await, "an audit repairs nothing");
    let running = world.run();
    world.wait_until_healed().await;
    world.assert_clean().await;
    world.stop(running).await;
}

#[tokio::test]
async fn an_admin_heals_one_user_or_everybody() {
    let folder = Folder::new();
    let world = World::with_people(&folder).await;
    let (call, user) = (Call::default(), UserId::from(1));
    world.damage_each().await;
    let stranger = Call { actor: Actor::User(UserId::from(1)), admin: false, ..Call::default() };
    assert_eq!(world.service.upkeep.heal(&stranger, None).await.unwrap_err().code(), Code::Forbidden);
    let unknown = UserId::from(PEOPLE);
    assert_eq!(world.service.upkeep.heal(&call, Some(&unknown)).await.unwrap_err().code(), Code::UserNotFound);
    // The one who is followed hears of it through the follower alone.
    let healed = |users, edges, healed| EdgesHealed { users, edges, healed, unclear: 0 };
    assert_eq!(world.service.upkeep.heal(&call, Some(&user)).await.unwrap(), healed(1, 0, 0));
    assert_eq!(world.service.upkeep.heal(&call, Some(&UserId::from(0))).await.unwrap(), healed(1, 1, 1));
    assert_eq!(world.service.upkeep.heal(&call, Some(&UserId::from(7))).await.unwrap(), healed(1, 0, 1));
    assert_eq!(world.service.upkeep.heal(&call, None).await.unwrap(), healed(PEOPLE as u64, 3, 2));
    assert_eq!(world.service.upkeep.heal(&call, None).await.unwrap(), healed(PEOPLE as u64, 3, 0));
    assert!(world.is_healed().await);
    world.assert_clean().await;
}
