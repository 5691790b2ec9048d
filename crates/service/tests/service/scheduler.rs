//! The scheduler: what is due runs, what ran lately does not, one server runs it, and a crash in the middle is no end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_memory::partitioned;
use entourage_model::{Code, Error, Key, ManualClock, Millis, Result, Secret, Space, UserId, UserPatch};
use entourage_service::{Actor, Call, Clusters, Limits, Rules, Scheduled, Service, Signal, Task, TaskResult};
use entourage_store::{
    Identity, Store, StoreExt as _, Writers,
    disk::Disk as _,
    layers::cached::{self, Surroundings},
};
use entourage_testkit::crash_disk::CrashDisk;
use tokio::sync::Semaphore;

use crate::leases::{Beats, Sharing};

pub(crate) const START: Millis = Millis::from_since_2000(800_000_000_000);
const EVERY: Duration = Duration::from_secs(60 * 60);
const MINUTE: u64 = 60_000;

/// Work that is counted, and goes on when it is told to.
struct Counted {
    runs: AtomicUsize,
    begun: Semaphore,
    go: Semaphore,
    fails: bool,
}

impl Counted {
    fn new(permits: usize, fails: bool) -> Arc<Self> {
        let (begun, go) = (Semaphore::new(0), Semaphore::new(permits));
        Arc::new(Self { runs: AtomicUsize::new(0), begun, go, fails })
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Clusters for Counted {
    fn every(&self) -> Duration {
        EVERY
    }

    async fn find(&self) -> Result<String> {
        self.begun.add_permits(1);
        self.go.acquire().await.map_err(|_| Error::internal("the test is over"))?.forget();
        let runs = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fails { Err(Error::internal("no luck")) } else { Ok(format!("run {runs}")) }
    }
}

fn service(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, work: &Arc<Counted>) -> Arc<Service> {
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service = Service::new(Arc::clone(store), rules).with_clock(Arc::clone(clock) as _);
    Arc::new(service.with_clusters(Arc::clone(work) as _))
}

fn embedded_at(disk: &CrashDisk, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let options = embedded::Options::default();
    let store = embedded::Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::clone(clock) as _);
    Arc::new(store.unwrap())
}

async fn shown(service: &Service) -> Scheduled {
    let tasks = service.scheduler.list(&Call::default()).await.unwrap();
    tasks.into_iter().find(|task| task.task == Task::CoFollowClusters).unwrap()
}

/// Lets a running server look, again and again, until this holds.
async fn until(holds: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came to that");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_runs_and_what_ran_lately_does_not() {
    let clock = Arc::new(ManualClock::new(START));
    // Without threads of its own, so that time passes only while nothing is under way.
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&clock) as _));
    let work = Counted::new(100, false);
    let first = service(&store, &clock, &work);
    let running = Arc::clone(&first);
    let running = tokio::spawn(async move { running.run().await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(work.runs(), 0, "not everything at once when a server starts");
    let new = shown(&first).await;
    assert_eq!((new.last_started, new.result, new.next), (None, None, START.plus(MINUTE)));
    clock.set(START.plus(MINUTE));
    until(async || work.runs() == 1).await;
    until(async || shown(&first).await.result.is_some()).await;
    let done = shown(&first).await;
    assert_eq!((done.result, done.detail.as_deref()), (Some(TaskResult::Done), Some("run 1")));
    assert_eq!((done.last_started, done.next), (Some(START.plus(MINUTE)), START.plus(61 * MINUTE)));
    first.end_streams();
    running.await.unwrap();
    // Another server, on the same store: the task ran lately.
    let second = service(&store, &clock, &work);
    let running = Arc::clone(&second);
    let running = tokio::spawn(async move { running.run().await });
    clock.set(START.plus(30 * MINUTE));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(work.runs(), 1);
    // Asked for it runs at once, and an hour later again.
    second.scheduler.run_now(&Call::default(), Task::CoFollowClusters).await.unwrap();
    until(async || work.runs() == 2).await;
    clock.set(START.plus(89 * MINUTE));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(work.runs(), 2);
    clock.set(START.plus(90 * MINUTE));
    until(async || work.runs() == 3).await;
    second.end_streams();
    running.await.unwrap();
}

#[tokio::test]
async fn only_admins_run_tasks_and_a_failure_is_shown() {
    let (disk, clock) = (CrashDisk::new(), Arc::new(ManualClock::new(START)));
    let store = embedded_at(&disk, &clock);
    let service = service(&store, &clock, &Counted::new(9, true));
    let user = Call { actor: Actor::User("1".try_into().unwrap()), admin: false, ..Call::default() };
    assert_eq!(service.scheduler.list(&user).await.unwrap_err().code(), Code::Forbidden);
    assert_eq!(service.scheduler.run_now(&user, Task::Retention).await.unwrap_err().code(), Code::Forbidden);
    let off = service.scheduler.run_now(&Call::default(), Task::CountAudit).await;
    assert_eq!(off.unwrap_err().code(), Code::NotFound, "it is off by its setting");
    let failed = service.scheduler.run_to_end(&Call::default(), Task::CoFollowClusters).await.unwrap();
    assert_eq!(failed.result, Some(TaskResult::Failed));
    assert!(failed.detail.unwrap().contains("no luck"));
    let done = service.scheduler.run_to_end(&Call::default(), Task::SignalSnapshot).await.unwrap();
    assert_eq!(done.result, Some(TaskResult::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_running_when_the_power_went_runs_again() {
    let (disk, clock) = (CrashDisk::new(), Arc::new(ManualClock::new(START)));
    let store = embedded_at(&disk, &clock);
    let work = Counted::new(0, false);
    let killed = service(&store, &clock, &work);
    let running = Arc::clone(&killed);
    let running =
        tokio::spawn(async move { running.scheduler.run_to_end(&Call::default(), Task::CoFollowClusters).await });
    work.begun.acquire().await.unwrap().forget();
    assert!(shown(&killed).await.is_running);
    // The disk as it is at this moment.
    let disk = disk.deep_clone();
    running.abort();
    let store = embedded_at(&disk, &clock);
    let work = Counted::new(9, false);
    let next = service(&store, &clock, &work);
    assert!(shown(&next).await.is_running, "as far as anybody knows");
    let running = Arc::clone(&next);
    let running = tokio::spawn(async move { running.run().await });
    // It has begun before the time comes.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(work.runs(), 0);
    clock.set(START.plus(2 * MINUTE));
    next.scheduler.run_now(&Call::default(), Task::Retention).await.unwrap();
    until(async || work.runs() == 1).await;
    until(async || shown(&next).await.result == Some(TaskResult::Done)).await;
    next.end_streams();
    running.await.unwrap();
    assert!(store.verify().await.unwrap().is_clean());
}

/// Two servers of one store, which is shared: one of them runs a task, and takes over from one that is gone.
/// `silence` lets so much time pass that the first one counts as silent.
pub(crate) async fn one_of_two_servers_runs_it(
    stores: [Arc<dyn Store>; 2],
    clock: Arc<ManualClock>,
    silence: impl AsyncFnOnce(),
) {
    let work = [Counted::new(0, false), Counted::new(1_000, false)];
    let [one, other] = [0, 1].map(|index| service(&stores[index], &clock, &work[index]));
    let running = Arc::clone(&one);
    let running =
        tokio::spawn(async move { running.scheduler.run_to_end(&Call::default(), Task::CoFollowClusters).await });
    work[0].begun.acquire().await.unwrap().forget();
    let asked = other.scheduler.run_to_end(&Call::default(), Task::CoFollowClusters).await.unwrap();
    assert!(asked.is_running, "the first one has it");
    assert_eq!((work[0].runs(), work[1].runs()), (0, 0));
    // The first is silent for longer than it may be: the other one takes over, and what the first says is too late.
    clock.set(START.plus(2 * MINUTE));
    silence().await;
    let taken = other.scheduler.run_to_end(&Call::default(), Task::CoFollowClusters).await.unwrap();
    assert_eq!((taken.is_running, taken.detail.as_deref()), (false, Some("run 1")));
    assert_eq!((work[0].runs(), work[1].runs()), (0, 1));
    work[0].go.add_permits(1);
    running.await.unwrap().unwrap();
    let left = shown(&other).await;
    assert_eq!(left.last_started, Some(START.plus(2 * MINUTE)), "{left:?}");
    // Both at once: each run is by one of them.
    work[0].go.add_permits(1_000);
    let before = work[0].runs() + work[1].runs();
    for round in 0..20 {
        clock.set(START.plus((3 + round) * MINUTE));
        let call = Call::default();
        let (a, b) = tokio::join!(
            one.scheduler.run_to_end(&call, Task::CoFollowClusters),
            other.scheduler.run_to_end(&call, Task::CoFollowClusters),
        );
        assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    }
    let runs = work[0].runs() + work[1].runs() - before;
    assert!((20..=40).contains(&runs), "each asked once, and no run was by both: {runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_runs_it_in_homes_that_settle() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let clock = Arc::new(ManualClock::new(START));
    let store: Arc<dyn Store> = Arc::new(partitioned::Store::new(identity, Arc::clone(&clock) as _, 4));
    let beats = Beats::new(&clock);
    let stores = [0, 1].map(|_| Sharing::over(&store, &beats, Writers::Many) as Arc<dyn Store>);
    one_of_two_servers_runs_it(stores, clock, async || {}).await;
}

async fn task(service: &Service, task: Task) -> Scheduled {
    let tasks = service.scheduler.list(&Call::default()).await.unwrap();
    tasks.into_iter().find(|one| one.task == task).unwrap_or_else(|| panic!("{task:?} is not scheduled"))
}

/// Users 0 to 3, and one view of 1 by 0.
async fn viewed_once(service: &Service) {
    for number in 0..4_i64 {
        service.graph.put_user(&Call::default(), UserId::from(number), UserPatch::default()).await.unwrap();
    }
    view(service, 0, 1).await;
}

async fn view(service: &Service, viewer: i64, viewed: i64) {
    let signal = Signal { viewer: UserId::from(viewer), viewed: UserId::from(viewed), count: 1, at: None };
    assert_eq!(service.signals.signal(&Call::default(), &[signal]).await.unwrap().accepted, 1);
}

/// The clock stands still: nothing is due by its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_followed_by_a_snapshot_of_signals() {
    let (disk, clock) = (CrashDisk::new(), Arc::new(ManualClock::new(START)));
    let options = embedded::Options::default();
    let store = embedded::Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::clone(&clock) as _);
    let store = Arc::new(store.unwrap());
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service = Service::new(Arc::clone(&store) as _, rules).with_clock(Arc::clone(&clock) as _);
    let service = Arc::new(service.with_maintenance(Some(Arc::clone(&store) as _)));
    let running = Arc::clone(&service);
    let running = tokio::spawn(async move { running.run().await });
    viewed_once(&service).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(task(&service, Task::SignalSnapshot).await.last_started, None);
    store.checkpoint().await.unwrap();
    until(async || task(&service, Task::SignalSnapshot).await.result == Some(TaskResult::Done)).await;
    assert_eq!(task(&service, Task::SignalSnapshot).await.detail.as_deref(), Some("1 chunks of counters saved"));
    // Where nothing came since, another checkpoint is followed by nothing.
    let before = store.count_records(Space::Schedule, Key::SERVER).await.unwrap();
    store.checkpoint().await.unwrap();
    let last = store.last_events().await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(store.count_records(Space::Schedule, Key::SERVER).await.unwrap(), before);
    assert_eq!(store.last_events().await.unwrap(), last);
    // What was saved is there though the server is gone without a word.
    let next = embedded_at(&disk.deep_clone(), &clock);
    let next = Arc::new(Service::new(next, rules).with_clock(Arc::clone(&clock) as _));
    let second = Arc::clone(&next);
    let second = tokio::spawn(async move { second.run().await });
    until(async || next.signals.counters() == 1).await;
    for (service, running) in [(service, running), (next, second)] {
        service.end_streams();
        running.await.unwrap();
    }
}

/// Each saves what it has in memory, and learns what the other one has saved.
#[tokio::test(flavor = "multi_thread")]
async fn every_server_of_a_shared_store_saves_its_own_signals() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let clock = Arc::new(ManualClock::new(START));
    let store: Arc<dyn Store> = Arc::new(partitioned::Store::new(identity, Arc::clone(&clock) as _, 4));
    let [one, other] = [0, 1].map(|_| service(&store, &clock, &Counted::new(9, false)));
    viewed_once(&one).await;
    view(&other, 2, 3).await;
    let call = Call::default();
    for (server, counters) in [(&one, 1), (&other, 2), (&one, 2)] {
        let done = server.scheduler.run_to_end(&call, Task::SignalSnapshot).await.unwrap();
        assert_eq!(done.result, Some(TaskResult::Done));
        assert_eq!(server.signals.counters(), counters);
    }
    // That of the other server is none of this one's.
    clock.set(START.plus(MINUTE));
    one.scheduler.run_to_end(&call, Task::SignalSnapshot).await.unwrap();
    let [first, second] = [task(&one, Task::SignalSnapshot).await, task(&other, Task::SignalSnapshot).await];
    assert_eq!((first.last_started, second.last_started), (Some(START.plus(MINUTE)), Some(START)));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_cache_are_saved_by_the_scheduler() {
    let clock = Arc::new(ManualClock::new(START));
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let inner: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&clock) as _));
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let plain = Service::new(Arc::clone(&inner), rules);
    let off = plain.scheduler.run_now(&Call::default(), Task::CacheSnapshot).await;
    assert_eq!(off.unwrap_err().code(), Code::NotFound, "there is no cache");
    let disk = CrashDisk::new();
    let surroundings = Surroundings { disk: Some(Arc::new(disk.clone())), ..Surroundings::default() };
    let layer = Arc::new(cached::Store::open(inner, cached::Options::default(), surroundings).await);
    let service =
        Service::new(Arc::clone(&layer) as _, rules).with_clock(clock).with_cache(Some(Arc::clone(&layer) as _));
    viewed_once(&service).await;
    let (zero, one) = (UserId::from(0), UserId::from(1));
    service.graph.follow(&Call::default(), &zero, &one, false).await.unwrap();
    assert!(service.graph.is_following(&Call::default(), &zero, &one).await.unwrap().following);
    layer.catch_up().await.unwrap();
    let done = service.scheduler.run_to_end(&Call::default(), Task::CacheSnapshot).await.unwrap();
    assert_eq!((done.result, done.is_running), (Some(TaskResult::Done), false), "{done:?}");
    assert!(done.detail.as_deref().is_some_and(|detail| detail.ends_with(" rows saved")), "{done:?}");
    assert!(disk.list().unwrap().iter().any(|name| name == "cache.snapshot"), "{:?}", disk.list());
}
