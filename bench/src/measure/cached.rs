//! The cached layer in this process: hits beside the store without it, misses, eviction, memory, a warm start, and its
//! cost for a write.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Key, Kind};
use entourage_store::{Answer, Store, StoreExt as _, SystemClock, layers::cached};

use super::{Bench, Subject, checks, import};
use crate::{
    child::{self, Freed},
    graph::{self, Graph},
    place::{self, ROOMY_BYTES},
    random::Random,
    table::{Row, median, number},
};

/// As many rows as one call reads.
const ROWS_AT_ONCE: usize = 4;
const MISSES: usize = 20_000;
const CRAMPED_CHECKS: usize = 200_000;
/// One row in this many is held in the eviction run.
const CRAMPED_PART: u64 = 3;
/// Edges and users of the store that is written to.
const WRITTEN: (u64, u32) = (1_000_000, 20_000);
const WRITES: usize = 50_000;

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let snapshot = bench.place.fresh("cache-snapshot")?;
    let times = bench.arguments.repeat;
    let (mut rows, full) = bench.runtime.block_on(async {
        let store = place::open(subject.folder, embedded::Options::default())?;
        let layer = place::cached(Arc::clone(&store) as _, Some(&snapshot), ROOMY_BYTES).await?;
        let mut rows = vec![misses(&layer, subject.graph, "the embedded store").await?];
        hold_everything(&layer, subject.graph).await?;
        rows.extend(hits(&layer, &store, subject.graph, times)?);
        let full = layer.figures();
        rows.push(cramped(&store, subject.graph, full.bytes / CRAMPED_PART, times).await?);
        // Writes the snapshot, and closes the store.
        layer.close().await?;
        anyhow::Ok((rows, full))
    })?;
    rows.extend(restart(subject, &snapshot, full, times)?);
    place::remove(&snapshot)?;
    rows.push(bench.runtime.block_on(write_through(bench, times))?);
    Ok(rows)
}

/// A miss, from question to answer.
pub(super) async fn misses(layer: &cached::Store, graph: &Graph, of: &str) -> Result<Row> {
    let mut micros = Vec::new();
    let step = (graph.users as usize / MISSES).max(1);
    for user in (0..graph.users).step_by(step) {
        let pair = (Key(user.into()), graph.celebrity());
        ensure!(layer.peek(Kind::Follow, pair.0, pair.1) == Answer::Unknown, "the row of {user} is held already");
        let began = Instant::now();
        layer.get_edges(Kind::Follow, &[pair]).await?;
        micros.push(began.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    let p99 = micros.get(micros.len() * 99 / 100).copied().unwrap_or_default();
    let note = format!("{} of them, one after the other, the row read whole; p99 {} µs", micros.len(), number(p99));
    Ok(Row::new(format!("cached layer before {of}: a miss"), "µs", vec![median(&micros)]).note(note))
}

/// Asks until memory has every user's row; a moment of staleness sends some to the store.
pub(super) async fn hold_everything(layer: &cached::Store, graph: &Graph) -> Result<()> {
    for _ in 0..5 {
        let pair = |user: u32| (Key(user.into()), graph.celebrity());
        let is_missing = |(a, b): &(Key, Key)| layer.peek(Kind::Follow, *a, *b) == Answer::Unknown;
        let missing: Vec<_> = (0..graph.users).map(pair).filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        for some in missing.chunks(ROWS_AT_ONCE) {
            layer.get_edges(Kind::Follow, some).await?;
        }
    }
    bail!("{} of {} rows are held", layer.figures().rows, graph.users)
}

/// Alternating with the bare store.
fn hits(layer: &cached::Store, store: &embedded::Store, graph: &Graph, times: usize) -> Result<Vec<Row>> {
    let (pairs, edges) = checks::pairs(graph);
    let mut rows = Vec::new();
    for (threads, batch) in [(1, 1), (2, 1), (1, 100)] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let (seconds, yes) = checks::run(layer, &pairs, threads, batch)?;
            ensure!(yes == edges, "{yes} checks said yes, {edges} are edges");
            with.push((checks::CHECKS / threads) as f64 / seconds);
            without.push((checks::CHECKS / threads) as f64 / checks::run(store, &pairs, threads, batch)?.0);
        }
        let name = match (threads, batch) {
            (1, 1) => "1 thread".to_owned(),
            (threads, 1) => format!("{threads} threads"),
            (_, batch) => format!("{batch} at once"),
        };
        let note = format!("every row held; the embedded store without the layer {}/s", number(median(&without)));
        rows.push(Row::new(format!("cached layer: checks a thread, {name}"), "/s", with).note(note));
    }
    Ok(rows)
}

