//! Durable follows over RESP, beside Redis with `appendfsync always` and PostgreSQL, each on the same graph.

use anyhow::Result;

use super::{Bench, Subject, resp::CONNECTIONS};
use crate::{
    peers::{Peer, Postgres, ask, ask_anyway},
    table::{Row, median, number},
};

const PIPELINE: usize = 16;

/// One way of following, and its goal.
struct Way {
    pipeline: usize,
    /// Follows a second.
    rate: Option<f64>,
    /// Times those of PostgreSQL, which has no pipelines to compare one at a time with.
    of_postgres: Option<f64>,
}

const OF_REDIS: f64 = 2.0;
const ONE: Way = Way { pipeline: 1, rate: None, of_postgres: None };
const PIPELINED: Way = Way { pipeline: PIPELINE, rate: Some(60e3), of_postgres: Some(8.0) };

/// Follows a second of each, one for each round.
#[derive(Default)]
struct Rates {
    own: Vec<f64>,
    redis: Vec<f64>,
    postgres: Vec<f64>,
}

/// Group commit: one fsync covers all waiting callers, here as in Redis. PostgreSQL does the same work in a function,
/// with one commit each.
pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let redis = Peer::redis(bench.place.fresh("redis-durable")?)?;
    redis.fill_both_sides(subject.graph)?;
    redis.sync_every_write()?;
    let postgres = Postgres::start(&bench.place.fresh("postgres")?, subject.graph, CONNECTIONS)?;
    let own = Peer::entourage(subject.folder)?;
    let peers = Peers { script: redis.follow_script()?, own, redis, postgres };
    let mut rows = Vec::new();
    for way in [ONE, PIPELINED] {
        rows.extend(peers.of_anybody(bench, subject, &way)?);
    }
    rows.extend(peers.of_one(bench, subject)?);
    peers.own.stop()?;
    peers.redis.stop()?;
    peers.postgres.stop()?;
    Ok(rows)
}

struct Peers {
    own: Peer,
    redis: Peer,
    postgres: Postgres,
    /// The command that follows in Redis.
    script: String,
}

impl Peers {
    fn of_anybody(&self, bench: &Bench<'_>, subject: &Subject<'_>, way: &Way) -> Result<[Row; 3]> {
        let (users, seconds) = (subject.graph.users.to_string(), bench.arguments.seconds.ceil() as u64);
        let (mut rates, mut p99) = (Rates::default(), Vec::new());
        for round in 0..bench.arguments.repeat {
            let (seed, lasting) = ((round + way.pipeline * 100).to_string(), seconds.to_string());
            let more =
                ["--users", &users, "--seconds", &lasting, "--warm-up", "1", "--negative", "100", "--seed", &seed];
            let load = ask(&self.own, "SADD following:{user} {other}", CONNECTIONS, way.pipeline, &more)?;
            p99.push(load.p99 / 1e3);
            rates.own.push(load.rate);
            let call = format!("{} {{user}} {{other}}", self.script);
            rates.redis.push(ask(&self.redis, &call, CONNECTIONS, way.pipeline, &more)?.rate);
            rates.postgres.push(self.postgres.follows(None, seconds)?);
        }
        let name = format!("durable follows over RESP, {} at once", way.pipeline);
        Ok(rates.rows(&name, &format!("p99 {:.1} ms", median(&p99)), way))
    }

    fn of_one(&self, bench: &Bench<'_>, subject: &Subject<'_>) -> Result<[Row; 3]> {
        let (users, seconds) = (subject.graph.users.to_string(), bench.arguments.seconds.ceil() as u64);
        let mut rates = Rates::default();
        for round in 0..bench.arguments.repeat {
            // Another target each round, for a second: one user has a limited number of possible followers.
            let target = 1_000 + round as u32;
            let more = ["--users", &users, "--seconds", "1", "--warm-up", "0", "--negative", "100"];
            let call = format!("SADD following:{{user}} {target}");
            rates.own.push(followers_a_second(&self.own, "SCARD", target, &call, &more)?);
            let call = format!("{} {{user}} {target}", self.script);
            rates.redis.push(followers_a_second(&self.redis, "ZCARD", target, &call, &more)?);
            rates.postgres.push(self.postgres.follows(Some(target), seconds)?);
        }
        let name = format!("durable follows of one target over RESP, {PIPELINE} at once");
        Ok(rates.rows(&name, "counted by the followers it has afterwards", &PIPELINED))
    }
}

/// How many followers one user gains in a second.
fn followers_a_second(peer: &Peer, count: &str, target: u32, command: &str, more: &[&str]) -> Result<f64> {
    let count = || peer.number(&[count, &format!("followers:{target}")]);
    let before = count()?;
    ask_anyway(peer, command, CONNECTIONS, PIPELINE, more)?;
    Ok((count()? - before) as f64)
}

impl Rates {
    /// Follows a second here, and how many times those of Redis and PostgreSQL that is.
    fn rows(&self, name: &str, note: &str, way: &Way) -> [Row; 3] {
        let times = |others: &[f64]| self.own.iter().zip(others).map(|(own, other)| own / other).collect();
        let (redis, postgres) = (number(median(&self.redis)), number(median(&self.postgres)));
        let own = Row::new(name, "/s", self.own.clone()).note(format!(
            "{CONNECTIONS} connections to each, the same graph in each before; {note}; Redis {redis}/s, PostgreSQL \
             {postgres}/s"
        ));
        let of_redis = Row::new(format!("{name}: of Redis's"), "×", times(&self.redis)).at_least(OF_REDIS);
        let of_postgres = Row::new(format!("{name}: of PostgreSQL's"), "×", times(&self.postgres)).note(
            "its client is pgbench with prepared statements, which has no pipelines: every connection waits for each \
             answer",
        );
        [
            way.rate.map_or_else(|| own.clone(), |goal| own.clone().at_least(goal)),
            of_redis,
            way.of_postgres.map_or_else(|| of_postgres.clone(), |goal| of_postgres.clone().at_least(goal)),
        ]
    }
}
