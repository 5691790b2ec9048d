//! A store for one client, who sees none of the faults.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::{Code, Operation, Outcome, Result as Answer, Secret, Version, Write};
use parking_lot::Mutex;
use rand::RngExt;

use super::{
    clients::Clients,
    schedule::{Task, Work},
    world::World,
};
use crate::conformance::hooked::{Hooked, Hooks};
use entourage_memory::partitioned;
use entourage_store::{Identity, Store};

/// Every write runs through the faults of this seed, and settles before it is answered.
pub fn store(seed: u64) -> Arc<dyn Store> {
    driven(seed, false)
}

/// As [`store`], and the oldest events are dropped, and homes continue in another lineage, though none loses what was
/// answered.
pub fn forgetful_store(seed: u64) -> Arc<dyn Store> {
    driven(seed, true)
}

fn driven(seed: u64, forgets: bool) -> Arc<dyn Store> {
    let mut world = World::new(seed, None);
    world.memory.has_imports = true;
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    let store = partitioned::Store::over(Arc::clone(&world.engine), identity, Arc::clone(&world.engine.clocks[0]));
    Arc::new(Hooked::new(Arc::new(store), Driven { seed, forgets, world: Mutex::new(world), newest: Mutex::default() }))
}

struct Driven {
    seed: u64,
    forgets: bool,
    world: Mutex<World>,
    /// Of what the client was answered.
    newest: Mutex<Version>,
}

#[async_trait]
impl Hooks for Driven {
    async fn commit(&self, _inner: &dyn Store, mut write: Write) -> Answer<Outcome> {
        let mut newest = self.newest.lock();
        // The client carries a token: clocks of homes differ.
        write.floor = write.floor.max(*newest);
        let mut world = self.world.lock();
        let driven = world.drive(&write);
        let driven = if self.forgets { driven.and_then(|outcome| world.forget().map(|()| outcome)) } else { driven };
        match driven {
            Ok(outcome) => {
                *newest = outcome.iter().map(Outcome::newest).fold(write.floor, Version::max);
                outcome
            }
            Err(wrong) => panic!("seed {}: {write:?}: {wrong}", self.seed),
        }
    }
}

impl World {
    /// Runs one write through every fault, and lets it settle.
    fn drive(&mut self, write: &Write) -> Result<Answer<Outcome>, String> {
        let mut nobody = Clients::new(0);
        // An erasure that fails may be half done: a repetition reports the rest.
        let is_certain = matches!(write.operation, Operation::EraseEdges { .. });
        self.dice.doubt_one_in(if is_certain { 0 } else { self.faults.doubt_one_in });
        let outcome = loop {
            let (engine, write, reply) = (Arc::clone(&self.engine), write.clone(), Arc::new(Mutex::new(None)));
            let told = Arc::clone(&reply);
            self.tasks.push(Task::new(Work::Driven, async move {
                let outcome = engine.write(&write).await;
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
        if let Ok(outcome) = &outcome {
            let Self { engine, chronicle, tokens, rng, .. } = self;
            tokens.hold(&write.operation, outcome, engine, chronicle, rng)?;
        }
        for _ in 0..self.rng.random_range(0..60) {
            self.around(&mut nobody)?;
        }
        self.settle(&mut nobody)?;
        Ok(outcome)
    }

    /// Once everything has settled: events are dropped, or a home continues from its current state in a new lineage.
    fn forget(&mut self) -> Result<(), String> {
        let mut nobody = Clients::new(0);
        match self.rng.random_range(0..12) {
            0 => self.expire(),
            1 => {
                self.snapshots.clear();
                self.snapshot();
                self.fork(&mut nobody);
            }
            _ => return Ok(()),
        }
        self.settle(&mut nobody)
    }

    /// As [`Self::turn`], without other clients, forks, or loss of events: what is answered stays.
    fn around(&mut self, nobody: &mut Clients) -> Result<(), String> {
        self.step += 1;
        match self.rng.random_range(0..100) {
            0..75 => self.step_one(nobody)?,
            75..85 => self.spawn(),
            85..87 if self.faults.crashes => self.crash(nobody),
            87..89 if self.faults.sleepers => self.put_to_sleep(),
            89..92 => self.arrive(),
            92..93 if self.faults.truncation => self.truncate(),
            93..94 if self.faults.republication => self.republish(),
            94..97 => self.pass_time(),
            _ => self.replica.read(&self.engine, 3)?,
        }
        self.look()
    }
}
