//! A run: clients, relays, appliers, and what befalls them.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::{Clock, Code, ManualClock, Millis, Operation, Outcome, Result as Answer, Secret, Version, Write};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    checks::{self, Memory},
    clients::Clients,
    replica::Replica,
    schedule::{Dice, Task, Work},
};
use crate::{
    Derived, Identity, Store,
    backends::partitioned::{
        self,
        bug::{Bug, Planted},
        engine::Engine,
        home::Home,
    },
    conformance::{
        hooked::{Hooked, Hooks},
        settled::versions,
    },
};

/// Which faults a run has. Each seed has its own: some hide what others show.
#[derive(Clone, Copy, Debug)]
struct Faults {
    doubt_one_in: u32,
    crashes: bool,
    sleepers: bool,
    truncation: bool,
    forks: bool,
}

pub(super) struct World {
    pub(super) rng: StdRng,
    pub(super) engine: Arc<Engine>,
    dice: Arc<Dice>,
    clocks: Vec<Arc<ManualClock>>,
    pub(super) tasks: Vec<Task>,
    /// Earlier states of homes, to go back to.
    snapshots: Vec<Home>,
    /// Homes that went back and are not mended.
    unmended: Vec<usize>,
    pub(super) step: u64,
    faults: Faults,
    pub(super) memory: Memory,
    replica: Replica,
    /// Of what the one client was answered.
    newest: Version,
}

/// A run of concurrent clients. `Err` says what went wrong.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let mut world = World::new(seed, bug);
    let mut clients = Clients::new(seed);
    clients.begin(&mut world);
    world.settle(&mut clients)?;
    for _ in 0..3 {
        for _ in 0..400 {
            world.turn(&mut clients).map_err(|wrong| world.told(&wrong))?;
        }
        world.settle(&mut clients).map_err(|wrong| world.told(&wrong))?;
    }
    Ok(())
}

/// A store for one client, who sees nothing of all that goes wrong.
pub fn store(seed: u64) -> Arc<dyn Store> {
    let mut world = World::new(seed, None);
    world.memory.has_imports = true;
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    let store = partitioned::Store::over(Arc::clone(&world.engine), identity, Arc::clone(&world.engine.clocks[0]));
    Arc::new(Hooked::new(Arc::new(store), Driven { seed, world: Mutex::new(world) }))
}

struct Driven {
    seed: u64,
    world: Mutex<World>,
}

