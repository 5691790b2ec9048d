//! Durable follows by concurrent callers, each waiting for its own commit, with and without a concurrent checkpoint.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use entourage_embedded::Store;
use entourage_model::Key;
use entourage_store::StoreExt as _;
use hdrhistogram::Histogram;

use super::{Bench, Subject};
use crate::{
    graph, machine,
    random::{self, scale},
    table::{Row, median},
};

/// The pair of the follow of this number: every number has another one.
type Pairs = Arc<dyn Fn(u64) -> (Key, Key) + Send + Sync>;

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let users = u64::from(subject.graph.users);
    let fresh: Pairs = Arc::new(move |number| {
        let (a, b) = (scale(random::at(41, number * 2), users), scale(random::at(41, number * 2 + 1), users - 1));
        (Key(a as i64), Key(if b >= a { b + 1 } else { b } as i64))
    });
    let from = AtomicU64::new(0);
    bench.with_store(subject.folder, async |store| {
        let seconds = bench.arguments.seconds;
        let mut rows = Vec::new();
        for callers in [1, 16, 256] {
            // Other users of the disk come and go; each figure has the sync cost of its time.
            let (sync, _) = machine::sync_time(bench.place.root())?;
            let mut load = Load { store, callers, seconds, checkpoint: false, pairs: &fresh, from: &from };
            let quiet = load.repeat(bench.arguments.repeat).await?;
            let note = format!("{}; a durable write of 4 KiB took {sync:.0} µs before", quiet.note);
            rows.push(Row::new(format!("durable follows, {callers} callers"), "/s", quiet.rates).note(note));
            if callers == 256 {
                load.checkpoint = true;
                let busy = load.repeat(bench.arguments.repeat).await?;
                rows.push(
                    Row::new("durable follows, 256 callers, during a checkpoint", "/s", busy.rates)
                        .at_least(150e3)
                        .note(busy.note),
                );
                rows.push(
                    Row::new("99th percentile of those commits", "ms", busy.p99).note("while the checkpoint ran"),
                );
            }
        }
        Ok(rows)
    })
}

/// The same onto one target; when everyone follows it, onto the next one.
pub(super) fn measure_target(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let users = u64::from(subject.graph.users);
    let followers = users / 2;
    let pairs: Pairs = Arc::new(move |number| {
        // Targets from the upper half, followers from the lower one.
        let (round, index) = (number / followers, number % followers);
        (Key(index as i64), Key((users - 1 - round) as i64))
    });
    let from = AtomicU64::new(0);
    bench.with_store(subject.folder, async |store| {
        let seconds = bench.arguments.seconds;
        let mut load = Load { store, callers: 256, seconds, checkpoint: false, pairs: &pairs, from: &from };
        let quiet = load.repeat(bench.arguments.repeat).await?;
        load.checkpoint = true;
        let busy = load.repeat(bench.arguments.repeat).await?;
        Ok(vec![
            Row::new("durable follows onto one target, 256 callers", "/s", quiet.rates).note(quiet.note),
            Row::new("durable follows onto one target, during a checkpoint", "/s", busy.rates)
                .at_least(100e3)
                .note(format!("the next target after {followers} followers; {}", busy.note)),
        ])
    })
}

struct Load<'a> {
    store: &'a Arc<Store>,
    callers: usize,
    seconds: f64,
    checkpoint: bool,
    pairs: &'a Pairs,
    /// The number of the next follow.
    from: &'a AtomicU64,
}

struct Runs {
    rates: Vec<f64>,
    p99: Vec<f64>,
    note: String,
}

/// When a commit was acked, and how long it took, in microseconds.
struct Commit {
    end: u32,
    took: u32,
}

impl Load<'_> {
    async fn repeat(&self, times: usize) -> Result<Runs> {
        let (mut rates, mut p99, mut median_ms, mut covered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..times {
            self.store.checkpoint().await?;
            let (commits, window) = self.run().await?;
            let mut histogram = Histogram::<u64>::new(3)?;
            for commit in commits.iter().filter(|commit| window.contains(&commit.end)) {
                histogram.record(u64::from(commit.took))?;
            }
            let seconds = f64::from(window.end - window.start) / 1e6;
            rates.push(histogram.len() as f64 / seconds);
            p99.push(histogram.value_at_quantile(0.99) as f64 / 1e3);
            median_ms.push(histogram.value_at_quantile(0.5) as f64 / 1e3);
            covered.push(seconds);
        }
        let latency = format!("median {:.2} ms, 99th percentile {:.2} ms", median(&median_ms), median(&p99));
        let note = if self.checkpoint {
            format!("{latency}; counted only while the checkpoint ran, {:.1} s", median(&covered))
        } else {
            latency
        };
        Ok(Runs { rates, p99, note })
    }

    /// The commits, and the window that counts: the checkpoint's if there is one, else all of it.
    async fn run(&self) -> Result<(Vec<Commit>, std::ops::Range<u32>)> {
        let stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(self.from.load(Ordering::Relaxed)));
        let started = Instant::now();
        let micros = move || started.elapsed().as_micros() as u32;
        let callers: Vec<_> = (0..self.callers)
            .map(|_| {
                let (store, pairs) = (Arc::clone(self.store), Arc::clone(self.pairs));
                let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
                tokio::spawn(async move {
                    let mut commits = Vec::with_capacity(16 << 10);
                    while !stop.load(Ordering::Relaxed) {
                        let (follower, target) = pairs(next.fetch_add(1, Ordering::Relaxed));
                        let begin = micros();
                        store.commit(graph::follow(follower, target)).await?;
                        let end = micros();
                        commits.push(Commit { end, took: end - begin });
                    }
                    anyhow::Ok(commits)
                })
            })
            .collect();
        let mut window = None;
        if self.checkpoint {
            // Something must have been written for it to have work.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let begin = micros();
            self.store.checkpoint().await?;
            window = Some(begin..micros());
        }
        let rest = Duration::from_secs_f64(self.seconds).saturating_sub(started.elapsed());
        tokio::time::sleep(rest).await;
        let whole = 0..micros();
        stop.store(true, Ordering::Relaxed);
        let mut commits = Vec::new();
        for caller in callers {
            commits.extend(caller.await??);
        }
        self.from.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        ensure!(!commits.is_empty(), "nothing was committed");
        Ok((commits, window.unwrap_or(whole)))
    }
}
