//! Sliding windows: how often something happened lately, in a fixed number of buckets.

use entourage_model::Millis;

const BUCKETS: usize = 12;

/// Twelve buckets of `width` milliseconds each, so that an hour is exact to five minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// The number of the newest bucket, counted from 2000.
    newest: u32,
    counts: [u32; BUCKETS],
}

impl Window {
    pub(super) const HOUR: u64 = 60 * 60 * 1_000;

    /// One more at `at`; how many there are in the window of `span` milliseconds that ends then.
    pub(super) fn add(&mut self, at: Millis, span: u64) -> u32 {
        let place = self.slide(at, span);
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.saturating_add(1);
        }
        self.sum()
    }

    fn sum(&self) -> u32 {
        // Summed wide: a saturating sum would take the processor one count at a time.
        let sum: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// Empties what is over, and gives the place of `at`. An event from before the newest bucket, as another server's clock
    /// or another partition may bring, counts as of its own bucket while that is in the window, then as of the oldest.
    fn slide(&mut self, at: Millis, span: u64) -> usize {
        let width = (span / BUCKETS as u64).max(1);
        let bucket = u32::try_from(at.since_2000() / width).unwrap_or(u32::MAX);
        if bucket > self.newest {
            let passed = (bucket - self.newest) as usize;
            if passed >= BUCKETS {
                self.counts = [0; BUCKETS];
            } else {
                self.counts.rotate_right(passed);
                if let Some(fresh) = self.counts.get_mut(..passed) {
                    fresh.fill(0);
                }
            }
            self.newest = bucket;
        }
        ((self.newest - bucket) as usize).min(BUCKETS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Window {
        fn count(&mut self, at: Millis, span: u64) -> u32 {
            self.slide(at, span);
            self.sum()
        }
    }

    fn at(minutes: u64) -> Millis {
        Millis::from_since_2000(800_000_000_000 / 300_000 * 300_000 + minutes * 60_000)
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_bucket_by_bucket() {
        let mut window = Window::default();
        for minute in 0..60 {
            assert_eq!(window.add(at(minute), Window::HOUR), minute as u32 + 1);
        }
        assert_eq!(window.count(at(60), Window::HOUR), 55);
        assert_eq!(window.add(at(64), Window::HOUR), 56);
        assert_eq!(window.count(at(119), Window::HOUR), 1);
        assert_eq!(window.count(at(500), Window::HOUR), 0);
    }

    #[test]
    fn a_late_event_counts_and_moves_nothing() {
        let mut window = Window::default();
        window.add(at(100), Window::HOUR);
        assert_eq!(window.add(at(90), Window::HOUR), 2);
        assert_eq!(window.add(at(0), Window::HOUR), 3);
        // The late ones leave with their buckets.
        assert_eq!(window.count(at(105), Window::HOUR), 2);
        assert_eq!(window.count(at(150), Window::HOUR), 1);
    }
}
