//! Suggestions: two hops in process, over REST and RESP; beside them the same two hops in PostgreSQL and in Redis.

use std::{fs, path::Path, sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_service::{Call, Limits, RankerName, Rules, SUGGESTIONS_MAX, Service, SuggestionRules};
use entourage_store::Store;

use super::{
    Bench, detectors,
    import::commit_chunks,
    resp,
    rest::{self, Server},
};
use crate::{
    graph,
    peers::{Peer, Postgres, ask, binary},
    place,
    random::Random,
    table::Row,
};

/// Median people follow this many of each other.
const MEDIAN: i64 = 20_000;
const MEDIAN_FOLLOWS: usize = 50;
/// Those whom the viewers follow; they follow anybody.
const HOPS: std::ops::Range<i64> = 100_000..105_000;
const VIEWERS: std::ops::Range<i64> = 110_000..110_020;
const FOLLOWS: usize = 500;
const USERS: i64 = 200_000;
const MANY_USERS: i64 = 10_000_000;
const SEED: u64 = 17;
const CHUNK: usize = 10_000;
/// Over REST, requests a second.
const GOAL: f64 = 15_000.0;
const HALF_LOAD: u32 = 7_500;
/// Viewers of the cached answers.
const CACHED_USERS: &str = "200";

pub(super) fn about() -> String {
    format!("{} users; 500 × 500 and 50 × 50", super::short(USERS as u64))
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("store-suggest")?;
    let mut rows = bench.with_store(&folder, async |store| {
        fill(store, USERS, lists(USERS)).await?;
        let service = uncached(store);
        let mut rows = Vec::new();
        for ranker in RankerName::ALL {
            rows.push(cold(bench, &service, ranker, 1, USERS).await?);
        }
        rows.push(cold(bench, &service, RankerName::Common, 2, USERS).await?);
        rows.push(median_in_process(bench, &service).await?);
        Ok(rows)
    })?;
    rows.extend(among_many(bench)?);
    rows.extend(over_rest(bench, &folder)?);
    rows.push(cached_over_resp(bench, &folder)?);
    place::remove(&folder)?;
    rows.extend(elsewhere(bench)?);
    Ok(rows)
}

/// Everybody, and whom they follow.
async fn fill(
    store: &Arc<entourage_embedded::Store>,
    users: i64,
    lists: impl Iterator<Item = (i64, Vec<i64>)>,
) -> Result<()> {
    let chunks = (0..users).step_by(CHUNK).map(|first| (first..(first + CHUNK as i64).min(users)).map(put).collect());
    commit_chunks(store, chunks).await?;
    let follows: Vec<Write> =
        lists.flat_map(|(from, to)| to.into_iter().map(move |to| graph::follow(Key(from), Key(to)))).collect();
    commit_chunks(store, follows.chunks(CHUNK).map(<[Write]>::to_vec)).await?;
    Ok(store.checkpoint().await?)
}

/// The same two hops where whom they lead to is spread over very many users; and detectors.
fn among_many(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("store-suggest-many")?;
    let rows = bench.with_store(&folder, async |store| {
        fill(store, MANY_USERS, lists(MANY_USERS).filter(|(from, _)| *from >= HOPS.start)).await?;
        let cold = cold(bench, &uncached(store), RankerName::Common, 1, MANY_USERS).await?;
        Ok(vec![cold, detectors::measure(bench, store, MANY_USERS).await?])
    })?;
    place::remove(&folder)?;
    Ok(rows)
}

fn put(id: i64) -> Write {
    let (key, id, patch) = (Key(id), UserId::from(id), UserPatch::default());
    Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
}

fn uncached(store: &Arc<entourage_embedded::Store>) -> Arc<Service> {
    let suggestions = SuggestionRules { max_age: std::time::Duration::ZERO, ..SuggestionRules::default() };
    let rules = Rules { limits: Limits::NONE, audit_interval: None, suggestions, ..Rules::default() };
    Arc::new(Service::new(Arc::clone(store) as Arc<dyn Store>, rules))
}

/// Whom each follows of so many users, oldest first; nobody twice.
fn lists(users: i64) -> impl Iterator<Item = (i64, Vec<i64>)> {
    let mut random = Random::new(SEED);
    let mut draw = move |from: i64, count: usize, among: std::ops::Range<i64>| {
        let mut found = Vec::with_capacity(count);
        let mut known = std::collections::HashSet::with_capacity(count);
        while found.len() < count {
            let other = among.start + random.below((among.end - among.start) as u64) as i64;
            if other != from && known.insert(other) {
                found.push(other);
            }
        }
        (from, found)
    };
    let who = (0..MEDIAN)
        .map(|user| (user, MEDIAN_FOLLOWS, 0..MEDIAN))
        .chain(HOPS.map(move |user| (user, FOLLOWS, 0..users)))
        .chain(VIEWERS.map(|user| (user, FOLLOWS, HOPS)));
    who.map(move |(user, count, among)| draw(user, count, among))
}

async fn suggest(service: &Service, viewer: i64, ranker: RankerName) -> Result<usize> {
    let user = UserId::from(viewer);
    Ok(service.suggestions.suggestions(&Call::default(), &user, Some(ranker), SUGGESTIONS_MAX).await?.len())
}

/// Every viewer in turn on each of so many threads; milliseconds of an answer.
async fn cold(
    bench: &Bench<'_>,
    service: &Arc<Service>,
    ranker: RankerName,
    threads: usize,
    users: i64,
) -> Result<Row> {
    let mut runs = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let run = || {
            let service = Arc::clone(service);
            async move {
                let began = Instant::now();
                for viewer in VIEWERS {
                    ensure!(suggest(&service, viewer, ranker).await? == SUGGESTIONS_MAX, "fifty are found");
                }
                Ok(began.elapsed().as_secs_f64() * 1e3 / (VIEWERS.end - VIEWERS.start) as f64)
            }
        };
        let tasks: Vec<_> = (0..threads).map(|_| tokio::spawn(run())).collect();
        let mut times = Vec::new();
        for task in tasks {
            times.push(task.await??);
        }
        runs.push(times.iter().sum::<f64>() / times.len() as f64);
    }
    let name = match users {
        MANY_USERS => format!("500 × 500, cold, {} users", super::short(MANY_USERS as u64)),
        _ => format!("500 × 500, cold, {}, {threads} at once", ranker.as_str()),
    };
    let goal = if users == MANY_USERS { 5.0 } else { 3.0 };
    let note = "250,000 edges counted, 50 found with reasons and names; nothing cached, each viewer another 500";
    Ok(Row::new(name, "ms", runs).at_most(goal).note(note))
}

