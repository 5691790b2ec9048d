//! PostgreSQL as the store: follows of concurrent callers, beside one function call for each in the same PostgreSQL.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::Result;
use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch};
use entourage_postgres as postgres;
use entourage_store::{Store, StoreExt as _, SystemClock};

use super::Bench;
use crate::{
    graph,
    peers::{Function, Postgres},
    random::{self, scale},
    table::{Row, median, number},
};

pub(super) const USERS: u32 = 100_000;
const CALLERS: usize = 64;

/// One way of following, and its goal: times the rate of the function.
struct Way {
    name: &'static str,
    callers: usize,
    is_of_one: bool,
    goal: f64,
}

const WAYS: [Way; 3] = [
    Way { name: "follows of 64 callers", callers: CALLERS, is_of_one: false, goal: 2.0 },
    Way { name: "follows of one target, 64 callers", callers: CALLERS, is_of_one: true, goal: 5.0 },
    Way { name: "follows of one caller", callers: 1, is_of_one: false, goal: 0.7 },
];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("postgres-store")?;
    let cluster = Postgres::empty(&folder)?;
    let function = Function::create(cluster.url(), &folder, USERS)?;
    let store = bench.runtime.block_on(async {
        let (options, clock) = (postgres::Options::default(), Arc::new(SystemClock));
        let store = Arc::new(postgres::Store::connect(cluster.url(), "entourage", options, clock).await?);
        fill(&*store).await?;
        anyhow::Ok(store)
    })?;
    let drawn = Arc::new(AtomicU64::new(0));
    let mut rates: [(Vec<f64>, Vec<f64>); WAYS.len()] = Default::default();
    // The first round warms up.
    for round in 0..=bench.arguments.repeat {
        for (way, (own, others)) in WAYS.iter().zip(&mut rates) {
            let target = way.is_of_one.then_some(1_000 + round as u32);
            let seconds = bench.arguments.seconds;
            let rate = bench.runtime.block_on(follows_a_second(&store, &drawn, way.callers, target, seconds))?;
            let other = function.follows(way.callers, target, seconds)?;
            if round > 0 {
                own.push(rate);
                others.push(other);
            }
        }
    }
    bench.runtime.block_on(store.close())?;
    cluster.stop()?;
    Ok(WAYS.iter().zip(&rates).flat_map(|(way, (own, others))| rows(way, own, others)).collect())
}

fn rows(way: &Way, own: &[f64], others: &[f64]) -> [Row; 2] {
    let note = format!("in process; a function in PostgreSQL that does the same {}/s", number(median(others)));
    let times = own.iter().zip(others).map(|(own, other)| own / other).collect();
    [
        Row::new(format!("PostgreSQL: {}", way.name), "/s", own.to_vec()).note(note),
        Row::new(format!("PostgreSQL: {}: of the function's", way.name), "×", times).at_least(way.goal),
    ]
}

async fn fill(store: &dyn Store) -> Result<()> {
    let keys: Vec<i64> = (0..i64::from(USERS)).collect();
    for keys in keys.chunks(1_000) {
        let put = |key: &i64| {
            let (id, patch, overwrite) = (UserId::from(*key), UserPatch::default(), Overwrite::Keep);
            Operation::PutUser { key: Key(*key), id, patch, overwrite }.into()
        };
        for outcome in store.commit_all(keys.iter().map(put).collect()).await {
            outcome?;
        }
    }
    Ok(())
}

/// New edges only.
async fn follows_a_second(
    store: &Arc<postgres::Store>,
    drawn: &Arc<AtomicU64>,
    callers: usize,
    target: Option<u32>,
    seconds: f64,
) -> Result<f64> {
    let began = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (store, drawn) = (Arc::clone(store), Arc::clone(drawn));
            tokio::spawn(async move {
                let mut count = 0;
                while began.elapsed().as_secs_f64() < seconds {
                    let number = drawn.fetch_add(1, Ordering::Relaxed);
                    let users = u64::from(USERS);
                    let target = target.map_or_else(|| scale(random::at(71, number * 2), users), u64::from);
                    let other = scale(random::at(71, number * 2 + 1), users - 1);
                    let follower = if other >= target { other + 1 } else { other };
                    let follow = graph::follow(Key(follower as i64), Key(target as i64));
                    count += u32::from(store.commit(follow).await?.reply.changed());
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
