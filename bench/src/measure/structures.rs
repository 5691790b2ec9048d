//! Other ways to hold the same edges: what each takes, how quickly it answers, and how often wrongly.

use std::{hint::black_box, time::Instant};

use anyhow::{Result, ensure};
use entourage_model::Key;
use fastbloom::BloomFilter;
use hashbrown::HashSet;
use roaring::RoaringBitmap;
use xorf::{BinaryFuse16, Filter as _};

use super::{
    Bench, Subject,
    checks::{self, CHECKS},
    import,
};
use crate::{
    child::{self, Freed},
    graph::Graph,
    peers::{Peer, Postgres},
    table::{Row, number},
};

/// Of the filter that is built for a rate.
const WRONG: f64 = 0.001;
/// As with the others, one thread asks.
const CLIENTS: usize = 1;

/// Something that says whether one follows another.
struct Way {
    name: &'static str,
    bytes: f64,
    has: Box<dyn Fn(u32, u32) -> bool>,
}

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let graph = subject.graph;
    let (pairs, edges) = checks::pairs(graph);
    let mut rows = vec![ours(bench, subject, &pairs, edges)?];
    for build in [sorted, hashed, bitmaps, bloom, fuse] {
        let way = build(graph)?;
        let (mut rates, mut yes) = (Vec::new(), 0);
        for _ in 0..bench.arguments.repeat {
            let began = Instant::now();
            yes = pairs.iter().filter(|(a, b)| (way.has)(a.0 as u32, b.0 as u32)).count();
            rates.push(CHECKS as f64 / began.elapsed().as_secs_f64());
            black_box(yes);
        }
        ensure!(yes >= edges, "{} misses edges", way.name);
        let wrong = 1e6 * (yes - edges) as f64 / (CHECKS - edges) as f64;
        let wrong = if yes == edges { String::new() } else { format!("; wrong {} times in a million", number(wrong)) };
        rows.push(row(way.name, way.bytes / graph.edges() as f64, rates, &wrong));
    }
    rows.push(redis(bench, graph)?);
    rows.push(postgres(bench, graph)?);
    Ok(rows)
}

fn row(name: &str, bytes: f64, rates: Vec<f64>, more: &str) -> Row {
    Row::new(format!("checks: {name}"), "/s", rates).note(format!("{bytes:.1} bytes an edge{more}"))
}

/// One thread, one check at a time. Memory is that of a process that opened the store, less that with users alone.
fn ours(bench: &Bench<'_>, subject: &Subject<'_>, pairs: &[(Key, Key)], edges: usize) -> Result<Row> {
    let alone = bench.place.fresh("store-users")?;
    import::users_only(bench, subject, &alone)?;
    let resident = |folder| -> Result<f64> { Ok(child::open(folder, Freed::Returned)?.resident as f64) };
    let bytes = (resident(subject.folder)? - resident(&alone)?) / subject.graph.edges() as f64;
    let rates = bench.with_store(subject.folder, async |store| {
        let mut rates = Vec::new();
        for _ in 0..bench.arguments.repeat {
            let (seconds, yes) = checks::run(&**store, pairs, 1, 1)?;
            ensure!(yes == edges, "{yes} checks said yes, {edges} are edges");
            rates.push(CHECKS as f64 / seconds);
        }
        Ok(rates)
    })?;
    Ok(row("Entourage, embedded", bytes, rates, ", durable, lists of both sides with times on disk"))
}

fn lists(graph: &Graph) -> impl Iterator<Item = Vec<u32>> + '_ {
    let each = graph.edges() as usize / graph.users as usize;
    (0..graph.users as usize).map(move |user| {
        let targets = (user * each..(user + 1) * each).map(|index| graph.edge(index).1.0 as u32);
        let mut targets: Vec<u32> = targets.collect();
        targets.sort_unstable();
        targets
    })
}

fn packed(graph: &Graph) -> impl Iterator<Item = u64> + '_ {
    (0..graph.edges() as usize).map(|index| {
        let (follower, target) = graph.edge(index);
        pack(follower.0 as u32, target.0 as u32)
    })
}

