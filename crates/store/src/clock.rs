//! The system's clock: the one place that reads the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use entourage_model::{Clock, Millis, Uptime};

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock that everything else gets handed")]
    fn now(&self) -> Millis {
        let since_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::from_unix(i64::try_from(since_unix.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Since about the start of the process.
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
