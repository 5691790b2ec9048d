//! Checks: `peek` on pairs in random order, prepared beforehand; one in five is an edge.

use std::{thread, time::Instant};

use anyhow::{Result, ensure};
use entourage_model::{Key, Kind};
use entourage_store::{Answer, Store, StoreExt as _};

use super::{Bench, Subject};
use crate::{graph::Graph, random::Random, table::Row};

pub(super) const CHECKS: usize = 4_000_000;

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let (pairs, edges) = pairs(subject.graph);
    let goal = if subject.graph.edges() > 20_000_000 { 1.2e6 } else { 2e6 };
    bench.with_store(subject.folder, async |store| {
        let mut rows = Vec::new();
        for (threads, batch) in [(1, 1), (2, 1), (1, 16), (1, 100), (1, 1_000)] {
            let mut runs = Vec::new();
            for _ in 0..bench.arguments.repeat {
                let (seconds, yes) = run(&**store, &pairs, threads, batch)?;
                ensure!(yes == edges, "{yes} checks said yes, {edges} are edges");
                runs.push((CHECKS / threads) as f64 / seconds);
            }
            let plural = if threads == 1 { "" } else { "s" };
            let name = match batch {
                1 => format!("checks a thread, {threads} thread{plural}"),
                _ => format!("checks a thread, {batch} at once"),
            };
            let note = format!("{CHECKS} pairs in random order, 20 % edges");
            rows.push(Row::new(name, "/s", runs).at_least(goal).note(note));
        }
        Ok(rows)
    })
}

/// Pairs to check, and how many of them are edges.
pub(super) struct Asked {
    pairs: Vec<(Key, Key)>,
    edges: usize,
}

impl Asked {
    pub(super) fn of(graph: &Graph) -> Self {
        let (pairs, edges) = pairs(graph);
        Self { pairs, edges }
    }

    /// Checks a second of one thread, one at a time.
    pub(super) fn one_by_one(&self, store: &impl Store) -> Result<f64> {
        let (seconds, yes) = run(store, &self.pairs, 1, 1)?;
        ensure!(yes == self.edges, "{yes} checks said yes, {} are edges", self.edges);
        Ok(CHECKS as f64 / seconds)
    }
}

/// The queries, and how many of them are edges.
pub(super) fn pairs(graph: &Graph) -> (Vec<(Key, Key)>, usize) {
    let mut random = Random::new(31);
    let users = u64::from(graph.users);
    let mut edges = 0;
    let mut pairs = Vec::with_capacity(CHECKS);
    while pairs.len() < CHECKS {
        if pairs.len() % 5 == random.below(5) as usize {
            pairs.push(graph.edge(random.below(graph.edges()) as usize));
            edges += 1;
        } else {
            let (a, b) = (random.below(users) as u32, random.below(users) as u32);
            if !graph.follows(a, b) {
                pairs.push((Key(a.into()), Key(b.into())));
            }
        }
    }
    (pairs, edges)
}

/// Seconds, and how many said yes.
pub(super) fn run(store: &impl Store, pairs: &[(Key, Key)], threads: usize, batch: usize) -> Result<(f64, usize)> {
    let started = Instant::now();
    let yes = thread::scope(|scope| -> Result<usize> {
        let workers: Vec<_> = pairs
            .chunks(pairs.len().div_ceil(threads))
            .map(|own| scope.spawn(move || check(store, own, batch)))
            .collect();
        let mut yes = 0;
        for worker in workers {
            yes += worker.join().map_err(|_| anyhow::anyhow!("a checking thread panicked"))?;
        }
        Ok(yes)
    })?;
    Ok((started.elapsed().as_secs_f64(), yes))
}

fn check(store: &impl Store, pairs: &[(Key, Key)], batch: usize) -> usize {
    if batch == 1 {
        return pairs.iter().filter(|(a, b)| store.peek(Kind::Follow, *a, *b) == Answer::Yes).count();
    }
    let mut answers = vec![Answer::Unknown; batch];
    let mut yes = 0;
    for some in pairs.chunks(batch) {
        let answers = &mut answers[..some.len()];
        store.peek_all(Kind::Follow, some, answers);
        yes += answers.iter().filter(|answer| **answer == Answer::Yes).count();
    }
    yes
}
