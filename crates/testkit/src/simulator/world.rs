//! The parts of a run: clients, relays, appliers, and everything that is checked after each step.

use std::{collections::BTreeSet, sync::Arc};

use entourage_model::{Clock, Key, ManualClock, Millis, Operation, Reply};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    checks::Memory,
    chronicle::Chronicle,
    clients::{Clients, PEOPLE},
    faults::Faults,
    feed::{self, Feed},
    history::History,
    lists,
    replica::Replica,
    run::Coverage,
    schedule::{Dice, Task, Work},
    tokens::Tokens,
};
use entourage_memory::partitioned::{
    bug::{Bug, Planted},
    engine::{Engine, Sizes},
    home::Home,
};

/// So that lists have more than one.
const BUCKET_ROWS: usize = 4;
/// Edges that a job erases in one chunk.
const CHUNK: usize = 3;
const POSTS_MAX: usize = 40;

pub(super) struct World {
    pub(super) rng: StdRng,
    pub(super) engine: Arc<Engine>,
    pub(super) dice: Arc<Dice>,
    pub(super) clocks: Vec<Arc<ManualClock>>,
    pub(super) tasks: Vec<Task>,
    /// Earlier states of homes, to go back to.
    pub(super) snapshots: Vec<Home>,
    /// Homes that went back and are not mended.
    pub(super) unmended: BTreeSet<usize>,
    /// Erased people of whom something may be left.
    pub(super) jobs: BTreeSet<Key>,
    pub(super) step: u64,
    pub(super) faults: Faults,
    pub(super) memory: Memory,
    pub(super) chronicle: Chronicle,
    pub(super) history: History,
    pub(super) tokens: Tokens,
    pub(super) feed: Arc<Mutex<Feed>>,
    pub(super) replica: Replica,
    /// Whether only the simulator's own clients write.
    pub(super) has_clients: bool,
    pub(super) coverage: Coverage,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let homes = [1, 2, 3, 4][rng.random_range(0..4)];
        // Clocks differ by minutes.
        let skewed = |rng: &mut StdRng| Millis::from_since_2000(850_000_000_000 + rng.random_range(0..1_000_000));
        let clocks: Vec<_> = (0..homes).map(|_| Arc::new(ManualClock::new(skewed(&mut rng)))).collect();
        let given = clocks.iter().map(|clock| Arc::clone(clock) as Arc<dyn Clock>).collect();
        let dice = Arc::new(Dice::new(seed));
        let sizes = Sizes { batch: [1, 2, 4, 16][rng.random_range(0..4)], bucket_rows: BUCKET_ROWS };
        let engine = Arc::new(Engine::new(given, Arc::clone(&dice) as _, Planted::new(bug), sizes));
        let faults = Faults::draw(&mut rng);
        dice.doubt_one_in(faults.doubt_one_in);
        Self {
            rng,
            engine,
            dice,
            clocks,
            tasks: Vec::new(),
            snapshots: Vec::new(),
            unmended: BTreeSet::new(),
            jobs: BTreeSet::new(),
            step: 0,
            faults,
            memory: Memory::default(),
            chronicle: Chronicle::new(homes),
            history: History::default(),
            tokens: Tokens::default(),
            feed: Arc::default(),
            replica: Replica::new(homes),
            has_clients: false,
            coverage: Coverage::default(),
        }
    }

    pub(super) fn told(&self, wrong: &str) -> String {
        format!("step {}: {wrong}, with {} homes and {:?}", self.step, self.engine.homes.len(), self.faults)
    }

    pub(super) fn pick_home(&mut self) -> usize {
        self.rng.random_range(0..self.engine.homes.len())
    }

    /// One step, and everything is checked.
    pub(super) fn turn(&mut self, clients: &mut Clients) -> Result<(), String> {
        self.step += 1;
        match self.rng.random_range(0..1000) {
            0..580 => self.step_one(clients)?,
            580..680 => clients.ask(self),
            680..820 => self.spawn(),
            820..830 if self.faults.crashes => self.crash(clients),
            830..845 if self.faults.sleepers => self.put_to_sleep(),
            845..860 => self.arrive(),
            860..870 => self.snapshot(),
            870..873 if self.faults.forks => self.fork(clients),
            873..880 if self.faults.truncation => self.truncate(),
            880..885 if self.faults.retention => self.expire(),
            885..895 if self.faults.republication => self.republish(),
            895..920 => self.pass_time(),
            920..940 => self.replica.read(&self.engine, 3)?,
            940..955 => self.publish(),
            955..980 => self.read_feed()?,
            _ => self.step_one(clients)?,
        }
        self.look()
    }

    /// What must hold at every moment.
    pub(super) fn look(&mut self) -> Result<(), String> {
        let Self { engine, chronicle, memory, tokens, rng, .. } = self;
        chronicle.follow(engine, self.step)?;
        memory.look(engine)?;
        tokens.ask(engine, chronicle, rng)?;
        if self.has_clients {
            lists::read_one(engine, PEOPLE, rng)?;
            let buckets = engine.homes.iter().map(|home| home.lock().inbound.buckets_max()).max();
            self.coverage.buckets_max = self.coverage.buckets_max.max(buckets.unwrap_or_default());
        }
        Ok(())
    }

    fn publish(&mut self) {
        let author = Key(self.rng.random_range(0..PEOPLE));
        let mut feed = self.feed.lock();
        if feed.waiting().len() < POSTS_MAX {
            feed.publish(author, &self.engine, self.step);
        }
    }

    fn read_feed(&mut self) -> Result<(), String> {
        let reader = Key(self.rng.random_range(0..PEOPLE));
        self.feed.lock().read(reader, &self.engine, &self.chronicle)
    }

    pub(super) fn step_one(&mut self, clients: &mut Clients) -> Result<(), String> {
        let awake: Vec<usize> =
            (0..self.tasks.len()).filter(|index| self.tasks[*index].asleep_until <= self.step).collect();
        if awake.is_empty() {
            return Ok(());
        }
        let index = awake[self.rng.random_range(0..awake.len())];
        if !self.tasks[index].step() {
            return Ok(());
        }
        match self.tasks.swap_remove(index).work {
            Work::Request(number) => clients.heard(number, self)?,
            Work::Mend(home) => {
                self.unmended.remove(&home);
            }
            Work::Job(key) => {
                self.jobs.remove(&key);
            }
            Work::Relay(_) | Work::Apply(_) | Work::FanOut(_) | Work::Driven => {}
        }
        Ok(())
    }

    /// Another relay or applier, also beside one that is running, or paused.
    pub(super) fn spawn(&mut self) {
        let home = self.pick_home();
        let is_relay = self.rng.random();
        self.spawn_work(if is_relay { Work::Relay(home) } else { Work::Apply(home) });
        if let Some(&home) = self.unmended.first() {
            self.spawn_work(Work::Mend(home));
        }
        if let Some(&key) = self.jobs.first() {
            self.spawn_work(Work::Job(key));
        }
        let waiting = self.feed.lock().waiting();
        if !waiting.is_empty() {
            let post = waiting[self.rng.random_range(0..waiting.len())];
            self.spawn_work(Work::FanOut(post));
        }
    }

    pub(super) fn spawn_work(&mut self, work: Work) {
        let same = self.tasks.iter().filter(|task| task.work == work).count();
        if same >= if matches!(work, Work::Mend(_)) { 1 } else { 2 } {
            return;
        }
        let (engine, feed) = (Arc::clone(&self.engine), Arc::clone(&self.feed));
        self.tasks.push(Task::new(work, async move {
            match work {
                Work::Relay(home) => {
                    engine.relay(home).await;
                }
                Work::Apply(home) => {
                    let _tried_again_later = engine.apply(home).await;
                }
                Work::Mend(home) => while engine.mend(home).await.is_err() {},
                Work::Job(key) => erase(&engine, key).await,
                Work::FanOut(post) => feed::fan_out(engine, feed, post).await,
                Work::Request(_) | Work::Driven => {}
            }
        }));
    }
}

/// Erases what is left of a user, chunk by chunk.
async fn erase(engine: &Engine, key: Key) {
    let write = Operation::EraseEdges { key, limit: CHUNK }.into();
    loop {
        match engine.write(&write).await {
            Ok(outcome) if matches!(outcome.reply, Reply::EdgesErased { left: false, .. }) => return,
            Ok(_) | Err(_) => {}
        }
    }
}
