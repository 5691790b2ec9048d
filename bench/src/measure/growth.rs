//! How checks keep their speed as the graph grows, over the wire and in process, with a chart. All sizes are measured
//! in turn: noise on the machine hits each of them.

use std::{error::Error, path::PathBuf};

use anyhow::{Result, anyhow};
use entourage_embedded::Options;
use entourage_store::Store as _;
use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Color as _, IntoDrawingArea as _, IntoLogRange as _, LineSeries, PathElement, RED,
    RGBColor, SVGBackend, WHITE,
};

use super::{Bench, Subject, checks::Asked, disk_bytes, import, short};
use crate::{
    arguments::Measurement,
    graph::{self, Graph},
    peers::{Peer, ask},
    place,
    results::Results,
    table::{Row, median, number},
};

const FOLLOWS_EACH: u64 = 50;
/// Parts of the largest graph.
const PARTS: [u64; 3] = [100, 10, 1];
/// Fewer users have no room for so many follows of each.
const EDGES_MIN: u64 = 20_000;
const CONNECTIONS: usize = 50;
const PICTURE_SIZE: (u32, u32) = (720, 420);

/// A store of one size.
struct Size {
    edges: u64,
    folder: PathBuf,
    asked: Asked,
}

/// Checks a second at one size, in each round.
struct Point {
    edges: u64,
    wire: Vec<f64>,
    process: Vec<f64>,
}

impl Bench<'_> {
    pub(crate) fn growth(&self, results: &mut Results) -> Result<()> {
        let sizes = self.sizes()?.into_iter().map(|edges| self.fill_for_growth(edges)).collect::<Result<Vec<_>>>()?;
        eprintln!("growth: {} rounds of each", self.arguments.repeat);
        let (process, wire) = (self.rounds_in_process(&sizes)?, self.rounds_over_the_wire(&sizes)?);
        let mut points = Vec::new();
        for ((size, process), wire) in sizes.iter().zip(process).zip(wire) {
            place::remove(&size.folder)?;
            points.push(Point { edges: size.edges, wire, process });
        }
        for point in &points {
            let wire = Row::new("growth: checks over RESP", "/s", point.wire.clone())
                .note(format!("SISMEMBER, {CONNECTIONS} connections, 100 at once, one in five a yes"));
            let process =
                Row::new("growth: checks in process", "/s", point.process.clone()).note("one thread, one at a time");
            let data = format!("{} edges, {} users", short(point.edges), short(point.edges / FOLLOWS_EACH));
            results.of(Measurement::Growth).extend(&data, [wire, process]);
        }
        if let [.., tenth, last] = points.as_slice()
            && last.edges == self.largest()
        {
            let times = |these: &[f64], others: &[f64]| -> Vec<f64> {
                these.iter().zip(others).map(|(this, other)| this / other).collect()
            };
            let wire = times(&last.wire, &tenth.wire);
            let process = times(&tenth.process, &last.process);
            results.of(Measurement::Growth).extend(
                &format!("{} of {} edges", short(last.edges), short(tenth.edges)),
                [
                    Row::new("growth: checks over RESP, of those at a tenth", "×", wire).at_least(0.75),
                    Row::new("growth: time of a check in process, of that at a tenth", "×", process).at_most(2.0),
                ],
            );
        }
        let mut picture = String::new();
        draw(&mut picture, &points).map_err(|error| anyhow!("the picture of growth: {error}"))?;
        results.picture(Measurement::Growth, picture);
        Ok(())
    }

    fn largest(&self) -> u64 {
        self.arguments.edges.unwrap_or(graph::LARGE.0)
    }

    /// The largest is left out where the disk has no room for it.
    fn sizes(&self) -> Result<Vec<u64>> {
        let largest = self.largest();
        let mut sizes: Vec<u64> = PARTS.iter().map(|part| largest / part).filter(|edges| *edges >= EDGES_MIN).collect();
        if !self.has_room_for(largest)? {
            eprintln!("growth: {} edges need {} GiB of free disk: left out", short(largest), disk_bytes(largest) >> 30);
            sizes.pop();
        }
        Ok(sizes)
    }

    fn fill_for_growth(&self, edges: u64) -> Result<Size> {
        let users = u32::try_from(edges / FOLLOWS_EACH)?;
        eprintln!("growth: {} edges", short(edges));
        let graph = Graph::new(edges, users, self.arguments.times)?;
        let folder = self.place.fresh(&format!("store-growth-{edges}"))?;
        import::fill(self, &Subject { graph: &graph, folder: &folder })?;
        Ok(Size { edges, folder, asked: Asked::of(&graph) })
    }

    fn rounds_in_process(&self, sizes: &[Size]) -> Result<Vec<Vec<f64>>> {
        let stores = sizes.iter().map(|size| place::open(&size.folder, Options::default()));
        let stores = stores.collect::<Result<Vec<_>>>()?;
        let rates = self.in_turn(sizes, |index, size| size.asked.one_by_one(&*stores[index]))?;
        for store in stores {
            self.runtime.block_on(store.close())?;
        }
        Ok(rates)
    }

    fn rounds_over_the_wire(&self, sizes: &[Size]) -> Result<Vec<Vec<f64>>> {
        let peers = sizes.iter().map(|size| Peer::entourage(&size.folder)).collect::<Result<Vec<_>>>()?;
        let seconds = self.arguments.seconds.ceil().to_string();
        let rates = self.in_turn(sizes, |index, size| {
            let users = (size.edges / FOLLOWS_EACH).to_string();
            let more = ["--users", &users, "--seconds", &seconds, "--warm-up", "1", "--prepare", "20000"];
            Ok(ask(&peers[index], "SISMEMBER following:{follower} {target}", CONNECTIONS, 100, &more)?.rate)
        })?;
        peers.into_iter().try_for_each(Peer::stop)?;
        Ok(rates)
    }

    /// A rate of each size in each round.
    fn in_turn(&self, sizes: &[Size], rate: impl Fn(usize, &Size) -> Result<f64>) -> Result<Vec<Vec<f64>>> {
        let mut rates = vec![Vec::new(); sizes.len()];
        for _ in 0..self.arguments.repeat {
            for (index, size) in sizes.iter().enumerate() {
                rates[index].push(rate(index, size)?);
            }
        }
        Ok(rates)
    }
}

