//! One measurement a file; this one runs them over a graph in an order that gives each the store it needs.

mod cached;
mod cached_postgres;
mod checks;
mod common;
mod detectors;
mod disk;
mod durable;
mod feed;
mod follows;
mod giant;
mod growth;
mod import;
mod memory;
mod pages;
mod postgres;
mod postgres_bulk;
mod reopen;
mod resp;
mod rest;
mod structures;
mod suggest;
mod sweep;
mod usual;

use std::path::Path;

use anyhow::Result;
use entourage_embedded::Options;
use entourage_store::Store as _;
use tokio::runtime::Runtime;

use crate::{
    arguments::{Arguments, Measurement},
    graph::Graph,
    machine,
    place::{self, Place},
    results::Results,
    table::number,
};

pub(crate) use giant::run_build as build_giant;

/// The context of every measurement.
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
        let wants = |measurement| self.arguments.wants_on(measurement, (edges, users));
        let folder = self.place.fresh(&format!("store-{edges}-{users}"))?;
        let subject = Subject { graph: &graph, folder: &folder };

        if wants(Measurement::Import) {
            results.of(Measurement::Import).extend(&data, import::measure(self, &subject)?);
        } else {
            import::fill(self, &subject)?;
        }
        if wants(Measurement::Disk) {
            results.of(Measurement::Disk).extend(&data, disk::measure(&subject)?);
        }
        if wants(Measurement::Memory) {
            results.of(Measurement::Memory).extend(&data, memory::measure(self, &subject)?);
        }
        if wants(Measurement::Reopen) {
            results.of(Measurement::Reopen).extend(&data, reopen::clean(self, &subject)?);
        }
        if wants(Measurement::Checks) {
            results.of(Measurement::Checks).extend(&data, checks::measure(self, &subject)?);
        }
        if wants(Measurement::Structures) {
            results.of(Measurement::Structures).extend(&data, structures::measure(self, &subject)?);
        }
        if wants(Measurement::Cached) {
            results.of(Measurement::Cached).extend(&data, cached::measure(self, &subject)?);
        }
        if wants(Measurement::Follows) {
            results.of(Measurement::Follows).extend(&data, follows::measure(self, &subject)?);
        }
        if wants(Measurement::Target) {
            results.of(Measurement::Target).extend(&data, follows::measure_target(self, &subject)?);
        }
        if wants(Measurement::Pages) {
            results.of(Measurement::Pages).extend(&data, pages::measure(self, &subject)?);
        }
        if wants(Measurement::Reopen) {
            results.of(Measurement::Reopen).extend(&data, reopen::killed(self, &subject)?);
        }
        if wants(Measurement::Rest) {
            results.of(Measurement::Rest).extend(&data, rest::measure(self, &subject)?);
        }
        if wants(Measurement::Resp) {
            results.of(Measurement::Resp).extend(&data, resp::measure(self, &subject)?);
        }
        if !self.arguments.keep {
            place::remove(&folder)?;
        }
        Ok(())
    }

    /// What does not depend on the graph.
    pub(crate) fn by_itself(&self, results: &mut Results) -> Result<()> {
        if self.arguments.wants(Measurement::Common) {
            results.of(Measurement::Common).extend("two users", common::measure(self)?);
        }
        if self.arguments.wants(Measurement::Cached) {
            let [edges, users] = [cached_postgres::EDGES, cached_postgres::USERS.into()].map(short);
            let data = format!("PostgreSQL, {edges} edges, {users} users");
            results.of(Measurement::Cached).extend(&data, cached_postgres::measure(self)?);
        }
        if self.arguments.wants(Measurement::Postgres) {
            let data = format!("PostgreSQL, {} users", short(postgres::USERS.into()));
            results.of(Measurement::Postgres).extend(&data, postgres::measure(self)?);
            let data = format!("PostgreSQL, {}", postgres_bulk::about(self));
            results.of(Measurement::Postgres).extend(&data, postgres_bulk::measure(self)?);
        }
        if self.arguments.wants(Measurement::Feed) {
            results.of(Measurement::Feed).extend("feeds", feed::measure(self)?);
        }
        if self.arguments.wants(Measurement::Suggest) {
            results.of(Measurement::Suggest).extend(&suggest::about(), suggest::measure(self)?);
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
        results.of(Measurement::Pages).extend(&data, pages::measure(self, &subject)?);
        if !self.arguments.keep {
            place::remove(&folder)?;
        }
        Ok(())
    }

    /// Whether a graph of this many edges has room on the disk.
    pub(crate) fn has_room_for(&self, edges: u64) -> Result<bool> {
        Ok(machine::free_disk_bytes(self.place.root())? >= disk_bytes(edges))
    }

    /// Opens the store, lets `work` use it, and closes it.
    fn with_store<T>(
        &self,
        folder: &Path,
        work: impl AsyncFnOnce(&std::sync::Arc<entourage_embedded::Store>) -> Result<T>,
    ) -> Result<T> {
        let store = place::open(folder, Options::default())?;
        self.runtime.block_on(async {
            let done = work(&store).await?;
            store.close().await?;
            Ok(done)
        })
    }
}

/// The disk space of a run with this many edges: both directions, users, the log, and a second checkpoint.
pub(crate) const fn disk_bytes(edges: u64) -> u64 {
    edges * 128
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
