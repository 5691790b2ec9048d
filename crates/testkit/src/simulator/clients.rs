//! Clients: their requests, and the replies.

use std::sync::Arc;

use entourage_model::{
    Change, IdempotencyKey, Key, Operation, Outcome, Overwrite, Result as Answer, Sequence, UserId, UserPatch, Write,
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    schedule::{Task, Work},
    window::Asked,
    world::World,
};

pub(super) const PEOPLE: i64 = 9;
const FEW: i64 = 3;
const AT_ONCE: usize = 6;

/// Alters a reply, if it fits, to see that the lie is found.
pub(super) type Lie = fn(&mut Answer<Outcome>) -> bool;

pub(super) struct Clients {
    rng: StdRng,
    requests: Vec<Request>,
    /// Requests without a reply: they are repeated.
    unheard: Vec<Write>,
    running: usize,
    pub(super) lie: Option<Lie>,
}

struct Request {
    write: Write,
    asked: Asked,
    reply: Arc<Mutex<Option<Answer<Outcome>>>>,
}

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ 0xc11e);
        Self { rng, requests: Vec::new(), unheard: Vec::new(), running: 0, lie: None }
    }

    pub(super) fn begin(&mut self, world: &mut World) {
        for number in 0..PEOPLE {
            let put = self.put(Key(number), Some(number % 3 == 2));
            self.start(put.into(), world);
        }
    }

    /// A home went back: later requests may see an earlier state.
    pub(super) fn forked(&mut self, home: usize, last: Sequence) {
        for request in &mut self.requests {
            request.asked.lasts[home] = request.asked.lasts[home].min(last);
        }
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
        let asked = Asked { step: world.step, lasts: world.chronicle.lasts() };
        self.requests.push(Request { write: write.clone(), asked, reply: Arc::clone(&reply) });
        self.running += 1;
        let engine = Arc::clone(&world.engine);
        world.tasks.push(Task::new(Work::Request(number), async move {
            let result = engine.write(&write).await;
            *reply.lock() = Some(result);
        }));
    }

    pub(super) fn heard(&mut self, number: usize, world: &mut World) -> Result<(), String> {
        self.running -= 1;
        let Request { write, asked, reply } = &self.requests[number];
        let Some(mut result) = reply.lock().take() else { return Ok(()) };
        if self.lie.is_some_and(|lie| lie(&mut result)) {
            self.lie = None;
        }
        world.chronicle.follow(&world.engine, world.step)?;
        let World { engine, chronicle, history, tokens, memory, rng, .. } = world;
        history.heard(write, asked, &result, (engine, chronicle, world.step))?;
        if let Ok(outcome) = &result {
            tokens.hold(&write.operation, outcome, engine, chronicle, rng)?;
            match write.operation {
                Operation::Block { actor, target } => memory.blocked((actor, target), outcome, engine)?,
                Operation::Erase { key, .. }
                    if outcome.changes.iter().any(|change| matches!(change, Change::User(_))) =>
                {
                    world.jobs.insert(key);
                }
                _ => {}
            }
        }
        if result.is_err_and(|error| error.code().http_status() >= 500) {
            self.unheard.push(write.clone());
        }
        Ok(())
    }

    /// It may have happened, and may still happen.
    pub(super) fn lost(&mut self, number: usize, world: &mut World) {
        self.running -= 1;
        let write = &self.requests[number].write;
        world.history.lost(write, false);
        self.unheard.push(write.clone());
    }

    fn put(&self, key: Key, private: Option<bool>) -> Operation {
        let patch = UserPatch { private, ..UserPatch::default() };
        Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Replace }
    }

    fn operation(&mut self) -> Operation {
        // Some meet more often than others, and one has a crowd of followers.
        let people = if self.rng.random() { FEW } else { PEOPLE };
        let a = self.rng.random_range(0..people);
        let b = (a + self.rng.random_range(1..people)) % people;
        let b = if a > 0 && people == PEOPLE && self.rng.random() { 0 } else { b };
        let (a, b) = (Key(a), Key(b));
        let quiet = [None, Some(false), Some(false), Some(true)][self.rng.random_range(0..4)];
        match self.rng.random_range(0..100) {
            0..40 => {
                // Not those of the crowd: a list of parked follows has no second bucket.
                let park = b != Key(0) && self.rng.random_ratio(1, 3);
                Operation::Follow { follower: a, target: b, quiet, cap: None, park }
            }
            40..49 => Operation::Unfollow { follower: a, target: b },
            49..58 => Operation::Block { actor: a, target: b },
            58..70 => Operation::Unblock { actor: a, target: b },
            70..76 => Operation::Accept { target: a, follower: b },
            76..78 => Operation::Reject { target: a, follower: b },
            78..81 => Operation::RemoveFollower { target: a, follower: b, sees_quiet: true },
            81..83 => Operation::Mute { actor: a, target: b, expires_at: None },
            83..84 => Operation::Unmute { actor: a, target: b },
            84..86 => Operation::Erase { key: a, created: None },
            86..88 => Operation::EraseEdges { key: a, limit: 4 },
            88..92 => Operation::Release { target: a, follower: b, accept: self.rng.random_ratio(2, 3) },
            _ => {
                let private = self.rng.random();
                self.put(a, Some(private))
            }
        }
    }
}
