//! Whom two users both follow, for lists of every size.

use std::{hint::black_box, time::Instant};

use anyhow::{Result, ensure};
use entourage_model::Key;
use entourage_store::Store as _;

use super::{Bench, import::commit_chunks};
use crate::{
    graph::{self, Graph},
    place,
    random::Random,
    table::Row,
};

const USERS: u32 = 2_000_000;
const CHUNK: usize = 10_000;
const CALLS: usize = 200;
/// Follows of each pair, and the permitted microseconds of their intersection.
const PAIRS: [([usize; 2], f64); 2] = [([10_000, 10_000], 60.0), ([1_000, 1_000_000], 100.0)];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("store-common")?;
    let graph = Graph::new(u64::from(USERS), USERS, bench.arguments.times)?;
    let rows = bench.with_store(&folder, async |store| {
        let users = (0..=USERS).step_by(CHUNK).map(|from| graph.user_writes(from, CHUNK as u32));
        commit_chunks(store, users).await?;
        let mut random = Random::new(11);
        let mut rows = Vec::new();
        let mut user = 0;
        for (sizes, goal) in PAIRS {
            let pair = [Key(user), Key(user + 1)];
            user += 2;
            for (follower, size) in pair.into_iter().zip(sizes) {
                let mut targets: Vec<i64> = Vec::new();
                while targets.len() < size {
                    targets.extend((0..size).map(|_| 10 + random.below(u64::from(USERS) - 10) as i64));
                    targets.sort_unstable();
                    targets.dedup();
                }
                // Surplus ones are removed at random, not from the end.
                while targets.len() > size {
                    targets.swap_remove(random.below(targets.len() as u64) as usize);
                }
                let at = graph.time(0, 1);
                let writes =
                    |some: &[i64]| some.iter().map(|target| graph::import(follower, Key(*target), at)).collect();
                let made = commit_chunks(store, targets.chunks(CHUNK).map(writes)).await?;
                ensure!(made == size as u64, "{made} of {size} follows were made");
            }
            let mut runs = Vec::new();
            let mut found = Vec::new();
            for _ in 0..CALLS {
                found.clear();
                let began = Instant::now();
                ensure!(store.peek_common(pair[0], pair[1], usize::MAX, &mut found), "memory knows");
                runs.push(began.elapsed().as_secs_f64() * 1e6);
                black_box(&found);
            }
            let [one, other] = sizes.map(|size| crate::table::number(size as f64));
            let note = format!("in process, {} in both", found.len());
            rows.push(Row::new(format!("intersection of {one} and {other}"), "µs", runs).at_most(goal).note(note));
        }
        Ok(rows)
    })?;
    place::remove(&folder)?;
    Ok(rows)
}
