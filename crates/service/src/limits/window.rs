//! A window that slides: how often something happened to a key within the last hour or day, counted up to a bound.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{Limits, Uptime, measures::Measures};

/// Below this many keys nobody looks for those that can go.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug, Default)]
struct Seen {
    /// The newest times, oldest first, never more than the bound.
    times: VecDeque<Duration>,
    held: usize,
}

pub(super) struct Window<K> {
    bound: usize,
    span: Duration,
    uptime: Arc<dyn Uptime>,
    seen: Mutex<Sweeping<K>>,
    measures: Measures,
}

struct Sweeping<K> {
    keys: HashMap<K, Seen>,
    sweep_at: usize,
}

impl<K: Hash + Eq + Clone> Window<K> {
    /// `None` when there is no limit.
    pub(super) fn new(name: &'static str, bound: u32, span: Duration, uptime: &Arc<dyn Uptime>) -> Option<Self> {
        let bound = usize::try_from(bound.min(Limits::MAX)).ok().filter(|bound| *bound > 0)?;
        let seen = Mutex::new(Sweeping { keys: HashMap::new(), sweep_at: SWEEP_MIN });
        Some(Self { bound, span, uptime: Arc::clone(uptime), seen, measures: Measures::new(name) })
    }

    /// How long until one more is within the bound; `None` when it is now.
    pub(super) fn wait(&self, key: &K) -> Option<Duration> {
        let now = self.uptime.elapsed();
        let mut sweeping = self.seen.lock();
        let seen = sweeping.keys.get_mut(key)?;
        seen.forget(now, self.span);
        let oldest = seen.times.front().filter(|_| seen.times.len() >= self.bound)?;
        self.measures.refused();
        Some((*oldest + self.span).saturating_sub(now))
    }

    /// Holds one back if it is within the bound with all that are held, or whatever the bound.
    pub(super) fn hold(&self, key: &K, whatever: bool) -> bool {
        let now = self.uptime.elapsed();
        let mut sweeping = self.seen.lock();
        let seen = sweeping.keys.entry(key.clone()).or_default();
        seen.forget(now, self.span);
        let within = whatever || seen.times.len() + seen.held < self.bound;
        seen.held += usize::from(within);
        if !within {
            self.measures.refused();
        }
        within
    }

    pub(super) fn settle(&self, key: &K, counts: bool) {
        if counts {
            self.count(key.clone());
        }
        let mut sweeping = self.seen.lock();
        if let Some(seen) = sweeping.keys.get_mut(key) {
            seen.held = seen.held.saturating_sub(1);
            if seen.held == 0 && seen.times.is_empty() {
                sweeping.keys.remove(key);
            }
        }
    }

    pub(super) fn count(&self, key: K) {
        let now = self.uptime.elapsed();
        let mut sweeping = self.seen.lock();
        let seen = sweeping.keys.entry(key).or_default();
        if seen.times.len() == self.bound {
            seen.times.pop_front();
        }
        seen.times.push_back(now);
        sweeping.sweep(now, self.span);
        self.measures.keeps(sweeping.keys.len());
    }
}

impl Seen {
    fn forget(&mut self, now: Duration, span: Duration) {
        while self.times.front().is_some_and(|time| *time + span <= now) {
            self.times.pop_front();
        }
    }
}

impl<K: Hash + Eq> Sweeping<K> {
    /// Forgets keys to which nothing happened lately, each time there are twice as many as after the last time.
    fn sweep(&mut self, now: Duration, span: Duration) {
        if self.keys.len() < self.sweep_at {
            return;
        }
        self.keys.retain(|_, seen| {
            seen.forget(now, span);
            seen.held > 0 || !seen.times.is_empty()
        });
        self.sweep_at = (self.keys.len() * 2).max(SWEEP_MIN);
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{ManualClock, Millis};

    use super::*;

    #[test]
    fn a_bound_holds_within_the_span_and_not_after_it() {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(5)));
        let uptime: Arc<dyn Uptime> = Arc::clone(&clock) as _;
        assert!(Window::<u8>::new("test", 0, Duration::from_secs(1), &uptime).is_none());
        let window = Window::new("test", 2, Duration::from_secs(1), &uptime).unwrap();
        assert!(window.hold(&1, false) && window.hold(&1, false) && !window.hold(&1, false) && window.hold(&1, true));
        for counts in [true, false, true] {
            window.settle(&1, counts);
        }
        assert!(!window.hold(&1, false));
        assert_eq!(window.wait(&1), Some(Duration::from_secs(1)));
        clock.advance(999);
        assert_eq!(window.wait(&1), Some(Duration::from_millis(1)));
        clock.advance(1);
        assert_eq!(window.wait(&1), None);
        for key in 2..=SWEEP_MIN {
            window.count(key);
        }
        assert_eq!(window.seen.lock().keys.len(), SWEEP_MIN - 1, "the first one had nothing left to keep");
    }
}
