//! How checks keep their speed as the graph grows, over the wire and in process, with a picture of it.

use std::{error::Error, path::Path};

use anyhow::{Result, anyhow};
use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Color as _, IntoDrawingArea as _, IntoLogRange as _, LineSeries, PathElement, RED,
    RGBColor, SVGBackend, WHITE,
};

use super::{Bench, Subject, checks, import, short};
use crate::{
    graph::Graph,
    peers::{Peer, ask},
    place,
    table::{Results, Row, median, number},
};

const FOLLOWS_EACH: u64 = 50;
const SIZES: [u64; 2] = [1_000_000, 10_000_000];
const LARGE: u64 = 100_000_000;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 50;
const PICTURE: &str = "bench/growth.svg";
const PICTURE_SIZE: (u32, u32) = (720, 420);

/// Checks a second at one size.
struct Point {
    edges: u64,
    wire: f64,
    process: f64,
}

impl Bench<'_> {
    /// 100M edges only when the large graph is wanted.
    pub(crate) fn growth(&self, results: &mut Results) -> Result<()> {
        let mut points = Vec::new();
        for edges in SIZES.into_iter().chain(self.arguments.large.then_some(LARGE)) {
            let point = self.point(edges)?;
            let data = format!("{} edges, {} users", short(edges), short(edges / FOLLOWS_EACH));
            let note = format!("SISMEMBER, {CONNECTIONS} connections, 100 at once, one in five a yes");
            results.extend(&data, [Row::new("growth: checks over RESP", "/s", vec![point.wire]).note(note)]);
            let note = "one thread, one at a time";
            results.extend(&data, [Row::new("growth: checks in process", "/s", vec![point.process]).note(note)]);
            points.push(point);
        }
        if let [_, middle, last] = points.as_slice() {
            let (wire, process) = (last.wire / middle.wire, middle.process / last.process);
            results.extend(
                "100M of 10M edges",
                [
                    Row::new("growth: checks over RESP, of those at a tenth", "×", vec![wire]).at_least(0.75),
                    Row::new("growth: time of a check in process, of that at a tenth", "×", vec![process]).at_most(2.0),
                ],
            );
        }
        if self.arguments.write {
            draw(Path::new(PICTURE), &points).map_err(|error| anyhow!("{PICTURE}: {error}"))?;
        }
        Ok(())
    }

    fn point(&self, edges: u64) -> Result<Point> {
        let users = u32::try_from(edges / FOLLOWS_EACH)?;
        eprintln!("growth: {} edges", short(edges));
        let graph = Graph::new(edges, users, self.arguments.times)?;
        let folder = self.place.fresh("store-growth")?;
        let subject = Subject { graph: &graph, folder: &folder };
        import::fill(self, &subject)?;
        let process = checks::one_by_one(self, &subject)?;
        let peer = Peer::entourage(&folder)?;
        let (users, seconds) = (users.to_string(), self.arguments.seconds.ceil().to_string());
        let more = ["--users", &users, "--seconds", &seconds, "--warm-up", "1", "--prepare", "20000"];
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            rates.push(ask(&peer, "SISMEMBER following:{follower} {target}", CONNECTIONS, 100, &more)?.rate);
        }
        peer.stop()?;
        place::remove(&folder)?;
        Ok(Point { edges, wire: median(&rates), process })
    }
}

/// Its name, its colour and its height at each point.
type Line = (&'static str, RGBColor, fn(&Point) -> f64);

fn draw(path: &Path, points: &[Point]) -> Result<(), Box<dyn Error>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(()) };
    let top = points.iter().map(|point| point.wire.max(point.process)).fold(0.0, f64::max) * 1.15;
    let root = SVGBackend::new(path, PICTURE_SIZE).into_drawing_area();
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
        ("over RESP, 100 at once", BLUE, |point| point.wire),
        ("in process, one at a time", RED, |point| point.process),
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
