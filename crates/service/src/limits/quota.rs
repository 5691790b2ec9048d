//! A quota for each key: GCRA, where what is under way is held back and only what succeeds is taken.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use governor::{
    RateLimiter,
    clock::Clock,
    middleware::StateInformationMiddleware,
    nanos::Nanos,
    state::{StateStore, keyed::ShrinkableKeyedStateStore},
};
use parking_lot::Mutex;

use super::{Limits, Uptime, metrics::QuotaMetrics};

/// Below this many keys nobody looks for those that can go.
const SWEEP_MIN: usize = 1_024;

/// What a key has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// What the quota is about, as headers name it.
    pub name: &'static str,
    /// What can be used at once when nothing was used for `window`.
    pub limit: u32,
    pub window: Duration,
    pub remaining: u32,
    /// Until all of `limit` is there again.
    pub reset: Duration,
}

pub(super) struct Quota<K: Hash + Eq + Clone> {
    name: &'static str,
    limit: u32,
    period: Duration,
    start: Duration,
    uptime: Arc<dyn Uptime>,
    limiter: RateLimiter<Ask<K>, Cells<K>, Passing, StateInformationMiddleware>,
    /// How many of each key are under way.
    held: Mutex<HashMap<K, u32>>,
    sweep_at: AtomicUsize,
    /// The same cells as the limiter has.
    cells: Cells<K>,
    metrics: QuotaMetrics,
}

impl<K: Hash + Eq + Clone> Quota<K> {
    /// `None` when there is no limit.
    pub(super) fn new(
        name: &'static str,
        count: u32,
        per: Duration,
        burst: u32,
        uptime: &Arc<dyn Uptime>,
    ) -> Option<Self> {
        let limit = NonZeroU32::new(burst.min(Limits::MAX))?;
        let period = per.checked_div(count.min(Limits::MAX))?;
        let quota = governor::Quota::with_period(period)?.allow_burst(limit);
        let (cells, start) = (Cells::default(), uptime.elapsed());
        let limiter = RateLimiter::new(quota, cells.clone(), Passing(Arc::clone(uptime)));
        let (held, sweep_at) = (Mutex::default(), AtomicUsize::new(SWEEP_MIN));
        let (uptime, metrics) = (Arc::clone(uptime), QuotaMetrics::new(name));
        Some(Self { name, limit: limit.get(), period, start, uptime, limiter, held, sweep_at, cells, metrics })
    }

    /// What can be used at once.
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes one, or says how long to wait for it.
    pub(super) fn take(&self, key: &K) -> Result<(), Duration> {
        let taken = self.limiter.check_key(&Ask::Take(key.clone()));
        self.sweep();
        taken.map(drop).map_err(|not_until| {
            self.metrics.refused();
            not_until.wait_time_from(Passing(Arc::clone(&self.uptime)).now())
        })
    }

    /// Holds one back, if with all that are held there is one left.
    pub(super) fn hold(&self, key: &K) -> Result<(), Duration> {
        let mut held = self.held.lock();
        let count = held.get(key).copied().unwrap_or(0).saturating_add(1);
        let wanted = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let wait = match self.limiter.check_key_n(&Ask::Look(key.clone()), wanted) {
            Ok(Ok(_)) => {
                held.insert(key.clone(), count);
                return Ok(());
            }
            Ok(Err(not_until)) => not_until.wait_time_from(Passing(Arc::clone(&self.uptime)).now()),
            // Everything there ever is, is held: some of it may come back at once.
            Err(_) => self.period,
        };
        self.metrics.refused();
        Err(wait)
    }

    /// Gives back what was held, or takes it. It is there: time only adds to what was left when it was held.
    pub(super) fn settle(&self, key: &K, takes: bool) {
        let mut held = self.held.lock();
        if takes {
            let _ = self.limiter.check_key(&Ask::Take(key.clone()));
        }
        if let Some(count) = held.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                held.remove(key);
            }
        }
        drop(held);
        self.sweep();
    }

    pub(super) fn status(&self, key: &K) -> QuotaStatus {
        // The look says what would be left after it.
        let after = self.limiter.check_key(&Ask::Look(key.clone()));
        let remaining = after.map_or(0, |state| state.remaining_burst_capacity() + 1);
        let arrival = self.cells.0.lock().get(key).copied().unwrap_or(0);
        let passed = self.uptime.elapsed().saturating_sub(self.start);
        let reset = Duration::from_nanos(arrival).saturating_sub(passed);
        QuotaStatus { name: self.name, limit: self.limit, window: self.period * self.limit, remaining, reset }
    }

    /// Forgets keys that have everything left, each time there are twice as many as after the last time.
    fn sweep(&self) {
        let mut keys = self.limiter.len();
        if keys >= self.sweep_at.load(Ordering::Relaxed) {
            self.limiter.retain_recent();
            keys = self.limiter.len();
            self.sweep_at.store((keys * 2).max(SWEEP_MIN), Ordering::Relaxed);
        }
        self.metrics.keeps(keys);
    }
}

