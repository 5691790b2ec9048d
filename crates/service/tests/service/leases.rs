//! Leases over a store that several servers share: one does the jobs, another takes over from one that is silent, and one
//! that wakes up writes nothing. Where one process has the store, nothing of this is written or asked.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{
    Clock as _, Code, Event, EventBody, EventPosition, Key, ManualClock, Millis, Operation, Outcome, Overwrite, Result,
    Secret, Sequence, State, UserId, UserPatch, Write,
};
use entourage_service::{
    Call, Duty, JobState, Limit, Limits, Presence, Roles, Rules, ServerInfo, ServersView, Service, Task,
};
use entourage_store::{Guarantees, Identity, Server, Store, StoreExt as _, Writers};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};
use tokio::sync::Semaphore;

const STAR: Key = Key(1_000_000);
const START: Millis = Millis::from_since_2000(800_000_000_000);
/// More than two chunks.
const PEOPLE: i64 = 2_500;
/// Longer than a server may be silent.
const SILENCE_MILLIS: u64 = 11_000;

/// Lets a store in memory look like one that several servers share, each with this value of its own: heartbeats are those of
/// all, and a server can be held before one of its commits.
pub(crate) struct Sharing {
    beats: Arc<Beats>,
    writers: Writers,
    commits: AtomicUsize,
    /// The commit before which it is paused; none at first.
    pauses_before: AtomicUsize,
    paused: Semaphore,
    go: Semaphore,
}

pub(crate) struct Beats {
    clock: Arc<ManualClock>,
    heard: Mutex<BTreeMap<u64, (Box<str>, Millis)>>,
    count: AtomicU64,
    disconnected: Mutex<Vec<u64>>,
}

impl Beats {
    pub(crate) fn new(clock: &Arc<ManualClock>) -> Arc<Self> {
        let (heard, count, disconnected) = Default::default();
        Arc::new(Self { clock: Arc::clone(clock), heard, count, disconnected })
    }
}

impl Sharing {
    pub(crate) fn over(store: &Arc<dyn Store>, beats: &Arc<Beats>, writers: Writers) -> Arc<Hooked<Self>> {
        let hooks = Self {
            beats: Arc::clone(beats),
            writers,
            commits: AtomicUsize::new(0),
            pauses_before: AtomicUsize::new(usize::MAX),
            paused: Semaphore::new(0),
            go: Semaphore::new(0),
        };
        Arc::new(Hooked::new(Arc::clone(store), hooks))
    }
}

#[async_trait]
impl Hooks for Sharing {
    fn guarantees(&self, inner: &dyn Store) -> Guarantees {
        Guarantees { writers: self.writers, ..inner.guarantees() }
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        if self.commits.fetch_add(1, Ordering::SeqCst) == self.pauses_before.load(Ordering::SeqCst) {
            self.paused.add_permits(1);
            self.go.acquire().await.unwrap().forget();
        }
        inner.commit(write).await
    }

    async fn heartbeat(&self, _inner: &dyn Store, id: u64, about: &str) -> Result<Vec<Server>> {
        self.beats.count.fetch_add(1, Ordering::SeqCst);
        let now = self.beats.clock.now();
        let mut heard = self.beats.heard.lock().unwrap();
        heard.insert(id, (about.into(), now));
        let server = |(&id, (about, at)): (&u64, &(Box<str>, Millis))| Server {
            id,
            about: about.clone(),
            number: None,
            silent_for: Duration::from_millis(now.since_2000().saturating_sub(at.since_2000())),
            is_connected: true,
        };
        Ok(heard.iter().map(server).collect())
    }

    async fn disconnect(&self, _inner: &dyn Store, id: u64) -> Result<()> {
        self.beats.disconnected.lock().unwrap().push(id);
        Ok(())
    }
}

struct World {
    clock: Arc<ManualClock>,
    beats: Arc<Beats>,
    store: Arc<dyn Store>,
}

struct Member {
    hooked: Arc<Hooked<Sharing>>,
    service: Arc<Service>,
}

