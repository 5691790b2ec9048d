//! The source of time: a trait, so that a test can set the clock and a seed can replay a failure.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::Millis;

/// Wall-clock time. It may jump either way; versions made from it may not.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Millis;
}

/// Monotonic time, unaffected by changes of the wall clock.
pub trait Uptime: Send + Sync + 'static {
    /// Since a fixed moment.
    fn elapsed(&self) -> Duration;
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn new(now: Millis) -> Self {
        Self(AtomicU64::new(now.since_2000()))
    }

    pub fn set(&self, now: Millis) {
        self.0.store(now.since_2000(), Ordering::SeqCst);
    }

    pub fn advance(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis::from_since_2000(self.0.load(Ordering::SeqCst))
    }
}

impl Uptime for ManualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.now().since_2000())
    }
}