#[async_trait]
impl Hooks for Driven {
    async fn commit(&self, _inner: &dyn Store, mut write: Write) -> Answer<Outcome> {
        let mut world = self.world.lock();
        // The client carries a token: clocks of homes differ.
        write.floor = write.floor.max(world.newest);
        match world.drive(&write) {
            Ok(outcome) => {
                let versions = outcome.iter().flat_map(|outcome| versions(outcome, Derived::Settling));
                world.newest =
                    versions.chain(outcome.iter().map(|outcome| outcome.version)).fold(write.floor, Version::max);
                outcome
            }
            Err(wrong) => panic!("seed {}: {write:?}: {wrong}", self.seed),
        }
    }
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
        let batch = [1, 2, 4, 16][rng.random_range(0..4)];
        let engine = Arc::new(Engine::new(given, Arc::clone(&dice) as _, Planted::new(bug), batch));
        let faults = Faults {
            doubt_one_in: [0, 4, 20][rng.random_range(0..3)],
            crashes: rng.random(),
            sleepers: rng.random(),
            truncation: rng.random_ratio(1, 3),
            forks: rng.random_ratio(1, 3),
        };
        dice.doubt_one_in(faults.doubt_one_in);
        let (memory, replica) = (Memory::default(), Replica::new(homes));
        let (tasks, snapshots, unmended) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            rng,
            engine,
            dice,
            clocks,
            tasks,
            snapshots,
            unmended,
            step: 0,
            faults,
            memory,
            replica,
            newest: Version::ZERO,
        }
    }

    fn told(&self, wrong: &str) -> String {
        format!("{wrong}, with {} homes and {:?}", self.engine.homes.len(), self.faults)
    }

    fn pick_home(&mut self) -> usize {
        self.rng.random_range(0..self.engine.homes.len())
    }

    /// Takes one write through everything that goes wrong, and lets it settle.
    fn drive(&mut self, write: &Write) -> Result<Answer<Outcome>, String> {
        let mut nobody = Clients::new(0);
        // Half of what is erased may be gone when such a write is not made: who asks again hears of the rest.
        let is_certain = matches!(write.operation, Operation::EraseEdges { .. });
        self.dice.doubt_one_in(if is_certain { 0 } else { self.faults.doubt_one_in });
        let outcome = loop {
            let (engine, write, reply) = (Arc::clone(&self.engine), write.clone(), Arc::new(Mutex::new(None)));
            let told = Arc::clone(&reply);
            self.tasks.push(Task::new(Work::Driven, async move {
                let outcome = engine.write(&write).await.map(|written| {
                    let watermark = engine.watermark(&written);
                    Outcome { watermark, ..written.outcome }
                });
                *told.lock() = Some(outcome);
            }));
            while reply.lock().is_none() {
                self.around(&mut nobody)?;
            }
            match reply.lock().take() {
                Some(Err(error)) if error.code() == Code::Unavailable => {}
                Some(outcome) => break outcome,
                None => return Err("nothing was heard".to_owned()),
            }
        };
        for _ in 0..self.rng.random_range(0..60) {
            self.around(&mut nobody)?;
        }
        self.settle(&mut nobody)?;
        Ok(outcome)
    }

    /// As [`Self::turn`], without other clients, and without forks: what is answered stays.
    fn around(&mut self, nobody: &mut Clients) -> Result<(), String> {
        self.step += 1;
        match self.rng.random_range(0..100) {
            0..75 => self.step_one(nobody),
            75..85 => self.spawn(),
            85..87 if self.faults.crashes => self.crash(nobody),
            87..89 if self.faults.sleepers => self.put_to_sleep(),
            89..92 => self.arrive(),
            92..93 if self.faults.truncation => self.truncate(),
            93..96 => self.pass_time(),
            _ => self.replica.read(&self.engine, 3),
        }
        self.memory.look(&self.engine, self.step)
    }

    /// One thing happens, and everything is looked at.
    fn turn(&mut self, clients: &mut Clients) -> Result<(), String> {
        self.step += 1;
        match self.rng.random_range(0..1000) {
            0..600 => self.step_one(clients),
            600..700 => clients.ask(self),
            700..840 => self.spawn(),
            840..850 if self.faults.crashes => self.crash(clients),
            850..865 if self.faults.sleepers => self.put_to_sleep(),
            865..880 => self.arrive(),
            880..890 => self.snapshot(),
            890..893 if self.faults.forks => self.fork(clients),
            893..900 if self.faults.truncation => self.truncate(),
            900..930 => self.pass_time(),
            930..950 => self.replica.read(&self.engine, 3),
            _ => self.step_one(clients),
        }
        self.memory.look(&self.engine, self.step)
    }

    fn step_one(&mut self, clients: &mut Clients) {
        let awake: Vec<usize> =
            (0..self.tasks.len()).filter(|index| self.tasks[*index].asleep_until <= self.step).collect();
        if !awake.is_empty() {
            let index = awake[self.rng.random_range(0..awake.len())];
            self.step_task(index, clients);
        }
    }

    fn step_task(&mut self, index: usize, clients: &mut Clients) {
        if !self.tasks[index].step() {
            return;
        }
        match self.tasks.swap_remove(index).work {
            Work::Request(number) => clients.heard(number, self),
            Work::Mend(home) => {
                if let Some(at) = self.unmended.iter().position(|unmended| *unmended == home) {
                    self.unmended.swap_remove(at);
                }
            }
            Work::Relay(_) | Work::Apply(_) | Work::Driven => {}
        }
    }

    /// Another relay or applier, also beside one that is at work, or paused.
    fn spawn(&mut self) {
        let home = self.pick_home();
        let is_relay = self.rng.random();
        self.spawn_work(if is_relay { Work::Relay(home) } else { Work::Apply(home) });
        if let Some(&home) = self.unmended.first() {
            self.spawn_work(Work::Mend(home));
        }
    }

    fn spawn_work(&mut self, work: Work) {
        let same = self.tasks.iter().filter(|task| task.work == work).count();
        if same >= if matches!(work, Work::Mend(_)) { 1 } else { 2 } {
            return;
        }
        let engine = Arc::clone(&self.engine);
        self.tasks.push(Task::new(work, async move {
            match work {
                Work::Relay(home) => {
                    engine.relay(home).await;
                }
                Work::Apply(home) => {
                    let _lost = engine.apply(home).await;
                }
                Work::Mend(home) => while engine.mend(home).await.is_err() {},
                Work::Request(_) | Work::Driven => {}
            }
        }));
    }

    fn crash(&mut self, clients: &mut Clients) {
        if !self.tasks.is_empty() {
            let index = self.rng.random_range(0..self.tasks.len());
            if self.tasks[index].work == Work::Driven {
                return;
            }
            if let Work::Request(number) = self.tasks.swap_remove(index).work {
                clients.lost(number, self.step);
            }
        }
    }

    fn put_to_sleep(&mut self) {
        if !self.tasks.is_empty() {
            let index = self.rng.random_range(0..self.tasks.len());
            self.tasks[index].asleep_until = self.step + self.rng.random_range(50..400);
        }
    }

    fn arrive(&mut self) {
        let late = self.engine.late.lock().len();
        if late > 0 {
            self.engine.arrive(self.rng.random_range(0..late));
        }
    }

    fn snapshot(&mut self) {
        let home = self.pick_home();
        self.snapshots.retain(|snapshot| snapshot.index != home);
        self.snapshots.push(self.engine.homes[home].lock().clone());
    }

    fn fork(&mut self, clients: &mut Clients) {
        if self.snapshots.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.snapshots.len());
        let earlier = self.snapshots.swap_remove(index);
        let home = earlier.index;
        self.engine.fork(earlier);
        self.tasks.retain(|task| task.work != Work::Mend(home));
        if !self.unmended.contains(&home) {
            self.unmended.push(home);
        }
        self.memory.forget();
        clients.forget();
    }

    fn truncate(&mut self) {
        let home = self.pick_home();
        let mut log = self.engine.halves[home].lock();
        let end = log.end();
        log.truncate(end.saturating_sub(self.rng.random_range(0..6)));
    }

    fn pass_time(&mut self) {
        let index = self.rng.random_range(0..self.clocks.len());
        let now = self.clocks[index].now().since_2000();
        // Clocks are set back, too.
        let moved = (now + self.rng.random_range(0..90_000)).saturating_sub(self.rng.random_range(0..45_000));
        self.clocks[index].set(Millis::from_since_2000(moved));
    }

    /// Nothing more goes wrong, everything comes to its end, and all agree.
    fn settle(&mut self, clients: &mut Clients) -> Result<(), String> {
        self.dice.doubt_one_in(0);
        self.finish(clients)?;
        while !self.engine.late.lock().is_empty() {
            self.engine.arrive(0);
            self.memory.look(&self.engine, self.step)?;
        }
        self.drain(clients)?;
        self.replica.catch_up(&self.engine)?;
        checks::settled(&self.engine)?;
        self.memory.logged(&self.engine)?;
        clients.settled();
        self.dice.doubt_one_in(self.faults.doubt_one_in);
        Ok(())
    }

    fn finish(&mut self, clients: &mut Clients) -> Result<(), String> {
        for task in &mut self.tasks {
            task.asleep_until = 0;
        }
        for _ in 0..200_000 {
            if self.tasks.is_empty() {
                return Ok(());
            }
            self.step += 1;
            self.step_one(clients);
            self.memory.look(&self.engine, self.step)?;
        }
        let left: Vec<Work> = self.tasks.iter().map(|task| task.work).collect();
        Err(format!("does not come to an end: {left:?}"))
    }

    fn drain(&mut self, clients: &mut Clients) -> Result<(), String> {
        for _ in 0..2_000 {
            for home in self.unmended.clone() {
                self.spawn_work(Work::Mend(home));
            }
            if !self.unmended.is_empty() {
                self.finish(clients)?;
                continue;
            }
            if self.is_drained() {
                return Ok(());
            }
            for home in 0..self.engine.homes.len() {
                self.spawn_work(Work::Relay(home));
                self.spawn_work(Work::Apply(home));
            }
            self.finish(clients)?;
        }
        Err("does not settle".to_owned())
    }

    fn is_drained(&self) -> bool {
        self.engine.homes.iter().zip(&self.engine.halves).all(|(home, log)| {
            let home = home.lock();
            home.outbox.is_empty() && home.applied == log.lock().end()
        })
    }
}