impl World {
    /// A private star whom everybody asks.
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&clock) as _));
        let put = |key: Key, private| {
            let patch = UserPatch { private: Some(private), ..UserPatch::default() };
            Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Keep }
        };
        let ask =
            |follower| Operation::Follow { follower: Key(follower), target: STAR, quiet: None, cap: None, park: false };
        let people = (0..PEOPLE).map(|key| put(Key(key), false)).chain((0..PEOPLE).map(ask));
        let writes = [put(STAR, true)].into_iter().chain(people).map(Write::from).collect();
        for outcome in store.commit_all(writes).await {
            outcome.unwrap();
        }
        Self { beats: Beats::new(&clock), clock, store }
    }

    fn member_of(&self, writers: Writers, roles: &str) -> Member {
        let hooked = Sharing::over(&self.store, &self.beats, writers);
        let rules = Rules { following_max: None, limits: Limits::NONE, ..Rules::default() };
        let info = ServerInfo { name: roles.to_owned(), roles: Roles::parse(roles).unwrap(), ..ServerInfo::default() };
        let service = Service::new(Arc::clone(&hooked) as _, rules).with_clock(Arc::clone(&self.clock) as _);
        Member { hooked, service: Arc::new(service.with_info(info)) }
    }

    fn member(&self) -> Member {
        self.member_of(Writers::Many, "http,resp,fanout,jobs")
    }

    fn pass(&self, millis: u64) {
        self.clock.set(self.clock.now().plus(millis));
    }

    /// How often each request was accepted, by the events.
    async fn accepted(&self) -> BTreeMap<Key, usize> {
        let mut accepted = BTreeMap::new();
        let mut after = EventPosition::at(Sequence::ZERO);
        loop {
            let events = self.store.events(after, 1_000).await.unwrap();
            let Some(last) = events.last() else { return accepted };
            after = EventPosition::at(last.sequence);
            for Event { body, .. } in &events {
                if let EventBody::Edge { follower, before: Some(State::Pending), after: Some(State::Active), .. } = body
                {
                    *accepted.entry(*follower).or_default() += 1;
                }
            }
        }
    }

    async fn assert_whole(&self, member: &Member) {
        let jobs = member.service.jobs.list(&Call::default(), None, Limit::DEFAULT).await.unwrap().rows;
        let [job] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((job.state, job.edges), (JobState::Done, PEOPLE as u64), "{job:?}");
        let accepted = self.accepted().await;
        assert_eq!(accepted.len(), PEOPLE as usize);
        assert!(accepted.values().all(|times| *times == 1), "a request was accepted twice");
        assert_eq!(self.store.get_counts(STAR).await.unwrap().unwrap().followers, PEOPLE as u64);
        assert!(self.store.verify().await.unwrap().is_clean());
    }
}

async fn seen_by(member: &Member) -> ServersView {
    member.service.leases.servers(&Call::default()).await.unwrap()
}

/// The epoch of a lease, and whether this one has it.
async fn held(member: &Member, duty: Duty) -> (u64, bool) {
    let seen = seen_by(member).await;
    let own = seen.servers.iter().find(|server| server.is_this).unwrap().id.clone();
    let lease = seen.leases.into_iter().find(|lease| lease.duty == duty).unwrap();
    (lease.epoch, lease.holder == Some(own))
}

