//! Clients: what they ask, what they hear, and what they were promised by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use entourage_model::{IdempotencyKey, Key, Lineage, Operation, Outcome, Overwrite, Result, UserId, UserPatch, Write};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    schedule::{Task, Work},
    world::World,
};

const PEOPLE: i64 = 6;
const FEW: i64 = 3;
const AT_ONCE: usize = 6;

pub(super) struct Clients {
    rng: StdRng,
    requests: Vec<Request>,
    /// Requests of which nothing was heard: they are made again.
    unheard: Vec<Write>,
    lifting: BTreeMap<(Key, Key), Lifting>,
    /// Whom an erasure or a fork may cost a block until everything has settled.
    unsettled: BTreeSet<Key>,
    running: usize,
}

/// Requests that lift a block.
#[derive(Default)]
struct Lifting {
    running: usize,
    /// When the last one ended.
    ended: u64,
}

struct Request {
    write: Write,
    asked: u64,
    lineage: Lineage,
    reply: Arc<Mutex<Option<Result<Outcome>>>>,
}

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ 0xc11e);
        Self {
            rng,
            requests: Vec::new(),
            unheard: Vec::new(),
            lifting: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            running: 0,
        }
    }

    pub(super) fn begin(&mut self, world: &mut World) {
        for number in 0..PEOPLE {
            let put = self.put(Key(number), Some(number % 3 == 2));
            self.start(put.into(), world);
        }
    }

    /// Whether a block stands that was acked before a fork nobody knows.
    pub(super) fn forget(&mut self) {
        self.unsettled.extend((0..PEOPLE).map(Key));
    }

    pub(super) fn settled(&mut self) {
        self.unsettled.clear();
    }

    pub(super) fn ask(&mut self, world: &mut World) {
        if self.running >= AT_ONCE {
            return;
        }
        if !self.unheard.is_empty() && self.rng.random_ratio(1, 3) {
            let write = self.unheard.swap_remove(self.rng.random_range(0..self.unheard.len()));
            return self.start(write, world);
        }
        let mut write = Write::from(self.operation());
        if self.rng.random_ratio(1, 3) {
            write.idempotency = Some(IdempotencyKey { scope: self.rng.random(), request: self.rng.random() });
        }
        self.start(write, world);
    }

    fn start(&mut self, write: Write, world: &mut World) {
        let (number, reply) = (self.requests.len(), Arc::default());
        match write.operation {
            Operation::Unblock { actor, target } => {
                self.lifting.entry((actor, target)).or_default().running += 1;
                world.memory.blocks.remove(&(actor, target));
            }
            Operation::Erase { key, .. } | Operation::EraseEdges { key, .. } => {
                self.unsettled.insert(key);
                world.memory.blocks.retain(|(actor, target)| ![*actor, *target].contains(&key));
            }
            _ => {}
        }
        let (asked, lineage) = (world.step, world.engine.lineage());
        self.requests.push(Request { write: write.clone(), asked, lineage, reply: Arc::clone(&reply) });
        self.running += 1;
        let engine = Arc::clone(&world.engine);
        world.tasks.push(Task::new(Work::Request(number), async move {
            let result = engine.write(&write).await.map(|written| written.outcome);
            *reply.lock() = Some(result);
        }));
    }

    pub(super) fn heard(&mut self, number: usize, world: &mut World) {
        self.ended(number, world.step);
        let Request { write, asked, lineage, reply } = &self.requests[number];
        let Some(result) = reply.lock().take() else { return };
        if let Ok(outcome) = &result
            && *lineage == world.engine.lineage()
        {
            world.memory.saw(&world.engine, outcome);
        }
        match (&write.operation, result) {
            // A replay says what was so once.
            (&Operation::Block { actor, target }, Ok(outcome)) if !outcome.replayed => {
                let lifting = self.lifting.entry((actor, target)).or_default();
                let is_settled = [actor, target].iter().all(|key| !self.unsettled.contains(key));
                // What was lifted before it was asked for stands from now on.
                if lifting.running == 0 && lifting.ended < *asked && is_settled {
                    world.memory.blocks.insert((actor, target));
                }
            }
            (_, Err(error)) if error.code().http_status() >= 500 => {
                let write = write.clone();
                self.unheard(write);
            }
            _ => {}
        }
    }

    /// It may have happened, and may still happen.
    fn unheard(&mut self, write: Write) {
        if let Operation::Unblock { actor, .. } = write.operation {
            self.unsettled.insert(actor);
        }
        self.unheard.push(write);
    }

    pub(super) fn lost(&mut self, number: usize, step: u64) {
        self.ended(number, step);
        self.unheard(self.requests[number].write.clone());
    }

    fn ended(&mut self, number: usize, step: u64) {
        self.running -= 1;
        if let Operation::Unblock { actor, target } = self.requests[number].write.operation {
            let lifting = self.lifting.entry((actor, target)).or_default();
            (lifting.running, lifting.ended) = (lifting.running - 1, step);
        }
    }

    fn put(&self, key: Key, private: Option<bool>) -> Operation {
        let patch = UserPatch { private, ..UserPatch::default() };
        Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Replace }
    }

    fn operation(&mut self) -> Operation {
        // Some meet more often than others.
        let people = if self.rng.random() { FEW } else { PEOPLE };
        let a = self.rng.random_range(0..people);
        let b = (a + self.rng.random_range(1..people)) % people;
        let (a, b) = (Key(a), Key(b));
        let quiet = [None, Some(false), Some(false), Some(true)][self.rng.random_range(0..4)];
        match self.rng.random_range(0..100) {
            0..34 => Operation::Follow { follower: a, target: b, quiet, cap: None },
            34..46 => Operation::Unfollow { follower: a, target: b },
            46..56 => Operation::Block { actor: a, target: b },
            56..68 => Operation::Unblock { actor: a, target: b },
            68..74 => Operation::Accept { target: a, follower: b },
            74..76 => Operation::Reject { target: a, follower: b },
            76..79 => Operation::RemoveFollower { target: a, follower: b, sees_quiet: true },
            79..81 => Operation::Mute { actor: a, target: b, expires_at: None },
            81..82 => Operation::Unmute { actor: a, target: b },
            82..84 => Operation::Erase { key: a, created: None },
            84..90 => Operation::EraseEdges { key: a, limit: 4 },
            _ => {
                let private = self.rng.random();
                self.put(a, Some(private))
            }
        }
    }
}
