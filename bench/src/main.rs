//! Measures the embedded store in this process, and the server beside others: `make bench`.

mod arguments;
mod book;
mod child;
mod graph;
mod machine;
mod measure;
mod peers;
mod place;
mod random;
mod record;
mod results;
mod table;
mod tools;

use std::io::Write as _;

use anyhow::{Result, ensure};
use clap::Parser;

use crate::{
    arguments::{Arguments, Child, Measurement},
    book::Book,
    graph::{LARGE, Times},
    measure::Bench,
    place::Place,
    results::{Finished, Results},
};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const LARGE_CELEBRITY: u32 = 14_000_000;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match &arguments.child {
        None => run(&arguments, &runtime),
        Some(Child::Compose) => compose(&Book::new(arguments.results)),
        // One thread, as Redis has.
        Some(Child::Null { address }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(peers::run_null(address))
        }
        Some(Child::Giant { folder, followers }) => runtime.block_on(measure::build_giant(folder, *followers)),
        Some(Child::Open { folder }) => child::run_open(folder),
        Some(Child::OpenCached { folder, snapshot }) => runtime.block_on(child::run_open_cached(folder, snapshot)),
        Some(Child::Write { folder, users, seed }) => runtime.block_on(child::run_write(folder, *users, *seed)),
    }
}

fn run(arguments: &Arguments, runtime: &tokio::runtime::Runtime) -> Result<()> {
    prepare(arguments)?;
    let place = Place::new(arguments.data.clone(), arguments.keep)?;
    let flags = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut results = Results::new(machine::look(place.root(), flags, vec![about(arguments.times)])?);
    let bench = Bench { arguments, place: &place, runtime };
    let graphs = arguments.graphs();
    ensure!(
        !graphs.contains(&LARGE) || bench.has_room_for(LARGE.0)?,
        "100M edges need {} GiB of free disk",
        measure::disk_bytes(LARGE.0) >> 30
    );
    for (edges, users) in graphs {
        bench.graph(edges, users, &mut results)?;
    }
    bench.by_itself(&mut results)?;
    if arguments.wants(Measurement::Sweep) {
        bench.sweep(&mut results)?;
    }
    if arguments.wants(Measurement::Growth) {
        bench.growth(&mut results)?;
    }
    if arguments.large && arguments.wants(Measurement::Pages) {
        bench.celebrity(LARGE_CELEBRITY, &mut results)?;
    }
    if arguments.wants(Measurement::Giant) {
        bench.giant(arguments.followers, &mut results)?;
    }
    let text = results.text();
    let finished = results.finish()?;
    let shown = if arguments.json { json(&finished)? } else { text };
    writeln!(std::io::stdout(), "{shown}")?;
    keep(arguments, &finished)?;
    place.finish()
}

/// Says before all the work what will not be kept.
fn prepare(arguments: &Arguments) -> Result<()> {
    for measurement in arguments.wanted() {
        tools::versions(measurement)?;
        if !arguments.keeps(measurement) && !arguments.dry {
            eprintln!(
                "{}: not the usual graph, rounds or times; it is printed and not kept without --write",
                measurement.name()
            );
        }
    }
    Ok(())
}

fn json(finished: &[Finished]) -> Result<String> {
    let records: serde_json::Map<_, _> = finished
        .iter()
        .map(|part| Ok((part.measurement.name(), serde_json::to_value(&part.record)?)))
        .collect::<Result<_>>()?;
    Ok(serde_json::to_string_pretty(&records)?)
}

fn keep(arguments: &Arguments, finished: &[Finished]) -> Result<()> {
    let kept: Vec<&Finished> = finished.iter().filter(|part| arguments.keeps(part.measurement)).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let book = Book::new(arguments.results.clone());
    kept.into_iter().try_for_each(|part| book.keep(part))?;
    compose(&book)
}

fn compose(book: &Book) -> Result<()> {
    for warning in book.write_results()? {
        eprintln!("warning: {warning}");
    }
    Ok(())
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