#[tokio::test]
async fn one_server_does_the_jobs_and_another_takes_over_when_it_is_silent() {
    let world = World::new().await;
    let [one, other] = [world.member(), world.member()];
    one.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
    assert!(one.service.jobs.work().await.unwrap());
    assert!(!other.service.jobs.work().await.unwrap(), "the first one has it");
    assert_eq!((held(&one, Duty::Jobs).await, held(&other, Duty::Jobs).await), ((1, true), (1, false)));
    // Both are heard of: nothing changes, however long it takes.
    for _ in 0..30 {
        world.pass(1_000);
        let now = (held(&other, Duty::Jobs).await, held(&one, Duty::Jobs).await);
        assert_eq!(now, ((1, false), (1, true)));
        assert!(!other.service.jobs.work().await.unwrap());
    }
    world.pass(SILENCE_MILLIS);
    let silent = seen_by(&other).await.servers.into_iter().find(|server| !server.is_this).unwrap();
    assert_eq!((silent.presence, silent.silent_for.as_millis() as u64), (Presence::Silent, SILENCE_MILLIS));
    while other.service.jobs.work().await.unwrap() {}
    assert_eq!(held(&other, Duty::Jobs).await, (2, true));
    let gone = u64::from_str_radix(&silent.id, 16).unwrap();
    assert_eq!(*world.beats.disconnected.lock().unwrap(), [gone], "its open transactions were ended first");
    assert!(!one.service.jobs.work().await.unwrap(), "it has heard of the other one");
    world.assert_whole(&other).await;
}

/// The pause comes before any commit of the chunk, and after the takeover it wakes up.
#[tokio::test]
async fn a_holder_that_was_paused_writes_nothing_when_it_wakes() {
    for pauses_after in [0, 1, 700, 1_500] {
        let world = World::new().await;
        let [one, other] = [world.member(), world.member()];
        one.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
        // Takes the lease, and looks through the list.
        assert!(one.service.jobs.work().await.unwrap());
        let hooks = &one.hooked.hooks;
        hooks.pauses_before.store(hooks.commits.load(Ordering::SeqCst) + pauses_after, Ordering::SeqCst);
        let working = Arc::clone(&one.service);
        let working = tokio::spawn(async move { while working.jobs.work().await.unwrap() {} });
        hooks.paused.acquire().await.unwrap().forget();
        let written = world.accepted().await.len();
        world.pass(SILENCE_MILLIS);
        assert!(other.service.jobs.work().await.unwrap());
        let after_takeover = world.store.last_event(0).await.unwrap();
        hooks.go.add_permits(1);
        working.await.unwrap();
        assert_eq!(world.store.last_event(0).await.unwrap(), after_takeover, "paused after {pauses_after}");
        assert!(world.accepted().await.len() > written);
        while other.service.jobs.work().await.unwrap() {}
        world.assert_whole(&other).await;
        assert_eq!(held(&one, Duty::Jobs).await, (2, false));
    }
}

/// A job that is given to both at once, by clocks that say of each that the other one is silent, over and over.
#[tokio::test]
async fn whoever_takes_over_and_however_often_the_count_is_exact() {
    let world = World::new().await;
    let [one, other] = [world.member(), world.member()];
    one.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
    for round in 0_u64.. {
        let member = if round.is_multiple_of(2) { &one } else { &other };
        world.pass(SILENCE_MILLIS);
        if !member.service.jobs.work().await.unwrap() && round > 2 {
            break;
        }
        assert_eq!(held(member, Duty::Jobs).await, (round + 1, true));
    }
    world.assert_whole(&one).await;
}

#[tokio::test]
async fn a_server_without_the_role_takes_no_lease() {
    let world = World::new().await;
    let [front, worker] = ["http,resp,fanout", "jobs"].map(|roles| world.member_of(Writers::Many, roles));
    front.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
    for _ in 0..3 {
        world.pass(SILENCE_MILLIS);
        assert!(!front.service.jobs.work().await.unwrap());
        let asked = front.service.scheduler.run_to_end(&Call::default(), Task::Retention).await.unwrap();
        assert_eq!((asked.is_running, asked.result), (false, None));
    }
    assert!(seen_by(&front).await.leases.iter().all(|lease| lease.holder.is_none()));
    while worker.service.jobs.work().await.unwrap() {}
    world.assert_whole(&front).await;
    let seen = seen_by(&front).await;
    let roles: Vec<_> = seen.servers.iter().map(|server| (server.is_this, server.roles.join(","))).collect();
    assert!(roles.contains(&(true, "http,resp,fanout".into())) && roles.contains(&(false, "jobs".into())), "{roles:?}");
    let end_user = Call { admin: false, ..Call::default() };
    assert_eq!(front.service.leases.servers(&end_user).await.unwrap_err().code(), Code::Forbidden);
}

