//! A sweep of all users, page by page: the cost of a page must not grow with the number of users.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use entourage_embedded::Store;
use entourage_store::Sweep;

use super::{
    Bench,
    import::{CHUNK, commit_chunks},
    short,
};
use crate::{
    arguments::Measurement,
    graph, place,
    results::Results,
    table::{Row, number},
};

const USERS: [u32; 3] = [250_000, 1_000_000, 4_000_000];
/// The page size of jobs.
const PAGE: usize = 1_000;
/// How much more a user may cost at the largest size than at the smallest: only cache misses may add to it.
const GROWTH_GOAL: f64 = 2.0;

impl Bench<'_> {
    pub(crate) fn sweep(&self, results: &mut Results) -> Result<()> {
        let mut each = Vec::with_capacity(USERS.len());
        for users in USERS {
            let data = format!("{} users", short(users.into()));
            eprintln!("{data}");
            let folder = self.place.fresh(&format!("store-sweep-{users}"))?;
            results.of(Measurement::Sweep);
            let runs = self.with_store(&folder, async |store| {
                let chunks = (0..users).step_by(CHUNK).map(|from| from..(from + CHUNK as u32).min(users));
                let made = commit_chunks(store, chunks.map(|numbers| numbers.map(graph::put_user).collect())).await?;
                ensure!(made == u64::from(users), "{made} of {users} users were made");
                let mut runs = Vec::with_capacity(self.arguments.repeat);
                for _ in 0..self.arguments.repeat {
                    runs.push(go_through(store, users).await?);
                }
                Ok(runs)
            })?;
            if !self.arguments.keep {
                place::remove(&folder)?;
            }
            let row = Row::new("sweep of all users", "s", runs.clone());
            each.push(row.measured() / f64::from(users));
            let nanos = number(row.measured() * 1e9 / f64::from(users));
            results.extend(&data, [row.note(format!("pages of {PAGE}, {nanos} ns a user"))]);
        }
        if let ([fewest, .., most], [first, .., last]) = (USERS, each.as_slice()) {
            let data = format!("{} of {} users", short(most.into()), short(fewest.into()));
            let row = Row::new("sweep: a user costs so many times as much", "×", vec![last / first]);
            results.of(Measurement::Sweep).extend(&data, [row.at_most(GROWTH_GOAL)]);
        }
        Ok(())
    }
}

async fn go_through(store: &Arc<Store>, users: u32) -> Result<f64> {
    let (mut sweep, mut seen) = (Sweep::default(), 0);
    let started = Instant::now();
    while let Some(page) = sweep.next(&**store, PAGE).await? {
        seen += page.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    ensure!(seen == users as usize, "{seen} of {users} users were swept");
    Ok(seconds)
}
