//! The faults of a run: crashes, sleep, late commits, truncated logs, homes that go back, wrong clocks.

use entourage_model::{Clock, Millis};
use rand::{RngExt, rngs::StdRng};

use super::{
    clients::{Clients, PEOPLE},
    schedule::Work,
    world::World,
};

/// Which faults a run has. Each seed has its own: some hide what others show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) doubt_one_in: u32,
    pub(super) crashes: bool,
    pub(super) sleepers: bool,
    pub(super) truncation: bool,
    pub(super) retention: bool,
    pub(super) republication: bool,
    pub(super) forks: bool,
}

impl Faults {
    pub(super) fn draw(rng: &mut StdRng) -> Self {
        Self {
            doubt_one_in: [0, 4, 20][rng.random_range(0..3)],
            crashes: rng.random(),
            sleepers: rng.random(),
            truncation: rng.random_ratio(1, 3),
            retention: rng.random_ratio(1, 3),
            republication: rng.random(),
            forks: rng.random_ratio(1, 3),
        }
    }
}

impl World {
    /// A task ends between two of its steps.
    pub(super) fn crash(&mut self, clients: &mut Clients) {
        if !self.tasks.is_empty() {
            let index = self.rng.random_range(0..self.tasks.len());
            if self.tasks[index].work == Work::Driven {
                return;
            }
            if let Work::Request(number) = self.tasks.swap_remove(index).work {
                clients.lost(number, self);
            }
        }
    }

    pub(super) fn put_to_sleep(&mut self) {
        if !self.tasks.is_empty() {
            let index = self.rng.random_range(0..self.tasks.len());
            self.tasks[index].asleep_until = self.step + self.rng.random_range(50..400);
        }
    }

    /// A commit in flight arrives.
    pub(super) fn arrive(&mut self) {
        let late = self.engine.late.lock().len();
        if late > 0 {
            self.engine.arrive(self.rng.random_range(0..late));
        }
    }

    pub(super) fn snapshot(&mut self) {
        let home = self.pick_home();
        self.snapshots.retain(|snapshot| snapshot.index != home);
        self.snapshots.push(self.engine.homes[home].lock().clone());
    }

    /// A home goes back to an earlier state of itself.
    pub(super) fn fork(&mut self, clients: &mut Clients) {
        if self.snapshots.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.snapshots.len());
        let earlier = self.snapshots.swap_remove(index);
        let (home, last) = (earlier.index, earlier.last());
        self.engine.fork(earlier);
        self.tasks.retain(|task| task.work != Work::Mend(home));
        self.unmended.insert(home);
        self.chronicle.fork(home, last);
        self.history.forked(home, &self.engine, &self.chronicle);
        self.memory.forked(&self.engine, home, PEOPLE);
        clients.forked(home, last);
    }

    /// The oldest halves are dropped, applied or not.
    pub(super) fn truncate(&mut self) {
        let home = self.pick_home();
        let mut log = self.engine.halves[home].lock();
        let end = log.end();
        log.truncate(end.saturating_sub(self.rng.random_range(0..6)));
    }

    /// The oldest events are dropped, read or not.
    pub(super) fn expire(&mut self) {
        let (home, kept) = (self.pick_home(), self.rng.random_range(0..12));
        self.engine.homes[home].lock().expire(kept);
    }

    /// A half that was published long ago is published again, in the same log.
    pub(super) fn republish(&mut self) {
        let home = self.pick_home();
        let mut log = self.engine.halves[home].lock();
        let kept = log.kept();
        if kept > 0 {
            let at = log.end() - 1 - self.rng.random_range(0..kept) as u64;
            for outgoing in log.read(at, 1).unwrap_or_default() {
                log.append(outgoing);
            }
        }
    }

    pub(super) fn pass_time(&mut self) {
        let index = self.rng.random_range(0..self.clocks.len());
        let now = self.clocks[index].now().since_2000();
        // Clocks are set back, too.
        let moved = (now + self.rng.random_range(0..90_000)).saturating_sub(self.rng.random_range(0..45_000));
        self.clocks[index].set(Millis::from_since_2000(moved));
    }
}