const fn pack(follower: u32, target: u32) -> u64 {
    (follower as u64) << u32::BITS | target as u64
}

fn sorted(graph: &Graph) -> Result<Way> {
    let lists: Vec<Box<[u32]>> = lists(graph).map(Vec::into_boxed_slice).collect();
    let bytes = lists.iter().map(|list| size_of_val(&**list) + size_of_val(list)).sum::<usize>() as f64;
    let has = move |a: u32, b: u32| lists.get(a as usize).is_some_and(|list| list.binary_search(&b).is_ok());
    Ok(Way { name: "a sorted array a user", bytes, has: Box::new(has) })
}

fn hashed(graph: &Graph) -> Result<Way> {
    let set: HashSet<u64> = packed(graph).collect();
    let bytes = set.allocation_size() as f64;
    Ok(Way { name: "one hash set of pairs", bytes, has: Box::new(move |a, b| set.contains(&pack(a, b))) })
}

fn bitmaps(graph: &Graph) -> Result<Way> {
    let maps: Vec<RoaringBitmap> =
        lists(graph).map(RoaringBitmap::from_sorted_iter).collect::<std::result::Result<_, _>>()?;
    let bytes = |map: &RoaringBitmap| {
        let found = map.statistics();
        let containers = found.n_containers as u64 * CONTAINER;
        found.n_bytes_array_containers + found.n_bytes_bitset_containers + containers + size_of_val(map) as u64
    };
    let bytes = maps.iter().map(bytes).sum::<u64>() as f64;
    let has = move |a: u32, b: u32| maps.get(a as usize).is_some_and(|map| map.contains(b));
    Ok(Way { name: "a compressed bitmap a user", bytes, has: Box::new(has) })
}

/// What a container of a bitmap takes beside its values: its key and three words of its array.
const CONTAINER: u64 = 32;

fn bloom(graph: &Graph) -> Result<Way> {
    let mut filter = BloomFilter::with_false_pos(WRONG).expected_items(graph.edges() as usize);
    for pair in packed(graph) {
        filter.insert(&pair);
    }
    let bytes = filter.num_bits() as f64 / 8.0;
    Ok(Way { name: "a Bloom filter", bytes, has: Box::new(move |a, b| filter.contains(&pack(a, b))) })
}

fn fuse(graph: &Graph) -> Result<Way> {
    let keys: Vec<u64> = packed(graph).collect();
    let filter = BinaryFuse16::try_from(&keys).map_err(anyhow::Error::msg)?;
    let bytes = size_of_val(&*filter.fingerprints) as f64;
    Ok(Way { name: "a fuse filter, frozen", bytes, has: Box::new(move |a, b| filter.contains(&pack(a, b))) })
}

/// Its own client and the network are in it; of one connection, as of one thread.
fn redis(bench: &Bench<'_>, graph: &Graph) -> Result<Row> {
    let redis = Peer::redis(bench.place.fresh("redis-structures")?)?;
    let before = redis.used_memory()?;
    redis.fill(graph)?;
    let bytes = (redis.used_memory()? - before) / graph.edges() as f64;
    let mut rates = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let (users, seconds) = (graph.users.to_string(), bench.arguments.seconds.ceil().to_string());
        let more = ["--users", users.as_str(), "--seconds", seconds.as_str()];
        rates.push(crate::peers::ask(&redis, "SISMEMBER following:{user} {user}", CLIENTS, 100, &more)?.rate);
    }
    redis.stop()?;
    Ok(row("Redis, a set a user, 100 at once", bytes, rates, ", one side, no times; one connection"))
}

fn postgres(bench: &Bench<'_>, graph: &Graph) -> Result<Row> {
    let postgres = Postgres::start(&bench.place.fresh("postgres-structures")?, graph, CLIENTS)?;
    let bytes = postgres.bytes_of("bench.following")? / graph.edges() as f64;
    let mut rates = Vec::new();
    for _ in 0..bench.arguments.repeat {
        rates.push(postgres.checks(bench.arguments.seconds.ceil() as u64)?);
    }
    postgres.stop()?;
    Ok(row("PostgreSQL, a table", bytes, rates, " with its primary key, one side with times; one connection"))
}
