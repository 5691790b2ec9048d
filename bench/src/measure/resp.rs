//! Over RESP, beside Redis and a server that does nothing: the same client, the same graph, in turn.

use anyhow::Result;

use super::{Bench, Subject, usual};
use crate::{
    peers::{Load, Peer, Postgres, ask, ask_anyway},
    table::{Row, median, number},
};

/// As many as the usual client opens.
const CONNECTIONS: usize = 50;
/// Checks of each connection that are drawn before.
const PREPARED: f64 = 20_000.0;
/// Medians are of at least so many.
const ROUNDS: usize = 5;

/// One way of asking, and how it is to compare with Redis.
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
        (Peer::null()?, Peer::redis(bench.place.fresh("redis")?, false)?, Peer::entourage(subject.folder)?);
    redis.fill(subject.graph)?;
    let mut rows = Vec::new();
    for question in QUESTIONS {
        rows.extend(compare(bench, subject, &question, [&null, &redis, &own])?);
    }
    rows.extend(usual::measure(bench, subject, &redis, &own)?);
    for peer in [null, redis, own] {
        peer.stop()?;
    }
    rows.extend(follows(bench, subject)?);
    Ok(rows)
}

fn compare(bench: &Bench<'_>, subject: &Subject<'_>, question: &Question, peers: [&Peer; 3]) -> Result<Vec<Row>> {
    let (users, seconds) = (subject.graph.users.to_string(), bench.arguments.seconds.ceil().to_string());
    let prepared = (PREPARED / question.each).to_string();
    let more = ["--users", &users, "--seconds", &seconds, "--warm-up", "1", "--prepare", &prepared];
    let mut loads: [Vec<Load>; 3] = Default::default();
    for _ in 0..bench.arguments.repeat.max(ROUNDS) {
        // In turn, so that whatever else the machine does meets all of them.
        for (peer, loads) in peers.iter().zip(&mut loads) {
            // Doing nothing has no sets to learn follows from.
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
        format!("{name} {:.0}/s, {processor:.2} µs, p99 {:.1} ms", rate, p99 / 1e3)
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

/// Durable follows: one fsync covers whoever waits for it, here as in Redis with `appendfsync always`. PostgreSQL does
/// the same work in a function, with one commit each; it has no pipelines.
fn follows(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let own = Peer::entourage(subject.folder)?;
    let redis = Peer::redis(bench.place.fresh("redis-durable")?, true)?;
    let postgres = Postgres::start(&bench.place.fresh("postgres")?, subject.graph.users)?;
    let script = redis.follow_script()?;
    let (users, seconds) = (subject.graph.users.to_string(), bench.arguments.seconds.ceil() as u64);
    let rounds = bench.arguments.repeat.max(ROUNDS);
    let mut rows = Vec::new();
    for pipeline in [1, 16] {
        let mut rates: [Vec<f64>; 3] = Default::default();
        let mut p99 = Vec::new();
        for round in 0..rounds {
            let (seed, lasting) = ((round + pipeline * 100).to_string(), seconds.to_string());
            let more =
                ["--users", &users, "--seconds", &lasting, "--warm-up", "1", "--negative", "100", "--seed", &seed];
            let load = ask(&own, "SADD following:{user} {other}", CONNECTIONS, pipeline, &more)?;
            p99.push(load.p99 / 1e3);
            rates[0].push(load.rate);
            rates[1].push(ask(&redis, &format!("{script} {{user}} {{other}}"), CONNECTIONS, pipeline, &more)?.rate);
            rates[2].push(postgres.follows(None, seconds)?);
        }
        let name = format!("durable follows over RESP, {pipeline} at once");
        let note = format!("{CONNECTIONS} connections, p99 {:.1} ms", median(&p99));
        rows.extend(beside(&name, &note, &rates, pipeline > 1));
    }
    let mut rates: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        // Somebody else each time, for a second: there are only so many who can follow one.
        let target = 1_000 + round as u32;
        let more = ["--users", &users, "--seconds", "1", "--warm-up", "0", "--negative", "100"];
        let mine = followers_a_second(&own, "SCARD", target, &format!("SADD following:{{user}} {target}"), &more)?;
        rates[0].push(mine);
        let call = format!("{script} {{user}} {target}");
        rates[1].push(followers_a_second(&redis, "ZCARD", target, &call, &more)?);
        rates[2].push(postgres.follows(Some(target), seconds)?);
    }
    let note = format!("{CONNECTIONS} connections, counted by the followers it has afterwards");
    rows.extend(beside("durable follows of one target over RESP, 16 at once", &note, &rates, true));
    own.stop()?;
    redis.stop()?;
    postgres.stop()?;
    Ok(rows)
}

/// How many followers one user gains in a second.
fn followers_a_second(peer: &Peer, count: &str, target: u32, command: &str, more: &[&str]) -> Result<f64> {
    let count = || peer.number(&[count, &format!("followers:{target}")]);
    let before = count()?;
    ask_anyway(peer, command, CONNECTIONS, 16, more)?;
    Ok((count()? - before) as f64)
}

/// Follows a second here, and how many times those of Redis and PostgreSQL that is.
fn beside(name: &str, note: &str, [own, redis, postgres]: &[Vec<f64>; 3], has_goal: bool) -> [Row; 3] {
    let times = |others: &[f64]| own.iter().zip(others).map(|(own, other)| own / other).collect();
    let (of_redis, of_postgres) = (number(median(redis)), number(median(postgres)));
    let row = Row::new(name, "/s", own.clone()).note(format!("{note}; Redis {of_redis}/s, PostgreSQL {of_postgres}/s"));
    [
        if has_goal { row.at_least(60e3) } else { row },
        Row::new(format!("{name}: of Redis's"), "×", times(redis)).at_least(2.0),
        Row::new(format!("{name}: of PostgreSQL's"), "×", times(postgres)).at_least(8.0),
    ]
}