/// Its name, its colour and its height at each point.
type Line = (&'static str, RGBColor, fn(&Point) -> f64);

fn draw(picture: &mut String, points: &[Point]) -> Result<(), Box<dyn Error>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(()) };
    let top = points.iter().map(|point| median(&point.wire).max(median(&point.process))).fold(0.0, f64::max) * 1.15;
    let root = SVGBackend::with_string(picture, PICTURE_SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(said)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d((first.edges as f64..last.edges as f64).log_scale(), 0.0..top)
        .map_err(said)?;
    chart
        .configure_mesh()
        .x_desc("edges")
        .y_desc("checks a second")
        .x_label_formatter(&|edges| short(*edges as u64))
        .y_label_formatter(&|rate| number(*rate))
        .draw()
        .map_err(said)?;
    let lines: [Line; 2] = [
        ("over RESP, 100 at once", BLUE, |point| median(&point.wire)),
        ("in process, one at a time", RED, |point| median(&point.process)),
    ];
    for (name, colour, of) in lines {
        let line = LineSeries::new(points.iter().map(|point| (point.edges as f64, of(point))), &colour).point_size(4);
        let mark = move |(x, y): (i32, i32)| PathElement::new(vec![(x, y), (x + 18, y)], colour);
        chart.draw_series(line).map_err(said)?.label(name).legend(mark);
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw().map_err(said)?;
    root.present().map_err(said)?;
    Ok(())
}

fn said(error: impl Error) -> Box<dyn Error> {
    error.to_string().into()
}
