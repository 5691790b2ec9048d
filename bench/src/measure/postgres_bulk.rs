//! PostgreSQL as the store, in bulk: a file through `entourage import`, jobs, and a cache that begins with nothing, beside
//! what it was before writes were batched.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use entourage_embedded as embedded;
use entourage_model::{Key, Kind, Millis, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_postgres as postgres;
use entourage_service::{AbuseRules, Call, JobStarted, JobState, Limits, Rules, Service};
use entourage_store::{Answer, Store, StoreExt as _, SystemClock, layers::cached};

use super::{Bench, cached::distinct, import};
use crate::{
    graph::Graph,
    machine,
    peers::{Postgres, binary},
    place::{self, ROOMY_BYTES},
    random::Random,
    table::{Row, median, number},
};

const EDGES: u64 = 500_000;
const USERS: u32 = 20_000;
/// The schema that the program uses.
const SCHEMA: &str = "entourage";
const CALLERS: u32 = 64;
const CHECKS: usize = 2_000_000;
/// Of users whom nobody else has.
const STAR: i64 = 1_000_000_000;

fn size(bench: &Bench<'_>) -> (u64, u32) {
    match (bench.arguments.edges, bench.arguments.users) {
        (Some(edges), Some(users)) => (edges, users),
        _ => (EDGES, USERS),
    }
}

pub(super) fn about(bench: &Bench<'_>) -> String {
    let (edges, users) = size(bench);
    format!("{} edges, {} users", super::short(edges), super::short(users.into()))
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let (edges, users) = size(bench);
    let folder = bench.place.fresh("postgres-bulk")?;
    let cluster = Postgres::empty(&folder)?;
    let graph = Graph::new(edges, users, bench.arguments.times)?;
    let (imported, url) = imports(bench, &cluster, &graph)?;
    let mut rows = vec![imported];
    let store = bench.runtime.block_on(async {
        let (options, clock) = (postgres::Options::default(), Arc::new(SystemClock));
        Ok::<_, anyhow::Error>(Arc::new(postgres::Store::connect(&url, SCHEMA, options, clock).await?))
    })?;
    rows.push(bench.runtime.block_on(cold_rows(&store, &graph, bench.arguments.repeat))?);
    rows.push(checks(bench, &store, &graph)?);
    rows.extend(bench.runtime.block_on(jobs(&store, edges / 10, bench.arguments.repeat))?);
    bench.runtime.block_on(store.close())?;
    cluster.stop()?;
    Ok(rows)
}

/// Edges a second, each round into a database of its own; the URL of the last one.
fn imports(bench: &Bench<'_>, cluster: &Postgres, graph: &Graph) -> Result<(Row, String)> {
    let folder = bench.place.fresh("postgres-import")?;
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("edges.csv");
    write_edges(&file, graph)?;
    let (mut rates, mut last) = (Vec::new(), String::new());
    for round in 0..bench.arguments.repeat {
        let name = format!("round_{round}");
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-c", &format!("CREATE DATABASE {name}")]).arg(cluster.url());
        ensure!(psql.status()?.success(), "no database for a round");
        last = cluster.url().rsplit_once('/').context("a URL without a database")?.0.to_owned() + "/" + &name;
        let output = binary()?
            .args(["import", "--json", "--data"])
            .arg(folder.join(&name))
            .arg(&file)
            .env("ENTOURAGE_STORE__URL", &last)
            .output()?;
        ensure!(output.status.success(), "the import failed: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let made = report["total"]["edges_created"].as_u64().unwrap_or_default();
        ensure!(made == graph.edges(), "{made} of {} edges were imported", graph.edges());
        rates.push(made as f64 / report["seconds"].as_f64().context("the import told no time")?);
    }
    place::remove(&folder)?;
    let note = format!(
        "a CSV file of {} edges through `entourage import`, with the {} users that they name; one write at a time 359/s",
        graph.edges(),
        graph.users
    );
    Ok((Row::new("PostgreSQL: import", "edges/s", rates).at_least(50_000.0).note(note), last))
}

fn write_edges(file: &Path, graph: &Graph) -> Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    writeln!(out, "follower,target,created_at")?;
    for index in 0..graph.edges() as usize {
        let (follower, target) = graph.edge(index);
        writeln!(out, "{},{},{}", follower.0, target.0, graph.time(index, graph.edges() as usize))?;
    }
    out.flush()?;
    Ok(())
}

/// Callers ask about every user, one check at a time, until memory knows all rows.
async fn cold_rows(store: &Arc<postgres::Store>, graph: &Graph, times: usize) -> Result<Row> {
    let mut seconds = Vec::new();
    for _ in 0..times {
        let layer = Arc::new(place::cached(Arc::clone(store) as _, None, ROOMY_BYTES).await?);
        let began = Instant::now();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (layer, users) = (Arc::clone(&layer), graph.users);
                tokio::spawn(async move {
                    let pairs = (caller..users).step_by(CALLERS as usize).map(|user| (Key(user.into()), Key(0)));
                    for pair in pairs.filter(|(user, other)| user != other) {
                        while layer.peek(Kind::Follow, pair.0, pair.1) == Answer::Unknown {
                            layer.get_edges(Kind::Follow, &[pair]).await?;
                        }
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        seconds.push(began.elapsed().as_secs_f64());
    }
    let note = format!(
        "{} rows of {} edges, {CALLERS} callers with one check at a time; a row at a time about 60 s for 20,000",
        graph.users,
        number(graph.edges() as f64 / f64::from(graph.users))
    );
    Ok(Row::new("PostgreSQL: a cache that begins with nothing", "s", seconds).at_most(5.0).note(note))
}

/// Processor time of this process for a check that memory answers, beside the embedded store with the same graph.
fn checks(bench: &Bench<'_>, store: &Arc<postgres::Store>, graph: &Graph) -> Result<Row> {
    let folder = bench.place.fresh("postgres-checks")?;
    let embedded = place::open(&folder, embedded::Options::default())?;
    let (times, runtime) = (bench.arguments.repeat, bench.runtime);
    let layer = runtime.block_on(async {
        import::fill_store(&embedded, graph).await?;
        let layer = place::cached(Arc::clone(store) as _, None, ROOMY_BYTES).await?;
        warm(&layer, graph).await?;
        anyhow::Ok(layer)
    })?;
    let mut random = Random::new(61);
    let pairs: Vec<(Key, Key)> = (0..CHECKS).map(|_| distinct(&mut random, graph.users)).collect();
    let micros = |store: &dyn Store| -> Result<f64> {
        let began = machine::thread_time();
        let is_unknown = |(one, other): &&(Key, Key)| store.peek(Kind::Follow, *one, *other) == Answer::Unknown;
        let unknown = pairs.iter().filter(is_unknown).count();
        ensure!(unknown < CHECKS / 100, "memory did not know {unknown} of {CHECKS}");
        Ok((machine::thread_time() - began).as_secs_f64() * 1e6 / CHECKS as f64)
    };
    let (mut own, mut others, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times {
        let (with, without) = (micros(&layer)?, micros(&*embedded)?);
        own.push(with);
        others.push(without);
        ratios.push(with / without);
    }
    runtime.block_on(async {
        drop(layer);
        embedded.close().await
    })?;
    place::remove(&folder)?;
    let note = format!(
        "every row held; processor time of a check {:.2} µs, of the embedded store's {:.2} µs",
        median(&own),
        median(&others)
    );
    Ok(Row::new("PostgreSQL: checks, warm: of the embedded store's", "×", ratios).at_most(1.1).note(note))
}

async fn warm(layer: &cached::Store, graph: &Graph) -> Result<()> {
    let began = Instant::now();
    loop {
        let pairs = (1..graph.users).map(|user| (Key(user.into()), Key(0)));
        let missing: Vec<_> = pairs.filter(|(a, b)| layer.peek(Kind::Follow, *a, *b) == Answer::Unknown).collect();
        if missing.is_empty() {
            layer.get_edges(Kind::Follow, &[(Key(0), Key(1))]).await?;
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(120), "{} rows are not held", missing.len());
        for some in missing.chunks(1_000) {
            layer.get_edges(Kind::Follow, some).await?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Accepting all requests of an account, and its erasure with as many followers.
async fn jobs(store: &Arc<postgres::Store>, edges: u64, times: usize) -> Result<[Row; 2]> {
    let rules = Rules {
        limits: Limits::NONE,
        audit_interval: None,
        abuse: AbuseRules { detect: false, ..AbuseRules::default() },
        ..Rules::default()
    };
    let service = Arc::new(Service::new(Arc::clone(store) as Arc<dyn Store>, rules));
    let background = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.run().await }
    });
    let (mut accepts, mut erases) = (Vec::new(), Vec::new());
    for round in 0..times as i64 {
        let star = Key(STAR + round);
        let (id, call) = (UserId::from(star.0), Call::default());
        ask_to_follow(&**store, star, edges).await?;
        accepts.push(edges as f64 / finished(&service, service.jobs.accept_all(&call, &id).await?).await?);
        erases.push(edges as f64 / finished(&service, service.jobs.erase(&call, &id).await?).await?);
    }
    background.abort();
    let note = |what: &str| format!("{edges} {what}, counted from the request to the end of the job; before 150/s");
    Ok([
        Row::new("PostgreSQL: accept-all", "edges/s", accepts).at_least(5_000.0).note(note("requests")),
        Row::new("PostgreSQL: erase", "edges/s", erases).at_least(5_000.0).note(note("followers")),
    ])
}

async fn ask_to_follow(store: &dyn Store, star: Key, edges: u64) -> Result<()> {
    let put = |key: i64, private: bool| {
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        let (id, overwrite) = (UserId::from(key), Overwrite::Keep);
        Write::from(Operation::PutUser { key: Key(key), id, patch, overwrite })
    };
    let asks = |key: i64| Operation::ImportRequest { follower: Key(key), target: star, at: Millis::default() };
    let followers: Vec<i64> = (1..=edges as i64).map(|number| STAR * 2 + number).collect();
    let mut writes = vec![put(star.0, true)];
    writes.extend(followers.iter().flat_map(|&key| [put(key, false), asks(key).into()]));
    for some in writes.chunks(10_000) {
        for outcome in store.commit_all(some.to_vec()).await {
            outcome?;
        }
    }
    Ok(())
}

/// Seconds until the job is done.
async fn finished(service: &Service, started: JobStarted) -> Result<f64> {
    let (began, call) = (Instant::now(), Call::default());
    loop {
        let job = service.jobs.get(&call, started.job.id).await?;
        match job.state {
            JobState::Done => return Ok(began.elapsed().as_secs_f64()),
            JobState::Failed => anyhow::bail!("the job failed: {:?}", job.error),
            JobState::Running => while service.jobs.work().await? {},
        }
    }
}
