//! Over RESP, beside Redis and a no-op server: the same client, the same graph, in turn.

use anyhow::Result;

use super::{Bench, Subject, durable, usual};
use crate::{
    peers::{Load, Peer, ask},
    table::{Row, median},
};

/// As many as the usual client opens.
pub(super) const CONNECTIONS: usize = 50;
/// Checks of each connection, drawn beforehand.
const PREPARED: f64 = 20_000.0;

/// One kind of query, and its goal against Redis.
struct Question {
    name: &'static str,
    command: &'static str,
    pipeline: usize,
    /// How many checks one command has.
    each: f64,
    /// Of Redis's processor time for a command, at most.
    processor: f64,
    /// Of Redis's throughput, at least.
    throughput: Option<f64>,
    /// Commands a second, at least.
    rate: Option<f64>,
}

const CHECK: &str = "SISMEMBER following:{follower} {target}";

const QUESTIONS: [Question; 4] = [
    Question {
        name: "SISMEMBER, 1 at once",
        command: CHECK,
        pipeline: 1,
        each: 1.0,
        processor: 1.1,
        throughput: None,
        rate: None,
    },
    Question {
        name: "SISMEMBER, 16 at once",
        command: CHECK,
        pipeline: 16,
        each: 1.0,
        processor: 0.75,
        throughput: None,
        rate: None,
    },
    Question {
        name: "SISMEMBER, 100 at once",
        command: CHECK,
        pipeline: 100,
        each: 1.0,
        processor: 0.5,
        throughput: Some(1.3),
        rate: Some(580e3),
    },
    Question {
        name: "SMISMEMBER of 50, 16 at once",
        command: "SMISMEMBER following:{follower} {targets:50}",
        pipeline: 16,
        each: 50.0,
        processor: 0.33,
        throughput: None,
        rate: None,
    },
];

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let (null, redis, own) =
        (Peer::null()?, Peer::redis(bench.place.fresh("redis")?)?, Peer::entourage(subject.folder)?);
    redis.fill(subject.graph)?;
    let mut rows = Vec::new();
    for question in QUESTIONS {
        rows.extend(compare(bench, subject, &question, [&null, &redis, &own])?);
    }
    rows.extend(usual::measure(bench, subject, &redis, &own)?);
    for peer in [null, redis, own] {
        peer.stop()?;
    }
    rows.extend(durable::measure(bench, subject)?);
    Ok(rows)
}

fn compare(bench: &Bench<'_>, subject: &Subject<'_>, question: &Question, peers: [&Peer; 3]) -> Result<Vec<Row>> {
    let (users, seconds) = (subject.graph.users.to_string(), bench.arguments.seconds.ceil().to_string());
    let prepared = (PREPARED / question.each).to_string();
    let more = ["--users", &users, "--seconds", &seconds, "--warm-up", "1", "--prepare", &prepared];
    let mut loads: [Vec<Load>; 3] = Default::default();
    for _ in 0..bench.arguments.repeat {
        // In turn, so that noise on the machine hits all of them.
        for (peer, loads) in peers.iter().zip(&mut loads) {
            // The no-op server has no sets to read follows from.
            let more: Vec<&str> =
                if peer.name == "nothing" { [&more[..], &["--negative", "100"]].concat() } else { more.into() };
            loads.push(ask(peer, question.command, CONNECTIONS, question.pipeline, &more)?);
        }
    }
    let [null, redis, own] = loads;
    let pick = |loads: &[Load], of: fn(&Load) -> f64| loads.iter().map(of).collect::<Vec<f64>>();
    let ratios = |of: fn(&Load) -> f64| own.iter().zip(&redis).map(|(own, redis)| of(own) / of(redis)).collect();
    let said = |name: &str, loads: &[Load]| {
        let (rate, processor) = (median(&pick(loads, |load| load.rate)), median(&pick(loads, |load| load.processor)));
        let p99 = median(&pick(loads, |load| load.p99));
        let member = if question.each > 1.0 {
            format!(" ({:.3} µs a member)", processor / question.each)
        } else {
            String::new()
        };
        format!("{name} {rate:.0}/s, {processor:.2} µs{member}, p99 {:.1} ms", p99 / 1e3)
    };
    let note = [said("Entourage", &own), said("Redis", &redis), said("nothing", &null)].join("; ");
    let name = question.name;
    let mut rows = vec![
        Row::new(format!("{name}: processor time of Redis's"), "×", ratios(|load| load.processor))
            .at_most(question.processor)
            .note(note),
    ];
    let throughput = Row::new(format!("{name}: throughput of Redis's"), "×", ratios(|load| load.rate));
    rows.push(match question.throughput {
        Some(goal) => throughput.at_least(goal),
        None => throughput,
    });
    let rate = Row::new(name, "/s", pick(&own, |load| load.rate));
    rows.push(match question.rate {
        Some(goal) => rate.at_least(goal),
        None if question.each > 1.0 => rate.note(format!("{} checks in each", question.each)),
        None => rate,
    });
    Ok(rows)
}
