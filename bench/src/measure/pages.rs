//! Pages of 50 of the account with the most followers: the newest, the oldest, any; also while much of it is new.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use entourage_embedded::Store;
use entourage_model::{Key, List, Operation, Place, Version};
use entourage_store::Store as _;
use hdrhistogram::Histogram;

use super::{Bench, Subject, import::commit_chunks, short};
use crate::{
    graph::{self, Graph},
    random::Random,
    table::Row,
};

const PAGE: usize = 50;
const READS: u64 = 5_000;
const CHUNK: usize = 10_000;
const GOAL: f64 = 50.0;

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let graph = subject.graph;
    // A quarter of the users is left to follow it in the storm.
    let followers = (graph.users as usize / 4 * 3).max(1);
    let storm = (graph.users as usize - followers).min(200_000);
    bench.with_store(subject.folder, async |store| {
        follow_celebrity(store, graph, followers).await?;
        store.checkpoint().await?;
        let account = Account { store, graph, followers };
        let state = format!("{} followers, users read too", short(followers as u64));
        let mut rows = vec![
            account.read("page of 50, newest", &state, |_| None).await?,
            account.read("page of 50, oldest", &state, |_| Some(PAGE)).await?,
            account
                .read("page of 50, anywhere", &state, |random| Some(random.below(followers as u64 - 1) as usize + 1))
                .await?,
        ];
        let storming = |operation: fn(Key, Key) -> Operation| {
            let (from, to) = (followers as i64, (followers + storm) as i64);
            let numbers: Vec<i64> = (from..to).collect();
            let writes = |chunk: &[i64]| {
                chunk.iter().map(|&number| operation(Key(number), graph.celebrity()).into()).collect::<Vec<_>>()
            };
            numbers.chunks(CHUNK).map(writes).collect::<Vec<_>>()
        };
        let follow =
            |follower, target| Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false };
        commit_chunks(store, storming(follow).into_iter()).await?;
        let state = format!("right after {} follows, none in blocks yet", short(storm as u64));
        rows.push(account.read("page of 50, newest, after a storm", &state, |_| None).await?);
        rows.push(account.read("page of 50, oldest, after a storm", &state, |_| Some(PAGE)).await?);
        store.checkpoint().await?;
        let unfollow = |follower, target| Operation::Unfollow { follower, target };
        commit_chunks(store, storming(unfollow).into_iter()).await?;
        let state = format!("right after {} unfollows, all still in blocks", short(storm as u64));
        rows.push(account.read("page of 50, newest, after unfollows", &state, |_| None).await?);
        rows.push(account.read("page of 50, oldest, after unfollows", &state, |_| Some(PAGE)).await?);
        Ok(rows)
    })
}

async fn follow_celebrity(store: &Arc<Store>, graph: &Graph, followers: usize) -> Result<()> {
    let chunks = (0..followers).step_by(CHUNK).map(|from| {
        let write = |index| graph::import(Key(index as i64), graph.celebrity(), graph.time(index, followers));
        (from..(from + CHUNK).min(followers)).map(write).collect()
    });
    let changed = commit_chunks(store, chunks).await?;
    ensure!(changed == followers as u64, "{changed} of {followers} followers were imported");
    Ok(())
}

struct Account<'a> {
    store: &'a Arc<Store>,
    graph: &'a Graph,
    followers: usize,
}

impl Account<'_> {
    /// Reads pages that begin below the follower that `after` names, counted from the oldest.
    async fn read(&self, what: &str, state: &str, after: impl Fn(&mut Random) -> Option<usize>) -> Result<Row> {
        let list = List::followers(self.graph.celebrity());
        let mut random = Random::new(51);
        let (mut whole, mut scans) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
        let begun = Instant::now();
        let mut reads = 0;
        while reads < READS && (reads < 20 || begun.elapsed().as_secs() < 5) {
            let after = after(&mut random).map(|index| self.place(index));
            let started = Instant::now();
            let page = self.store.scan(list, after, PAGE).await?;
            let scanned = started.elapsed();
            let keys: Vec<Key> = page.edges.iter().map(|edge| edge.follower).collect();
            let users = self.store.get_users(&keys).await?;
            let read = started.elapsed();
            ensure!(users.iter().all(Option::is_some), "a follower is unknown");
            let full = after.is_none_or(|after| after >= self.place(PAGE));
            ensure!(!full || keys.len() == PAGE, "a page of {}", keys.len());
            whole.record(read.as_nanos() as u64)?;
            scans.record(scanned.as_nanos() as u64)?;
            reads += 1;
        }
        let micros = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let (scan, p99) = (micros(&scans, 0.5), micros(&whole, 0.99));
        let note = format!("{state}; the scan alone {scan:.1} µs; 99th percentile of both {p99:.1} µs");
        Ok(Row::new(what, "µs", vec![micros(&whole, 0.5)]).at_most(GOAL).note(note))
    }

    fn place(&self, index: usize) -> Place {
        let position = Version::of_millis(self.graph.time(index, self.followers));
        Place { position, key: Key(index as i64) }
    }
}
