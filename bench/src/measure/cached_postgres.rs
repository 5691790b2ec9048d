//! The cached layer in front of PostgreSQL: misses and hits in this process, follows through it, and checks over RESP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Result, ensure};
use entourage_model::{Key, Kind};
use entourage_postgres as postgres;
use entourage_store::{Answer, Store, StoreExt as _, SystemClock};

use super::{Bench, cached, import};
use crate::{
    graph::{self, Graph},
    peers::{Peer, Postgres, ask},
    place::{self, ROOMY_BYTES},
    random::{self, Random, scale},
    table::{Row, median, number},
};

/// PostgreSQL gets each edge as a write of the store: a larger graph takes too long.
pub(super) const EDGES: u64 = 200_000;
pub(super) const USERS: u32 = 4_000;
/// The schema that `entourage serve` uses.
const SCHEMA: &str = "entourage";
const CALLERS: u64 = 16;
const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
const DIRECT_CHECKS: usize = 5_000;
const CHECKS: usize = 2_000_000;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let postgres = Postgres::empty(&bench.place.fresh("cached-postgres")?)?;
    let graph = Graph::new(EDGES, USERS, bench.arguments.times)?;
    let times = bench.arguments.repeat;
    let mut rows = bench.runtime.block_on(in_process(bench, postgres.url(), &graph, times))?;
    rows.push(over_resp(bench, postgres.url(), times)?);
    postgres.stop()?;
    Ok(rows)
}

async fn in_process(bench: &Bench<'_>, url: &str, graph: &Graph, times: usize) -> Result<Vec<Row>> {
    let store =
        Arc::new(postgres::Store::connect(url, SCHEMA, postgres::Options::default(), Arc::new(SystemClock)).await?);
    import::fill_store(&store, graph).await?;
    let layer = Arc::new(place::cached(Arc::clone(&store) as _, None, ROOMY_BYTES).await?);
    let mut rows = vec![cached::misses(&layer, graph, "PostgreSQL").await?];
    cached::hold_everything(&layer, graph).await?;
    rows.push(checks(&*layer, &*store, times).await?);
    rows.push(follows(bench, &layer, &store, times).await?);
    layer.close().await?;
    Ok(rows)
}

/// One thread that asks memory, beside one caller that asks PostgreSQL.
async fn checks(layer: &impl Store, store: &dyn Store, times: usize) -> Result<Row> {
    let mut random = Random::new(61);
    let pairs: Vec<(Key, Key)> = (0..CHECKS).map(|_| cached::distinct(&mut random, USERS)).collect();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        let unknown = pairs.iter().filter(|(a, b)| layer.peek(Kind::Follow, *a, *b) == Answer::Unknown).count() as f64;
        with.push((CHECKS as f64 - unknown) / began.elapsed().as_secs_f64());
        ensure!(unknown < CHECKS as f64 / 100.0, "memory did not know {unknown} of {CHECKS}");
        let began = Instant::now();
        for pair in &pairs[..DIRECT_CHECKS] {
            store.get_edges(Kind::Follow, std::slice::from_ref(pair)).await?;
        }
        without.push(DIRECT_CHECKS as f64 / began.elapsed().as_secs_f64());
    }
    let note = format!("every row held; one caller without the layer {}/s", number(median(&without)));
    Ok(Row::new("cached layer: checks of one thread", "/s", with).note(note))
}

async fn follows(
    bench: &Bench<'_>,
    layer: &Arc<impl Store>,
    store: &Arc<postgres::Store>,
    times: usize,
) -> Result<Row> {
    let next = Arc::new(AtomicU64::new(0));
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..times {
        without.push(follows_a_second(bench, Arc::clone(store) as _, &next).await?);
        with.push(follows_a_second(bench, Arc::clone(layer) as _, &next).await?);
    }
    let note = format!("{CALLERS} callers; without the layer {}/s", number(median(&without)));
    Ok(Row::new("cached layer: durable follows", "/s", with).note(note))
}

async fn follows_a_second(bench: &Bench<'_>, store: Arc<dyn Store>, next: &Arc<AtomicU64>) -> Result<f64> {
    let (began, seconds) = (Instant::now(), bench.arguments.seconds);
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, next) = (Arc::clone(&store), Arc::clone(next));
            tokio::spawn(async move {
                let mut count = 0;
                while began.elapsed().as_secs_f64() < seconds {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let users = u64::from(USERS);
                    let a = scale(random::at(67, number * 2), users);
                    let b = scale(random::at(67, number * 2 + 1), users - 1);
                    let target = Key(if b >= a { b + 1 } else { b } as i64);
                    store.commit(graph::follow(Key(a as i64), target)).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut count = 0;
    for caller in callers {
        count += caller.await??;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

/// The release binary in front of PostgreSQL, with the default cache and without.
fn over_resp(bench: &Bench<'_>, url: &str, times: usize) -> Result<Row> {
    let server = |cache: &str| Peer::entourage_before(url, bench.place.fresh(&format!("server-{cache}"))?, cache);
    let (with, without) = (server("256MiB")?, server("0")?);
    let (users, seconds) = (USERS.to_string(), bench.arguments.seconds.ceil().to_string());
    // The first seconds fill the rows.
    let more = ["--users", &users, "--seconds", &seconds, "--warm-up", "3"];
    let command = "SISMEMBER following:{follower} {target}";
    let (mut rates, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..times {
        rates.push(ask(&with, command, CONNECTIONS, PIPELINE, &more)?.rate);
        bare.push(ask(&without, command, CONNECTIONS, PIPELINE, &more)?.rate);
    }
    for peer in [with, without] {
        peer.stop()?;
    }
    let note = format!("{CONNECTIONS} connections; with `cache.budget = 0` {}/s", number(median(&bare)));
    Ok(Row::new(format!("SISMEMBER over RESP before PostgreSQL, {PIPELINE} at once"), "/s", rates).note(note))
}
