//! The database's time: how far this process's clock is from it, and what follows from that.
//!
//! Statements that are sent anyway bring the time with them: those of a heartbeat, of a commit, of a lease and of a health
//! check. What expires is judged by the time that the same transaction was told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Clock, Error, Millis, Result};
use metrics::Gauge;
use parking_lot::Mutex;

use super::{Engine, error::Failure};

/// A clock that differs from the database's by more is wrong, and a version that is further ahead is not stored.
pub const SKEW_MAX: Duration = Duration::from_secs(5);
const SKEW_MAX_MILLIS: u64 = SKEW_MAX.as_millis() as u64;
/// How often a process whose clock is wrong asks again because of a write.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The database's time in milliseconds since 2000, as versions have it.
macro_rules! database_millis {
    () => {
        "((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 946684800000)"
    };
}
pub(super) use database_millis;

const ASK: &str = concat!("SELECT ", database_millis!());

/// Whose clock says what time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    #[default]
    Database,
    /// The one given at connect, unquestioned: for tests that turn it.
    Given,
}

pub(super) struct Time {
    own: Arc<dyn Clock>,
    source: TimeSource,
    /// How far the own clock is ahead, in milliseconds.
    ahead: AtomicI64,
    is_wrong: AtomicBool,
    asked: Mutex<Option<Instant>>,
    gauge: Gauge,
}

impl Time {
    pub(super) fn new(own: Arc<dyn Clock>, source: TimeSource) -> Self {
        let (ahead, is_wrong, asked) = (AtomicI64::new(0), AtomicBool::new(false), Mutex::new(None));
        Self { own, source, ahead, is_wrong, asked, gauge: metrics::gauge!("entourage_clock_skew_seconds") }
    }

    /// By the own clock, before a statement that brings the database's time.
    pub(super) fn begin(&self) -> Millis {
        self.own.now()
    }

    /// The database's time, which its answer had, of some moment since `began`.
    pub(super) fn learn(&self, began: Millis, database: i64) -> Millis {
        let ended = self.own.now();
        if self.source == TimeSource::Given {
            return ended;
        }
        let lead = |own: Millis| (own.since_2000() as i64).saturating_sub(database);
        // The answer was made between the two; how long each way took is not known.
        let (least, most) = (lead(began).min(lead(ended)), lead(began).max(lead(ended)));
        let ahead = self.ahead.load(Ordering::Relaxed).clamp(least, most);
        self.ahead.store(ahead, Ordering::Relaxed);
        *self.asked.lock() = Some(Instant::now());
        self.gauge.set(ahead as f64 / 1_000.0);
        // A slow answer makes no clock wrong.
        let is_wrong = 0_i64.clamp(least, most).unsigned_abs() > SKEW_MAX_MILLIS;
        if is_wrong != self.is_wrong.swap(is_wrong, Ordering::AcqRel) {
            match is_wrong {
                true => tracing::warn!("{}", self.complaint()),
                false => tracing::warn!("this server's clock agrees with PostgreSQL's again; writes are taken"),
            }
        }
        Millis::from_since_2000(database.max(0).unsigned_abs())
    }

    /// Why no write is taken, if the clock is wrong.
    pub(super) fn wrong(&self) -> Option<String> {
        self.is_wrong.load(Ordering::Acquire).then(|| self.complaint())
    }

    pub(super) fn refuse_when_wrong(&self) -> Result<()> {
        self.wrong().map_or(Ok(()), |detail| Err(Error::unavailable(detail)))
    }

    fn complaint(&self) -> String {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let seconds = ahead.unsigned_abs() as f64 / 1_000.0;
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        format!(
            "this server's clock is {seconds:.1} s {side} PostgreSQL's, {} s at most are fine: it takes no writes until \
             one of the two is set right (NTP)",
            SKEW_MAX.as_secs()
        )
    }

    fn is_due(&self) -> bool {
        self.asked.lock().is_none_or(|asked| asked.elapsed() >= ASK_AGAIN)
    }
}

/// The database's time, as far as this process knows it between two answers.
impl Clock for Time {
    fn now(&self) -> Millis {
        let own = self.own.now().since_2000();
        Millis::from_since_2000(own.saturating_add_signed(self.ahead.load(Ordering::Relaxed).saturating_neg()))
    }
}

/// The latest moment that a version may name now.
pub(super) fn latest(database: Millis) -> Millis {
    database.plus(SKEW_MAX_MILLIS)
}

impl Engine {
    pub(super) async fn ask_time(&self) -> Result<Millis, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(ASK).await?;
        let began = self.time.begin();
        Ok(self.time.learn(began, client.query_one(&statement, &[]).await?.get(0)))
    }

    /// Before a write. A clock that was wrong is looked at again now and then, also where no heartbeats are sent.
    pub(super) async fn must_know_the_time(&self) -> Result<()> {
        if self.time.wrong().is_some() && self.time.is_due() {
            self.ask_time().await?;
        }
        self.time.refuse_when_wrong()
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::ManualClock;

    use super::*;

    const DATABASE: i64 = 1_000_000_000;

    fn at(millis: i64) -> (Arc<ManualClock>, Time) {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(millis.unsigned_abs())));
        (Arc::clone(&clock), Time::new(clock, TimeSource::Database))
    }

    #[test]
    fn a_difference_of_more_than_five_seconds_is_wrong_until_it_is_not() {
        for (difference, is_wrong) in
            [(0, false), (5_000, false), (-5_000, false), (5_001, true), (-5_001, true), (691_200_000, true)]
        {
            let (clock, time) = at(DATABASE + difference);
            let now = time.learn(time.begin(), DATABASE);
            assert_eq!((now.since_2000() as i64, time.now().since_2000() as i64), (DATABASE, DATABASE));
            assert_eq!(time.wrong().is_some(), is_wrong, "{difference}");
            assert_eq!(time.refuse_when_wrong().is_err(), is_wrong, "{difference}");
            clock.set(Millis::from_since_2000(DATABASE as u64));
            time.learn(time.begin(), DATABASE);
            assert!(time.wrong().is_none(), "{difference}");
        }
        let (_, time) = at(DATABASE - 3_600_000);
        time.learn(time.begin(), DATABASE);
        let complaint = time.wrong().unwrap();
        assert!(complaint.contains("3600.0 s behind"), "{complaint}");
    }

    #[test]
    fn a_slow_answer_makes_no_clock_wrong_and_moves_it_no_further_than_it_must() {
        let (clock, time) = at(DATABASE);
        // The answer took a minute, and the database said the time when it began, or when it ended.
        for database in [DATABASE, DATABASE + 60_000] {
            clock.set(Millis::from_since_2000(DATABASE as u64));
            let began = time.begin();
            clock.advance(60_000);
            time.learn(began, database);
            assert!(time.wrong().is_none());
            assert_eq!(time.now(), clock.now());
        }
        // Even so it is an hour ahead.
        let began = time.begin();
        clock.advance(60_000);
        time.learn(began, DATABASE - 3_600_000);
        assert!(time.wrong().is_some());
    }

    #[test]
    fn a_clock_that_is_given_is_not_questioned() {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(7)));
        let time = Time::new(Arc::clone(&clock) as _, TimeSource::Given);
        assert_eq!(time.learn(time.begin(), DATABASE), clock.now());
        assert_eq!((time.now(), time.wrong()), (clock.now(), None));
    }
}
