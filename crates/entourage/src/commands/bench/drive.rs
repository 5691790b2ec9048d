//! Keeps the schedule. Latency counts from when a request was due, not from when it could be sent, so that waiting
//! behind a late response counts too.

use std::{
    collections::BTreeMap,
    sync::{Barrier, OnceLock},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use hdrhistogram::Histogram;

use super::{
    draw::{Draw, NAMES},
    lane::Lane,
    server::{Seen, Watched},
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

/// Responses of one kind: nanoseconds since each was due.
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
    pub(super) fn new(began: Instant) -> Result<Self> {
        let kind = || -> Result<Kind> {
            let times = Histogram::new_with_max(LONGEST.as_nanos() as u64, DIGITS)?;
            Ok(Kind { times, errors: BTreeMap::new() })
        };
        Ok(Self { kinds: NAMES.iter().map(|_| kind()).collect::<Result<_>>()?, last: None, began })
    }

    pub(super) fn record(&mut self, number: usize, took: Duration, error: Option<String>) {
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

    /// From the first that was due to the last response.
    pub(super) fn seconds(&self) -> f64 {
        self.last.map_or(0.0, |last| last.duration_since(self.began).as_secs_f64())
    }
}

/// When the schedule begins, when what is measured begins, and when no more is due.
#[derive(Clone, Copy)]
pub(super) struct Times {
    start: Instant,
    pub(super) began: Instant,
    pub(super) end: Instant,
}

pub(super) fn run(protocol: &Protocol, draw: &Draw, plan: &Plan, watched: &Watched<'_>) -> Result<(Stats, Seen)> {
    // A server on this machine has the other half of the processors; more threads would only contend.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors / 2).clamp(1, plan.connections);
    let (ready, times) = (&Barrier::new(threads + 1), &OnceLock::new());
    thread::scope(|scope| {
        let lane = |first| {
            scope.spawn(move || {
                let lane = Lane::connect(protocol, draw, plan, (first..plan.connections).step_by(threads));
                ready.wait();
                ready.wait();
                lane?.run(*times.get().context("the schedule was not made")?)
            })
        };
        let lanes: Vec<_> = (0..threads).map(lane).collect();
        ready.wait();
        // All are connected and read this after the second barrier.
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
            stats.add(&lane.join().map_err(|_| anyhow!("a thread of connections ended early"))??)?;
        }
        Ok((stats, Watched::between(&before?, &after?)))
    })
}

impl Plan {
    /// How many requests of a connection are due, up to the pipeline depth: at least one.
    pub(super) fn due_by(&self, times: &Times, index: usize, now: Instant, sent: u64) -> usize {
        if self.rate == 0 {
            return self.pipeline;
        }
        let more = (1..self.pipeline as u64).take_while(|ahead| {
            let due = self.due(times, index, sent + ahead);
            due <= now && due < times.end
        });
        1 + more.count()
    }

    /// When the request after `sent` others of a connection is due.
    pub(super) fn due(&self, times: &Times, index: usize, sent: u64) -> Instant {
        if self.rate == 0 {
            return Instant::now();
        }
        let number = u128::from(sent) * self.connections as u128 + index as u128;
        let nanos = number * 1_000_000_000 / u128::from(self.rate);
        times.start + Duration::from_nanos(nanos as u64)
    }
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
