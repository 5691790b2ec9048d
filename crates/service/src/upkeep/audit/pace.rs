//! How fast an audit goes: it rests after each step for a multiple of the time the step took.

use std::time::{Duration, Instant};

/// Rows after which it rests.
const STEP_ROWS: usize = 2_000;
/// Before anything is known of how long a pass takes.
const FIRST_REST: f64 = 9.0;
/// Never more than half of the time, never less than one part in fifty.
const REST_MIN: f64 = 1.0;
const REST_MAX: f64 = 49.0;
/// A part of the interval is left over for what grows.
const OF_INTERVAL: f64 = 0.8;

#[derive(Debug)]
pub(crate) struct Pace {
    interval: Option<Duration>,
    rest: f64,
    rows: usize,
    step_began: Option<Instant>,
    /// Work of this pass so far.
    worked: Duration,
}

impl Pace {
    pub(crate) const fn unlimited() -> Self {
        Self { interval: None, rest: 0.0, rows: 0, step_began: None, worked: Duration::ZERO }
    }

    pub(super) const fn within(interval: Duration) -> Self {
        Self { interval: Some(interval), rest: FIRST_REST, ..Self::unlimited() }
    }

    /// Called after each look at some rows.
    pub(super) async fn did(&mut self, rows: usize) {
        let Some(interval) = self.interval else { return };
        let began = *self.step_began.get_or_insert_with(Instant::now);
        self.rows += rows.max(1);
        if self.rows < STEP_ROWS {
            return;
        }
        let took = began.elapsed();
        self.worked += took;
        self.rows = 0;
        tokio::time::sleep(took.mul_f64(self.rest).min(interval)).await;
        self.step_began = Some(Instant::now());
    }

    /// The next pass rests as much as its interval leaves it, if it is as long as this one.
    pub(super) fn next_pass(&mut self) {
        if let Some(interval) = self.interval {
            self.rest = rest(interval, self.worked);
        }
        (self.worked, self.rows, self.step_began) = (Duration::ZERO, 0, None);
    }
}

fn rest(interval: Duration, worked: Duration) -> f64 {
    let (interval, worked) = (interval.as_secs_f64() * OF_INTERVAL, worked.as_secs_f64().max(0.001));
    ((interval - worked) / worked).clamp(REST_MIN, REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_fill_the_interval_within_bounds() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(rest(hour, Duration::from_secs(1)), REST_MAX);
        assert_eq!(rest(hour, Duration::from_secs(3_500)), REST_MIN);
        let worked = Duration::from_secs(288);
        let whole = worked.mul_f64(1.0 + rest(hour, worked));
        assert!(whole.abs_diff(hour.mul_f64(OF_INTERVAL)) < Duration::from_secs(1), "{whole:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unlimited_pass_does_not_rest() {
        let began = tokio::time::Instant::now();
        let mut pace = Pace::unlimited();
        pace.did(1_000_000).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
