//! One thread that takes one step of one task at a time. A seed chooses the task, and the fate of each commit.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use entourage_model::Key;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use entourage_memory::partitioned::pace::{Fate, Pace, Step};

/// The faults of commits.
pub(super) struct Dice {
    rng: Mutex<StdRng>,
    /// One commit in this many is not answered; 0 is none.
    doubt_one_in: Mutex<u32>,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Mutex::new(StdRng::seed_from_u64(seed ^ 0xd1ce)), doubt_one_in: Mutex::new(0) }
    }

    pub(super) fn doubt_one_in(&self, times: u32) {
        *self.doubt_one_in.lock() = times;
    }
}

#[async_trait]
impl Pace for Dice {
    async fn pause(&self, _step: Step) {
        let mut is_back = false;
        poll_fn(|_| if std::mem::replace(&mut is_back, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn fate(&self) -> Fate {
        let times = *self.doubt_one_in.lock();
        let mut rng = self.rng.lock();
        if times == 0 || !rng.random_ratio(1, times) {
            return Fate::Answered;
        }
        [Fate::Unanswered, Fate::Late, Fate::Late, Fate::Lost][rng.random_range(0..4)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A client's request, by its number.
    Request(usize),
    /// The only request there is.
    Driven,
    Relay(usize),
    Apply(usize),
    Mend(usize),
    /// Erases what is left of a user.
    Job(Key),
    /// Delivers a post.
    FanOut(usize),
}

/// A running task. Dropping it is a crash.
pub(super) struct Task {
    pub(super) work: Work,
    /// Not before this step.
    pub(super) asleep_until: u64,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Task {
    pub(super) fn new(work: Work, future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work, asleep_until: 0, future: Box::pin(future) }
    }

    /// Takes one step. Returns whether that was the last.
    pub(super) fn step(&mut self) -> bool {
        self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
