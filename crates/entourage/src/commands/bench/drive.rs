//! Keeps the schedule. What is due while an answer is late waits, and that wait counts: time runs from when a request
//! was due, not from when it could be sent.

use std::{
    collections::BTreeMap,
    sync::{Barrier, OnceLock},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use rand::{SeedableRng as _, rngs::SmallRng};

use super::{
    draw::{Draw, NAMES},
    server::{Seen, Watched},
    supply::Supply,
    wire::Protocol,
};

const LONGEST: Duration = Duration::from_secs(60);
const DIGITS: u8 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Requests a second of all connections together; 0 is as fast as answers come.
    pub(super) rate: u64,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    pub(super) seed: u64,
    /// Requests of each connection that are drawn beforehand and sent over and over; 0 draws each as it is sent.
    pub(super) prepare: usize,
}

/// Answers of one kind: nanoseconds since each was due.
pub(super) struct Kind {
    pub(super) times: Histogram<u64>,
    pub(super) errors: BTreeMap<String, u64>,
}

pub(super) struct Stats {
    pub(super) kinds: Vec<Kind>,
    pub(super) last: Option<Instant>,
    pub(super) began: Instant,
}

impl Stats {
    fn new(began: Instant) -> Result<Self> {
        let kind = || -> Result<Kind> {
            let times = Histogram::new_with_max(LONGEST.as_nanos() as u64, DIGITS)?;
            Ok(Kind { times, errors: BTreeMap::new() })
        };
        Ok(Self { kinds: NAMES.iter().map(|_| kind()).collect::<Result<_>>()?, last: None, began })
    }

    fn record(&mut self, number: usize, took: Duration, error: Option<String>) {
        let Some(kind) = self.kinds.get_mut(number) else { return };
        kind.times.saturating_record(took.as_nanos() as u64);
        if let Some(error) = error {
            *kind.errors.entry(error).or_default() += 1;
        }
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.times.add(&other.times)?;
            for (error, count) in &other.errors {
                *kind.errors.entry(error.clone()).or_default() += count;
            }
        }
        self.last = self.last.max(other.last);
        Ok(())
    }

    pub(super) fn count(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.times.len()).sum()
    }

    pub(super) fn all(&self) -> Result<Histogram<u64>> {
        let mut all = Histogram::new_with_max(LONGEST.as_nanos() as u64, DIGITS)?;
        self.kinds.iter().try_for_each(|kind| all.add(&kind.times))?;
        Ok(all)
    }

    /// From the first that was due to the last answer.
    pub(super) fn seconds(&self) -> f64 {
        self.last.map_or(0.0, |last| last.duration_since(self.began).as_secs_f64())
    }
}

pub(super) fn run(protocol: &Protocol, draw: &Draw, plan: &Plan, watched: &Watched<'_>) -> Result<(Stats, Seen)> {
    let (ready, times) = (&Barrier::new(plan.connections + 1), &OnceLock::new());
    thread::scope(|scope| {
        let lane = |index| scope.spawn(move || Lane { draw, plan, index }.run(protocol, ready, times));
        let lanes: Vec<_> = (0..plan.connections).map(lane).collect();
        ready.wait();
        // Everybody is connected and looks at this behind the second wait.
        let start = Instant::now();
        let began = start + plan.warm_up;
        let end = began + plan.measured;
        times.get_or_init(|| Times { start, began, end });
        ready.wait();
        sleep_until(began);
        let before = watched.look();
        sleep_until(end);
        let after = watched.look();
        let mut stats = Stats::new(began)?;
        for lane in lanes {
            stats.add(&lane.join().map_err(|_| anyhow!("a connection's thread ended early"))??)?;
        }
        Ok((stats, Watched::between(&before?, &after?)))
    })
}

/// When the schedule begins, when what is measured begins, and when no more is due.
#[derive(Clone, Copy)]
struct Times {
    start: Instant,
    began: Instant,
    end: Instant,
}

/// One connection and its share of the schedule.
struct Lane<'a> {
    draw: &'a Draw,
    plan: &'a Plan,
    index: usize,
}

impl Lane<'_> {
    fn run(&self, protocol: &Protocol, ready: &Barrier, times: &OnceLock<Times>) -> Result<Stats> {
        let random = SmallRng::seed_from_u64(self.plan.seed ^ (self.index as u64 + 1) << 32);
        let supply = Supply::new(protocol, self.draw, random, self.plan.prepare);
        let connection = protocol.connect();
        ready.wait();
        ready.wait();
        let times = *times.get().context("the schedule was not made")?;
        let (mut supply, mut connection, mut stats) = (supply?, connection?, Stats::new(times.began)?);
        let mut sent = 0;
        loop {
            let first = self.due(&times, sent);
            if first >= times.end {
                return Ok(stats);
            }
            sleep_until(first);
            let now = Instant::now();
            let batch = supply.take(self.due_by(&times, now, sent))?;
            connection.send(batch.bytes)?;
            for (ahead, &kind) in (0..).zip(batch.kinds) {
                let answer = connection.answer().context("while load was made")?;
                let due = if self.plan.rate == 0 { now } else { self.due(&times, sent + ahead) };
                let answered = Instant::now();
                if due >= times.began {
                    stats.record(kind, answered.saturating_duration_since(due), answer.error);
                    stats.last = Some(answered);
                }
            }
            sent += batch.kinds.len() as u64;
        }
    }

    /// How many requests of this connection are due by now, as far as they may go together: at least one.
    fn due_by(&self, times: &Times, now: Instant, sent: u64) -> usize {
        if self.plan.rate == 0 {
            return self.plan.pipeline;
        }
        let more = (1..self.plan.pipeline as u64).take_while(|ahead| {
            let due = self.due(times, sent + ahead);
            due <= now && due < times.end
        });
        1 + more.count()
    }

    /// When the request after `sent` others of this connection is due.
    fn due(&self, times: &Times, sent: u64) -> Instant {
        if self.plan.rate == 0 {
            return Instant::now();
        }
        let number = u128::from(sent) * self.plan.connections as u128 + self.index as u128;
        let nanos = number * 1_000_000_000 / u128::from(self.plan.rate);
        times.start + Duration::from_nanos(nanos as u64)
    }
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
