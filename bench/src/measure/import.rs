//! Import: users, then edges, in chunks; a few chunks are in flight at a time.

use std::{collections::VecDeque, path::Path, sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use entourage_model::Write;
use entourage_store::Store;

use super::{Bench, Subject};
use crate::{graph::Graph, place, table::Row};

pub(super) const CHUNK: usize = 10_000;
const ON_THEIR_WAY: usize = 4;

/// Leaves the imported store closed in the subject's folder.
pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let (mut users, mut edges, mut closes) = (Vec::new(), Vec::new(), Vec::new());
    let graph = subject.graph;
    for _ in 0..bench.arguments.repeat {
        place::remove(subject.folder)?;
        let finished = bench.with_store(subject.folder, async |store| {
            users.push(put_users(store, graph).await?);
            let started = Instant::now();
            let count = graph.edges() as usize;
            let chunks = (0..count).step_by(CHUNK).map(|from| graph.edge_writes(from, CHUNK));
            let changed = commit_chunks(store, chunks).await?;
            ensure!(changed == graph.edges(), "{changed} of {count} edges were imported");
            edges.push(count as f64 / started.elapsed().as_secs_f64());
            Ok(Instant::now())
        })?;
        closes.push(finished.elapsed().as_secs_f64());
    }
    Ok(vec![
        Row::new("import of edges", "/s", edges)
            .at_least(1e6)
            .note(format!("chunks of {CHUNK}, {ON_THEIR_WAY} on their way, grouped by follower; durable when counted")),
        Row::new("creation of users", "/s", users).note("in the same chunks"),
        Row::new("close after the import", "s", closes).note("the final checkpoint"),
    ])
}

/// The graph into the subject's folder, unmeasured.
pub(super) fn fill(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<()> {
    let graph = subject.graph;
    bench.with_store(subject.folder, async |store| fill_store(store, graph).await)
}

/// The graph into any store.
pub(super) async fn fill_store(store: &Arc<impl Store>, graph: &Graph) -> Result<()> {
    put_users(store, graph).await?;
    let chunks = (0..graph.edges() as usize).step_by(CHUNK).map(|from| graph.edge_writes(from, CHUNK));
    let changed = commit_chunks(store, chunks).await?;
    ensure!(changed == graph.edges(), "{changed} of {} edges were imported", graph.edges());
    Ok(())
}

pub(super) fn users_only(bench: &Bench<'_>, subject: &Subject<'_>, folder: &Path) -> Result<()> {
    bench.with_store(folder, async |store| put_users(store, subject.graph).await.map(drop))
}

/// Users a second.
async fn put_users(store: &Arc<impl Store>, graph: &Graph) -> Result<f64> {
    let started = Instant::now();
    let chunks = (0..=graph.users).step_by(CHUNK).map(|from| graph.user_writes(from, CHUNK as u32));
    let changed = commit_chunks(store, chunks).await?;
    ensure!(changed == u64::from(graph.users) + 1, "{changed} users were created");
    Ok(changed as f64 / started.elapsed().as_secs_f64())
}

/// How many writes changed something.
pub(super) async fn commit_chunks(store: &Arc<impl Store>, chunks: impl Iterator<Item = Vec<Write>>) -> Result<u64> {
    let mut waiting = VecDeque::new();
    let mut changed = 0;
    for writes in chunks {
        let store = Arc::clone(store);
        waiting.push_back(tokio::spawn(async move {
            let mut changed = 0;
            for result in store.commit_all(writes).await {
                changed += u64::from(result?.reply.changed());
            }
            anyhow::Ok(changed)
        }));
        if waiting.len() >= ON_THEIR_WAY
            && let Some(first) = waiting.pop_front()
        {
            changed += first.await??;
        }
    }
    for rest in waiting {
        changed += rest.await??;
    }
    Ok(changed)
}
