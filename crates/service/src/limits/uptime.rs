//! Time that only passes: setting the clock neither gives a quota back nor locks anybody out.

use std::time::{Duration, Instant};

use entourage_model::{Clock, ManualClock};

pub trait Uptime: Send + Sync + 'static {
    /// Since some moment that stays the same.
    fn elapsed(&self) -> Duration;
}

/// Since the process, or nearly, began.
#[derive(Clone, Copy, Debug)]
pub struct SystemUptime(Instant);

impl SystemUptime {
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Uptime for SystemUptime {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// For tests: passes when it is told to.
impl Uptime for ManualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.now().since_2000())
    }
}
