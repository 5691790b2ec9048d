//! Measures the embedded store in this process: `cargo run --release -p entourage-bench`.

mod arguments;
mod child;
mod graph;
mod machine;
mod measure;
mod peers;
mod place;
mod random;
mod table;

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::{
    arguments::{Arguments, Child, Measurement},
    graph::Times,
    machine::Machine,
    measure::Bench,
    place::Place,
    table::Results,
};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const RESULTS: &str = "bench/RESULTS.md";
/// Edges and users of the usual graphs.
const GRAPHS: [(u64, u32); 2] = [(10_000_000, 200_000), (10_000_000, 2_000_000)];
const LARGE: (u64, u32) = (100_000_000, 2_000_000);
const LARGE_CELEBRITY: u32 = 14_000_000;
const LARGE_DISK: u64 = 12 << 30;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match &arguments.child {
        None => run(&arguments, &runtime),
        // One thread, as Redis has.
        Some(Child::Null { address }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(peers::run_null(address))
        }
        Some(Child::Open { folder }) => child::run_open(folder),
        Some(Child::Write { folder, users, seed }) => runtime.block_on(child::run_write(folder, *users, *seed)),
    }
}

fn run(arguments: &Arguments, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let place = Place::new(arguments.data.clone(), arguments.keep)?;
    let mut results = Results::new(Machine::look(place.root())?, vec![about(arguments.times)]);
    let bench = Bench { arguments, place: &place, runtime };
    match (arguments.edges, arguments.users) {
        _ if !arguments.wants_graphs() => {}
        (Some(edges), Some(users)) => bench.graph(edges, users, &mut results)?,
        _ => GRAPHS.iter().try_for_each(|&(edges, users)| bench.graph(edges, users, &mut results))?,
    }
    bench.by_itself(&mut results)?;
    if arguments.wants(Measurement::Growth) {
        bench.growth(&mut results)?;
    }
    if arguments.large && arguments.wants_graphs() {
        let free = machine::free_disk_bytes(place.root())?;
        ensure!(free >= LARGE_DISK, "--large needs 12 GiB of free disk, there are {} MiB", free >> 20);
        bench.graph(LARGE.0, LARGE.1, &mut results)?;
        if arguments.wants(Measurement::Pages) {
            bench.celebrity(LARGE_CELEBRITY, &mut results)?;
        }
    }
    if arguments.write {
        std::fs::write(RESULTS, results.markdown()).with_context(|| format!("writing {RESULTS}"))?;
    }
    let shown = if arguments.json { results.json() } else { results.text() };
    writeln!(std::io::stdout(), "{shown}")?;
    place.finish()
}

fn about(times: Times) -> String {
    let order = match times {
        Times::Rising => "rise through the file over two years",
        Times::Random => "are anywhere in two years, each edge by itself",
    };
    format!(
        "Numeric users with the same number of follows each, targets by a power law, the same in every run; the file \
         is grouped by follower, and times {order}."
    )
}
