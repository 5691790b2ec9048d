//! One measurement a file; this one runs them over a graph in an order that lets each find the store as it needs it.

mod checks;
mod common;
mod disk;
mod feed;
mod follows;
mod growth;
mod import;
mod memory;
mod pages;
mod reopen;
mod resp;
mod rest;
mod usual;

use std::path::Path;

use anyhow::Result;
use entourage_store::{Store as _, backends::embedded::Options};
use tokio::runtime::Runtime;

use crate::{
    arguments::{Arguments, Measurement},
    graph::Graph,
    place::{self, Place},
    table::{Results, number},
};

/// What every measurement is given.
pub(crate) struct Bench<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) place: &'a Place,
    pub(crate) runtime: &'a Runtime,
}

/// One graph and where its store is.
struct Subject<'a> {
    graph: &'a Graph,
    folder: &'a Path,
}

impl Bench<'_> {
    pub(crate) fn graph(&self, edges: u64, users: u32, results: &mut Results) -> Result<()> {
        let data = format!("{} edges, {} users", short(edges), short(u64::from(users)));
        eprintln!("{data}");
        let graph = Graph::new(edges, users, self.arguments.times)?;
        let wants = |measurement| self.arguments.wants(measurement);
        let folder = self.place.fresh(&format!("store-{edges}-{users}"))?;
        let subject = Subject { graph: &graph, folder: &folder };

        let rows = import::measure(self, &subject)?;
        if wants(Measurement::Import) {
            results.extend(&data, rows);
        }
        if wants(Measurement::Disk) {
            results.extend(&data, disk::measure(&subject)?);
        }
        if wants(Measurement::Memory) {
            results.extend(&data, memory::measure(self, &subject)?);
        }
        if wants(Measurement::Reopen) {
            results.extend(&data, reopen::clean(self, &subject)?);
        }
        if wants(Measurement::Checks) {
            results.extend(&data, checks::measure(self, &subject)?);
        }
        if wants(Measurement::Follows) {
            results.extend(&data, follows::measure(self, &subject)?);
        }
        if wants(Measurement::Target) {
            results.extend(&data, follows::measure_target(self, &subject)?);
        }
        if wants(Measurement::Pages) {
            results.extend(&data, pages::measure(self, &subject)?);
        }
        if wants(Measurement::Reopen) {
            results.extend(&data, reopen::killed(self, &subject)?);
        }
        if wants(Measurement::Rest) {
            results.extend(&data, rest::measure(self, &subject)?);
        }
        if wants(Measurement::Resp) {
            results.extend(&data, resp::measure(self, &subject)?);
        }
        if !self.arguments.keep {
            place::remove(&folder)?;
        }
        Ok(())
    }

    /// What does not depend on the graph.
    pub(crate) fn by_itself(&self, results: &mut Results) -> Result<()> {
        if self.arguments.wants(Measurement::Common) {
            results.extend("two users", common::measure(self)?);
        }
        if self.arguments.wants(Measurement::Feed) {
            results.extend("feeds", feed::measure(self)?);
        }
        Ok(())
    }

    /// Only an account with as many followers as there are users.
    pub(crate) fn celebrity(&self, users: u32, results: &mut Results) -> Result<()> {
        let data = format!("{} followers of one", short(u64::from(users)));
        eprintln!("{data}");
        let graph = Graph::new(u64::from(users), users, self.arguments.times)?;
        let folder = self.place.fresh(&format!("store-celebrity-{users}"))?;
        let subject = Subject { graph: &graph, folder: &folder };
        import::users_only(self, &subject, &folder)?;
        results.extend(&data, pages::measure(self, &subject)?);
        if !self.arguments.keep {
            place::remove(&folder)?;
        }
        Ok(())
    }

    /// Opens the store, lets `work` use it, and closes it.
    fn with_store<T>(
        &self,
        folder: &Path,
        work: impl AsyncFnOnce(&std::sync::Arc<entourage_store::backends::embedded::Store>) -> Result<T>,
    ) -> Result<T> {
        let store = place::open(folder, Options::default())?;
        self.runtime.block_on(async {
            let done = work(&store).await?;
            store.close().await?;
            Ok(done)
        })
    }
}

/// 10,000,000 as "10M".
fn short(count: u64) -> String {
    if count >= 1_000_000 && count.is_multiple_of(100_000) {
        format!("{}M", count as f64 / 1e6)
    } else if count >= 1_000 && count.is_multiple_of(100) {
        format!("{}K", count as f64 / 1e3)
    } else {
        number(count as f64)
    }
}
