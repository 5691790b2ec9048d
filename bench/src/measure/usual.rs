//! `redis-benchmark` against this program and Redis, in turn.

use anyhow::Result;

use super::{Bench, Subject};
use crate::{
    peers::{Peer, Usual, ask_usually},
    table::{Row, median},
};

const PIPELINES: [usize; 3] = [1, 16, 100];
const MEMBERS: usize = 50;
/// One member in this many is one.
const HIT: usize = 5;

/// A user whose row is neither the first nor the last.
const FOLLOWER: u32 = 4_711;

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>, redis: &Peer, own: &Peer) -> Result<Vec<Row>> {
    let follower = FOLLOWER % subject.graph.users;
    let each = subject.graph.edges() as usize / subject.graph.users as usize;
    let follows = |index: usize| subject.graph.edge(follower as usize * each + index % each).1.0;
    let others = (0..subject.graph.users).filter(|other| !subject.graph.follows(follower, *other));
    let mut others = others.step_by((subject.graph.users as usize / MEMBERS / 2).max(1)).map(i64::from);
    let members: Vec<i64> =
        (0..MEMBERS).filter_map(|index| if index % HIT == 0 { Some(follows(index)) } else { others.next() }).collect();
    let command = |name: &str, members: &[i64]| -> Vec<String> {
        let mut words = vec![name.to_owned(), format!("following:{follower}")];
        words.extend(members.iter().map(i64::to_string));
        words
    };
    let commands =
        [("SISMEMBER", command("SISMEMBER", &members[1..2])), ("SMISMEMBER of 50", command("SMISMEMBER", &members))];
    let mut rows = Vec::new();
    for (name, words) in commands {
        for pipeline in PIPELINES {
            let name = format!("redis-benchmark, {name}, {pipeline} at once");
            rows.extend(compare(bench, &name, &words, pipeline, [redis, own])?);
        }
    }
    Ok(rows)
}

fn compare(bench: &Bench<'_>, name: &str, words: &[String], pipeline: usize, peers: [&Peer; 2]) -> Result<[Row; 2]> {
    let mut runs: [Vec<Usual>; 2] = Default::default();
    for _ in 0..bench.arguments.repeat {
        for (peer, runs) in peers.into_iter().zip(&mut runs) {
            runs.push(ask_usually(peer, words, pipeline, bench.arguments.seconds)?);
        }
    }
    let [redis, own] = runs;
    let ratios = |of: fn(&Usual) -> f64| own.iter().zip(&redis).map(|(own, redis)| of(own) / of(redis)).collect();
    let said = |name: &str, runs: &[Usual]| {
        let middle = |of: fn(&Usual) -> f64| median(&runs.iter().map(of).collect::<Vec<f64>>());
        format!("{name} {:.0}/s, {:.2} µs", middle(|run| run.rate), middle(|run| run.processor))
    };
    let note = format!("{}; {}; the same command all the time", said("Entourage", &own), said("Redis", &redis));
    Ok([
        Row::new(format!("{name}: processor time of Redis's"), "×", ratios(|run| run.processor)).note(note),
        Row::new(format!("{name}: throughput of Redis's"), "×", ratios(|run| run.rate)),
    ])
}