#[tokio::test]
async fn where_one_process_has_the_store_leases_cost_nothing() {
    let world = World::new().await;
    let only = world.member_of(Writers::Sole, "http,resp,fanout,jobs");
    for _ in 0..10 {
        world.pass(SILENCE_MILLIS);
        assert!(!only.service.jobs.work().await.unwrap());
    }
    let commits = || only.hooked.hooks.commits.load(Ordering::SeqCst);
    assert_eq!(
        (commits(), world.beats.count.load(Ordering::SeqCst)),
        (0, 0),
        "nothing is written where nothing is due"
    );
    only.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
    while only.service.jobs.work().await.unwrap() {}
    world.assert_whole(&only).await;
    // The job and its requests; a state for each of four steps; the tally at its end.
    assert!(commits() <= PEOPLE as usize + 8, "{} commits", commits());
    let seen = seen_by(&only).await;
    assert_eq!(seen.servers.len(), 1);
    assert!(seen.leases.iter().all(|lease| lease.epoch == 0 && lease.holder.as_ref() == Some(&seen.servers[0].id)));
    assert_eq!(world.beats.count.load(Ordering::SeqCst), 0);
}

/// Idle, a server says that it is alive, and writes nothing else.
#[tokio::test(start_paused = true)]
async fn an_idle_holder_writes_nothing_but_heartbeats() {
    let world = World::new().await;
    let member = world.member();
    let running = Arc::clone(&member.service);
    let running = tokio::spawn(async move { running.run().await });
    assert!(!member.service.jobs.work().await.unwrap());
    // The scheduler takes its leases as well.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let commits = member.hooked.hooks.commits.load(Ordering::SeqCst);
    let before = world.beats.count.load(Ordering::SeqCst);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.pass(1_000);
        assert!(!member.service.jobs.work().await.unwrap());
    }
    assert_eq!(member.hooked.hooks.commits.load(Ordering::SeqCst), commits);
    let beats = world.beats.count.load(Ordering::SeqCst) - before;
    assert!((18..=22).contains(&beats), "{beats} heartbeats in 20 s");
    member.service.end_streams();
    running.await.unwrap();
}

/// One of them sweeps, and publishes what it finds; the others show that, for a minute at most.
#[tokio::test]
async fn one_server_makes_the_leaderboard_of_all() {
    let world = World::new().await;
    let [one, other] = [world.member(), world.member()];
    let put = |key| Operation::PutUser {
        key: Key(key),
        id: UserId::from(key),
        patch: UserPatch::default(),
        overwrite: Overwrite::Keep,
    };
    let follow = |follower, target| Operation::Follow {
        follower: Key(follower),
        target: Key(target),
        quiet: None,
        cap: None,
        park: false,
    };
    let commit = async |operation: Operation| world.store.commit(operation.into()).await.unwrap();
    commit(put(2_000_000)).await;
    commit(follow(1, 2_000_000)).await;
    let shown = async |member: &Member| {
        seen_by(member).await;
        let page = member.service.graph.leaderboard(&Call::default(), None, Limit::DEFAULT).await.unwrap();
        page.rows.iter().find(|row| row.id == UserId::from(2_000_000)).map(|row| row.followers)
    };
    seen_by(&other).await;
    assert_eq!(shown(&one).await, Some(1));
    assert_eq!(held(&other, Duty::Leaderboard).await, (1, false));
    // Another process follows: neither has heard of it.
    commit(follow(2, 2_000_000)).await;
    assert_eq!((shown(&one).await, shown(&other).await), (Some(1), Some(1)));
    world.pass(31_000);
    seen_by(&one).await;
    assert_eq!(shown(&other).await, Some(1), "what is published is good for a minute");
    // The one that has the lease does not sweep before its own board is old; it is asked again when it is.
    world.pass(31_000);
    seen_by(&one).await;
    assert_eq!(shown(&other).await, Some(2), "what is older is not shown");
    assert_eq!(held(&other, Duty::Leaderboard).await, (1, false));
}