/// Random users, and most rows are not held: a miss fills a row and evicts another.
async fn cramped(store: &Arc<embedded::Store>, graph: &Graph, budget: u64, times: usize) -> Result<Row> {
    let layer = place::cached(Arc::clone(store) as _, None, budget).await?;
    let mut random = Random::new(53);
    let users = u64::from(graph.users);
    let mut ask = async |count: usize| -> Result<()> {
        for _ in 0..count {
            let pair = (Key(random.below(users) as i64), Key(random.below(users) as i64));
            if layer.peek(Kind::Follow, pair.0, pair.1) == Answer::Unknown {
                layer.get_edges(Kind::Follow, &[pair]).await?;
            }
        }
        Ok(())
    };
    // Until it is full.
    ask(graph.users as usize * 2 / CRAMPED_PART as usize).await?;
    let (before, mut rates) = (layer.figures(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        ask(CRAMPED_CHECKS).await?;
        rates.push(CRAMPED_CHECKS as f64 / began.elapsed().as_secs_f64());
    }
    let after = layer.figures();
    let asked = (after.hits + after.misses - before.hits - before.misses) as f64;
    let note = format!(
        "{} % hits, {} rows evicted a check, everything let go of {} times; {} MB of budget",
        number((after.hits - before.hits) as f64 / asked * 100.0),
        number((after.evictions - before.evictions) as f64 / asked),
        after.clears - before.clears,
        number(budget as f64 / 1e6),
    );
    Ok(Row::new(format!("cached layer: checks, room for 1/{CRAMPED_PART} of the rows"), "/s", rates).note(note))
}

/// In processes of their own: memory is that of a start.
fn restart(subject: &Subject<'_>, snapshot: &std::path::Path, full: cached::Figures, times: usize) -> Result<[Row; 2]> {
    let file = std::fs::metadata(snapshot.join("cache.snapshot"))?.len() as f64;
    let mut seconds = Vec::new();
    for _ in 0..times {
        let opened = child::open_cached(subject.folder, snapshot, Freed::Kept)?;
        ensure!(opened.rows == full.rows, "{} of {} rows came back", opened.rows, full.rows);
        seconds.push(opened.seconds);
    }
    let opened = child::open_cached(subject.folder, snapshot, Freed::Returned)?;
    let edges = subject.graph.edges() as f64;
    let note = format!("{} MB of file, {} bytes an edge; {} rows", number(file / 1e6), number(file / edges), full.rows);
    Ok([
        Row::new("cached layer: warm start from its snapshot", "s", seconds).note(note),
        Row::new("cached layer: memory", "bytes an edge", vec![opened.resident as f64 / edges]).note(format!(
            "{} MB resident; by its own estimate {} MB, {} bytes an edge",
            number(opened.resident as f64 / 1e6),
            number(opened.bytes as f64 / 1e6),
            number(opened.bytes as f64 / edges)
        )),
    ])
}

/// Follows on a memory store by one caller, with every row held and without the layer.
async fn write_through(bench: &Bench<'_>, times: usize) -> Result<Row> {
    let graph = Graph::new(WRITTEN.0, WRITTEN.1, bench.arguments.times)?;
    let store = Arc::new(memory::Store::new(embedded::random_identity(), Arc::new(SystemClock)));
    import::fill_store(&store, &graph).await?;
    let layer = place::cached(Arc::clone(&store) as _, None, ROOMY_BYTES).await?;
    hold_everything(&layer, &graph).await?;
    let mut random = Random::new(59);
    let mut follows = async |store: &dyn Store| -> Result<f64> {
        let pairs: Vec<_> = (0..WRITES).map(|_| distinct(&mut random, graph.users)).collect();
        let began = Instant::now();
        for (follower, target) in pairs {
            store.commit(graph::follow(follower, target)).await?;
        }
        Ok(WRITES as f64 / began.elapsed().as_secs_f64())
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..times {
        without.push(follows(&*store).await?);
        // What was written beside the layer is polled first.
        layer.catch_up().await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        with.push(follows(&layer).await?);
    }
    let note = format!(
        "one caller, memory store, {} edges, every row held; without the layer {}/s",
        number(WRITTEN.0 as f64),
        number(median(&without))
    );
    Ok(Row::new("cached layer: follows", "/s", with).note(note))
}

pub(super) fn distinct(random: &mut Random, users: u32) -> (Key, Key) {
    let (a, b) = (random.below(u64::from(users)), random.below(u64::from(users) - 1));
    (Key(a as i64), Key(if b >= a { b + 1 } else { b } as i64))
}
