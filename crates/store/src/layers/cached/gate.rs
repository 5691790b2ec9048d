//! When memory may answer: while it is fresh, and no read requires more than it covers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use entourage_model::{Lineage, Sequence, Uptime};
use tokio::sync::watch;

pub(super) struct Gate {
    uptime: Arc<dyn Uptime>,
    lag_max_millis: u64,
    max_stale_millis: u64,
    /// Everything acked up to this moment is in memory; 0 before the first poll.
    fresh: AtomicU64,
    /// Every outcome up to this watermark is in memory.
    covered: AtomicU64,
    /// The lineage of that watermark.
    lineage: AtomicU64,
    /// A read carried this one, and memory is not used before it is covered.
    required: AtomicU64,
    /// Where the log ended when it was last read.
    listed: AtomicU64,
    /// The greatest watermark that this process got from the store itself.
    own: AtomicU64,
    moved: watch::Sender<u64>,
}

impl Gate {
    pub(super) fn new(uptime: Arc<dyn Uptime>, lag_max: Duration, max_stale: Duration) -> Self {
        Self {
            uptime,
            lag_max_millis: millis(lag_max),
            max_stale_millis: millis(max_stale),
            fresh: AtomicU64::new(0),
            covered: AtomicU64::new(0),
            lineage: AtomicU64::new(0),
            required: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            own: AtomicU64::new(0),
            moved: watch::Sender::new(0),
        }
    }

    /// Milliseconds on a monotonic clock, never 0.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        millis(self.uptime.elapsed()).saturating_add(1)
    }

    /// Whether memory may answer at this moment, which is `now`.
    #[inline]
    pub(super) fn is_open(&self, now: u64) -> bool {
        self.age(now, self.lag_max_millis).is_some()
    }

    /// How old memory is at this moment, if it may answer for a store that is away.
    pub(super) fn age_while_away(&self, now: u64) -> Option<Duration> {
        self.age(now, self.max_stale_millis).map(Duration::from_millis)
    }

    #[inline]
    fn age(&self, now: u64, at_most: u64) -> Option<u64> {
        let fresh = self.fresh.load(Ordering::Acquire);
        let age = now.saturating_sub(fresh);
        let has_all = || self.required.load(Ordering::Acquire) <= self.covered.load(Ordering::Acquire);
        (fresh != 0 && age <= at_most && has_all()).then_some(age)
    }

    pub(super) fn covered(&self) -> Sequence {
        Sequence(self.covered.load(Ordering::Acquire))
    }

    pub(super) fn lineage(&self) -> Lineage {
        Lineage(self.lineage.load(Ordering::Acquire))
    }

    pub(super) fn set_lineage(&self, lineage: Lineage) {
        self.lineage.store(lineage.0, Ordering::Release);
    }

    pub(super) fn is_required(&self, watermark: Sequence) -> bool {
        self.required.load(Ordering::Acquire) >= watermark.0
    }

    /// Memory has everything up to here.
    pub(super) fn cover(&self, watermark: Sequence) {
        self.covered.fetch_max(watermark.0, Ordering::AcqRel);
        self.moved.send_replace(watermark.0);
    }

    /// The store is older than it was: earlier watermarks mean nothing.
    pub(super) fn go_back(&self, watermark: Sequence) {
        self.fresh.store(0, Ordering::Release);
        self.covered.store(watermark.0, Ordering::Release);
        self.own.store(0, Ordering::Release);
        let lower = |required: u64| (required != u64::MAX).then_some(required.min(watermark.0));
        // Once closed for good it stays closed.
        let _ = self.required.fetch_update(Ordering::AcqRel, Ordering::Acquire, lower);
        self.moved.send_replace(watermark.0);
    }

    pub(super) fn listed(&self) -> Sequence {
        Sequence(self.listed.load(Ordering::Acquire))
    }

    /// The log was read up to its end, which is here.
    pub(super) fn set_listed(&self, end: Sequence) {
        self.listed.store(end.0, Ordering::Release);
    }

    /// This process has written up to here.
    pub(super) fn wrote(&self, watermark: Sequence) {
        self.own.fetch_max(watermark.0, Ordering::AcqRel);
    }

    /// How long ago memory had everything, this process's own writes included; `None` where that is too long.
    pub(super) fn quiet_for(&self) -> Option<Duration> {
        let is_covered = self.own.load(Ordering::Acquire) <= self.covered.load(Ordering::Acquire);
        (is_covered && self.is_open(self.now())).then(|| self.lag())
    }

    /// Memory is not used until it has this.
    pub(super) fn require(&self, watermark: Sequence) {
        self.required.fetch_max(watermark.0, Ordering::AcqRel);
    }

    /// Whether memory has everything up to here, now or within `patience`.
    pub(super) async fn wait(&self, watermark: Sequence, patience: Duration) -> bool {
        let mut moved = self.moved.subscribe();
        let covered = async { while self.covered() < watermark && moved.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(patience, covered).await;
        self.covered() >= watermark
    }

    /// Everything acked before this moment of [`Self::now`] is in memory.
    pub(super) fn refresh(&self, moment: u64) {
        self.fresh.fetch_max(moment, Ordering::AcqRel);
    }

    /// For good: nothing keeps memory up to date any more.
    pub(super) fn close(&self) {
        self.required.store(u64::MAX, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.required.load(Ordering::Acquire) == u64::MAX
    }

    pub(super) fn lag(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.fresh.load(Ordering::Acquire)))
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use entourage_model::{ManualClock, Millis};

    use super::*;

    #[test]
    fn it_is_open_while_the_news_are_young_and_cover_what_was_asked_for() {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(0)));
        let gate = Gate::new(Arc::clone(&clock) as _, Duration::from_secs(2), Duration::from_secs(60));
        let age = || gate.age_while_away(gate.now());
        let is_open = || gate.is_open(gate.now());
        assert!(!is_open() && age().is_none(), "nothing is known yet");
        gate.refresh(gate.now());
        assert!(is_open());
        clock.advance(2_000);
        assert!(is_open());
        clock.advance(1);
        assert!(!is_open(), "two seconds are over");
        assert_eq!(age(), Some(Duration::from_millis(2_001)), "for a store that is away that is good enough");
        clock.advance(57_999);
        assert_eq!(age(), Some(Duration::from_secs(60)));
        clock.advance(1);
        assert_eq!(age(), None, "too old for everything");
        gate.refresh(gate.now());
        gate.require(Sequence(7));
        gate.cover(Sequence(6));
        assert!(!is_open() && age().is_none());
        gate.cover(Sequence(7));
        assert!(is_open());
        gate.require(Sequence(9));
        gate.go_back(Sequence(3));
        assert_eq!(gate.covered(), Sequence(3));
        assert!(!is_open(), "nothing is known of the store as it is now");
        gate.refresh(gate.now());
        assert!(is_open(), "nobody waits for what the store no longer has");
        gate.close();
        gate.go_back(Sequence(1));
        gate.refresh(gate.now());
        gate.cover(Sequence(1_000));
        assert!(!is_open() && age().is_none());
    }
}
