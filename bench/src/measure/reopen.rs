//! Reopening: after a close, and after a kill with a million writes since the last checkpoint.

use anyhow::{Result, ensure};

use super::{Bench, Subject};
use crate::{
    child::{self, Freed},
    place,
    table::Row,
};

const WRITES: u64 = 1_000_000;

pub(super) fn clean(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let (mut warm, mut cold) = (Vec::new(), Vec::new());
    for _ in 0..bench.arguments.repeat {
        let opened = child::open(subject.folder, Freed::Kept)?;
        ensure!(opened.edges == subject.graph.edges(), "{} edges came back", opened.edges);
        warm.push(opened.seconds);
        place::cool(subject.folder)?;
        cold.push(child::open(subject.folder, Freed::Kept)?.seconds);
    }
    let goal = goal(subject, 3.0);
    Ok(vec![
        Row::new("reopen after close", "s", warm).at_most(goal).note("to the first answer, in a new process"),
        Row::new("reopen after close, files not in memory", "s", cold).at_most(goal),
    ])
}

pub(super) fn killed(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let before = bench.with_store(subject.folder, async |store| Ok(store.edges()))?;
    let durable = child::write_and_kill(subject.folder, subject.graph.users, 99, WRITES)?;
    let mut seconds = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let opened = child::open(subject.folder, Freed::Kept)?;
        ensure!(opened.edges >= before + durable, "{} acked edges, {} came back", before + durable, opened.edges);
        seconds.push(opened.seconds);
    }
    Ok(vec![
        Row::new("reopen after kill", "s", seconds)
            .at_most(goal(subject, 5.0))
            .note(format!("{durable} writes since the checkpoint; none of them lost")),
    ])
}

/// At ten times the edges five seconds are allowed.
fn goal(subject: &Subject<'_>, usual: f64) -> f64 {
    if subject.graph.edges() > 20_000_000 { 5.0 } else { usual }
}