async fn median_in_process(bench: &Bench<'_>, service: &Arc<Service>) -> Result<Row> {
    let mut runs = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let began = Instant::now();
        let viewers = (0..MEDIAN).step_by(20);
        let count = viewers.clone().count() as f64;
        for viewer in viewers {
            suggest(service, viewer, RankerName::Common).await?;
        }
        runs.push(began.elapsed().as_secs_f64() * 1e6 / count);
    }
    Ok(Row::new("50 × 50, cold, in process", "µs", runs).note("2,500 edges; one thread"))
}

fn over_rest(bench: &Bench<'_>, folder: &Path) -> Result<Vec<Row>> {
    let server = Server::start(&["--data", &folder.display().to_string()])?;
    server.settle()?;
    let script = bench.place.root().join("suggest.lua");
    let request = "request = function() return wrk.format('GET', string.format('/api/v1/users/%d/suggestions?limit=20', \
                   math.random(users) - 1)) end";
    fs::write(&script, format!("local users = {MEDIAN}\nmath.randomseed(os.time())\n{request}"))?;
    let (mut rates, mut latencies, mut within, mut outside) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.arguments.repeat {
        let said = rest::ask(&server, &script, bench.arguments.seconds)?;
        rates.push(said.rate);
        latencies.push(said.p99);
    }
    for _ in 0..bench.arguments.repeat {
        let output = binary()?
            .args(["bench", "--json", "--workload", "suggestions", "--server", &format!("http://{}", server.address)])
            .args(["--rate", &HALF_LOAD.to_string(), "--connections", &rest::CONNECTIONS.to_string()])
            .args(["--users", &MEDIAN.to_string(), "--seconds", &bench.arguments.seconds.ceil().to_string()])
            .output()?;
        ensure!(output.status.success(), "bench: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        within.push(report["server"]["p99_within"].as_f64().context("the server has no measures")? / 1e3);
        outside.push(format!("{:.1} ms", report["total"]["p99"].as_f64().unwrap_or_default() / 1e3));
    }
    server.stop()?;
    let note = format!(
        "wrk, any of {MEDIAN} users, {} connections, client and server on these cores; 99th percentiles {}",
        rest::CONNECTIONS,
        latencies.join(", ")
    );
    let half = format!("the bound of the server's own histogram; as the client saw it: {}", outside.join(", "));
    Ok(vec![
        Row::new("50 × 50 over REST", "/s", rates).at_least(GOAL).note(note),
        Row::new(format!("50 × 50 over REST at {HALF_LOAD} a second, 99th percentile"), "ms", within)
            .at_most(5.0)
            .note(half),
    ])
}

fn cached_over_resp(bench: &Bench<'_>, folder: &Path) -> Result<Row> {
    let peer = Peer::entourage(folder)?;
    let mut rates = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let seconds = bench.arguments.seconds.ceil().to_string();
        let more = ["--users", CACHED_USERS, "--seconds", &seconds];
        rates.push(ask(&peer, "LRANGE suggestions:{user} 0 9", resp::CONNECTIONS, 16, &more)?.rate);
    }
    peer.stop()?;
    let note = format!("the ten best of any of {CACHED_USERS} users, 16 at once; an answer is made anew every 1.5 s");
    Ok(Row::new("cached answers over RESP", "/s", rates).at_least(100e3).note(note))
}

/// The same follows, the same viewers; one client each, warm.
fn elsewhere(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let hops = || lists(USERS).filter(|(from, _)| *from >= HOPS.start);
    let redis = Peer::redis(bench.place.fresh("redis-suggest")?)?;
    redis.fill_hops(hops())?;
    redis.two_hops(VIEWERS)?;
    let mut in_redis = Vec::new();
    for _ in 0..bench.arguments.repeat {
        in_redis.push(redis.two_hops(VIEWERS)?);
    }
    redis.stop()?;
    let folder = bench.place.fresh("postgres-suggest")?;
    let postgres = Postgres::empty(&folder)?;
    postgres.fill_hops(hops())?;
    let seconds = bench.arguments.seconds.ceil() as u64;
    postgres.two_hops(VIEWERS, seconds)?;
    let mut in_postgres = Vec::new();
    for _ in 0..bench.arguments.repeat {
        in_postgres.push(postgres.two_hops(VIEWERS, seconds)?);
    }
    postgres.stop()?;
    let note = "without reasons, and without a look at who may see what";
    Ok(vec![
        Row::new("500 × 500 in Redis", "ms", in_redis)
            .note(format!("a script over sorted sets; by common alone, {note}")),
        Row::new("500 × 500 in PostgreSQL", "ms", in_postgres).note(format!("one statement, prepared, warm; {note}")),
    ])
}
