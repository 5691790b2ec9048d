//! The time that quotas of follows are decided by. It is kept with them, so that it must mean the same after a restart
//! and on other servers: the wall's, taken once. From then on it passes as uptime does, so that setting the clock gives
//! nothing back and locks nobody out.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use entourage_model::{Clock, Millis, Uptime};

/// The wall is believed again when it is further ahead: the machine slept, and its uptime did not pass.
const SLEPT_MILLIS: u64 = 2 * 60 * 60 * 1_000;

pub(super) struct Time {
    clock: Arc<dyn Clock>,
    uptime: Arc<dyn Uptime>,
    /// What the wall said when no time had passed yet, in milliseconds since 2000; wraps.
    start: AtomicU64,
}

impl Time {
    pub(super) fn new(clock: &Arc<dyn Clock>, uptime: &Arc<dyn Uptime>) -> Self {
        let (clock, uptime) = (Arc::clone(clock), Arc::clone(uptime));
        let start = AtomicU64::new(clock.now().since_2000().wrapping_sub(passed(&*uptime)));
        Self { clock, uptime, start }
    }

    pub(super) fn now(&self) -> Millis {
        let (passed, wall) = (passed(&*self.uptime), self.clock.now().since_2000());
        let now = self.start.load(Ordering::Relaxed).wrapping_add(passed);
        if wall.saturating_sub(now) > SLEPT_MILLIS {
            self.start.store(wall.wrapping_sub(passed), Ordering::Relaxed);
            return Millis::from_since_2000(wall);
        }
        Millis::from_since_2000(now)
    }
}

fn passed(uptime: &dyn Uptime) -> u64 {
    u64::try_from(uptime.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use entourage_model::ManualClock;

    use super::*;

    #[test]
    fn time_passes_as_uptime_does_until_the_machine_has_slept() {
        let at = Millis::from_since_2000;
        let (wall, passing) = (Arc::new(ManualClock::new(at(800_000_000_000))), Arc::new(ManualClock::new(at(77))));
        let time = Time::new(&(Arc::clone(&wall) as _), &(Arc::clone(&passing) as _));
        for set in [790_000_000_000, 800_003_600_000, 800_000_000_000] {
            wall.set(at(set));
            assert_eq!(time.now(), at(800_000_000_000));
        }
        passing.advance(5_000);
        assert_eq!(time.now(), at(800_000_005_000));
        wall.set(at(800_020_000_000));
        assert_eq!(time.now(), at(800_020_000_000));
        passing.advance(1);
        assert_eq!(time.now(), at(800_020_000_001));
    }
}