/// The limiter only knows how to take; looking is taking without keeping it.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Ask<K> {
    Look(K),
    Take(K),
}

/// For each key its theoretical arrival time, in nanoseconds since the limiter began.
struct Cells<K>(Arc<Mutex<HashMap<K, u64>>>);

impl<K> Default for Cells<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for Cells<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Hash + Eq + Clone> StateStore for Cells<K> {
    type Key = Ask<K>;

    fn measure_and_replace<T, F, E>(&self, ask: &Ask<K>, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut cells = self.0.lock();
        let (Ask::Look(key) | Ask::Take(key)) = ask;
        let (outcome, arrival) = measure(cells.get(key).copied().map(Nanos::new))?;
        if matches!(ask, Ask::Take(_)) {
            cells.insert(key.clone(), arrival.as_u64());
        }
        Ok(outcome)
    }
}

impl<K: Hash + Eq + Clone> ShrinkableKeyedStateStore<Ask<K>> for Cells<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.lock().retain(|_, arrival| *arrival > drop_below.as_u64());
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

struct Passing(Arc<dyn Uptime>);

impl Clock for Passing {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{ManualClock, Millis};

    use super::*;

    fn quota(count: u32, burst: u32) -> (Arc<ManualClock>, Option<Quota<u32>>) {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(1_000_000)));
        let uptime: Arc<dyn Uptime> = Arc::clone(&clock) as _;
        let quota = Quota::new("test", count, Duration::from_secs(60), burst, &uptime);
        (clock, quota)
    }

    #[test]
    fn a_burst_goes_through_and_one_comes_back_at_a_time() {
        let (clock, quota) = quota(60, 3);
        let quota = quota.unwrap();
        assert_eq!(quota.status(&1).remaining, 3);
        for left in [2, 1, 0] {
            quota.take(&1).unwrap();
            assert_eq!(quota.status(&1).remaining, left);
        }
        assert_eq!(quota.take(&1), Err(Duration::from_secs(1)));
        assert_eq!(quota.take(&2), Ok(()));
        assert_eq!(quota.status(&1).reset, Duration::from_secs(3));
        clock.advance(999);
        assert_eq!(quota.take(&1), Err(Duration::from_millis(1)));
        clock.advance(1);
        quota.take(&1).unwrap();
        assert!(quota.take(&1).is_err());
        clock.advance(3_000);
        assert_eq!(quota.status(&1), QuotaStatus { remaining: 3, reset: Duration::ZERO, ..quota.status(&1) });
    }

    #[test]
    fn what_is_held_is_not_there_for_others_until_it_is_given_back() {
        let (clock, quota) = quota(60, 2);
        let quota = quota.unwrap();
        quota.hold(&1).unwrap();
        quota.hold(&1).unwrap();
        assert!(quota.hold(&1).is_err());
        quota.settle(&1, false);
        quota.hold(&1).unwrap();
        quota.settle(&1, true);
        quota.settle(&1, true);
        assert!(quota.hold(&1).is_err());
        assert!(quota.held.lock().is_empty());
        clock.advance(2_000);
        quota.hold(&1).unwrap();
    }

    #[test]
    fn zero_is_no_limit_and_keys_that_have_everything_left_are_forgotten() {
        assert!(quota(0, 5).1.is_none() && quota(5, 0).1.is_none());
        let (clock, quota) = quota(60, 1);
        let quota = quota.unwrap();
        for key in 0..SWEEP_MIN as u32 - 1 {
            quota.take(&key).unwrap();
        }
        clock.advance(60_000);
        quota.take(&u32::MAX).unwrap();
        assert_eq!(quota.limiter.len(), 1);
    }
}
