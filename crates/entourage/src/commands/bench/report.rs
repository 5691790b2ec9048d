//! The results, as a table or as JSON.

use std::{collections::BTreeMap, io::Write as _};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    Arguments,
    draw::NAMES,
    drive::{Kind, Plan, Stats},
    server::Seen,
};

#[derive(Serialize)]
struct Report<'a> {
    protocol: &'static str,
    asked: &'a str,
    connections: usize,
    pipeline: usize,
    /// Requests a second that the schedule had; none without a schedule.
    scheduled: Option<u64>,
    /// Answers a second that came.
    rate: f64,
    seconds: f64,
    total: Line<'a>,
    operations: Vec<Line<'a>>,
    server: ServerLine,
}

/// Times are in microseconds, since each request was due.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    count: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
    errors: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct ServerLine {
    /// Microseconds of processor time, user and system, for each request.
    processor: Option<f64>,
    /// Microseconds within which the server answered 99 of 100, by its own measures.
    p99_within: Option<f64>,
}

pub(super) fn print(
    arguments: &Arguments,
    protocol: &'static str,
    plan: &Plan,
    stats: &Stats,
    seen: &Seen,
) -> Result<()> {
    let count = stats.count();
    let mut errors = BTreeMap::new();
    for (error, count) in stats.kinds.iter().flat_map(|kind| &kind.errors) {
        *errors.entry(error.clone()).or_default() += count;
    }
    let workload = format!("{:?}", arguments.workload).to_lowercase();
    let measured = || stats.kinds.iter().zip(NAMES).filter(|(kind, _)| !kind.times.is_empty());
    let processor = seen.processor_seconds.filter(|_| count > 0).map(|seconds| seconds * 1e6 / count as f64);
    let report = Report {
        protocol,
        asked: arguments.command.as_deref().unwrap_or(&workload),
        connections: plan.connections,
        pipeline: plan.pipeline,
        scheduled: (plan.rate > 0).then_some(plan.rate),
        rate: if count == 0 { 0.0 } else { count as f64 / stats.seconds() },
        seconds: stats.seconds(),
        total: line("all", &stats.all()?, errors),
        operations: measured().map(|(Kind { times, errors }, name)| line(name, times, errors.clone())).collect(),
        server: ServerLine { processor, p99_within: seen.p99_within.map(|seconds| seconds * 1e6) },
    };
    let text = if arguments.json { serde_json::to_string(&report)? } else { text(&report) };
    Ok(writeln!(std::io::stdout(), "{}", text.trim_end())?)
}

fn line<'a>(name: &'a str, times: &Histogram<u64>, errors: BTreeMap<String, u64>) -> Line<'a> {
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
    Line { name, count: times.len(), p50, p90, p99, p999, max: times.max() as f64 / 1e3, errors }
}

fn text(report: &Report<'_>) -> String {
    let schedule = match report.scheduled {
        Some(rate) => format!("{rate} requests a second on a schedule"),
        None => "each request when the one before is answered".to_owned(),
    };
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["", "COUNT", "P50 µs", "P90 µs", "P99 µs", "P99.9 µs", "MAX µs", "REFUSED"]);
    let lines = report.operations.iter().chain((report.operations.len() != 1).then_some(&report.total));
    for line in lines {
        let refused: Vec<String> = line.errors.iter().map(|(error, count)| format!("{count} {error}")).collect();
        let times = [line.p50, line.p90, line.p99, line.p999, line.max].map(|time| format!("{time:.0}"));
        let mut row = vec![line.name.to_owned(), line.count.to_string()];
        row.extend(times);
        row.push(if refused.is_empty() { "-".to_owned() } else { refused.join(", ") });
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1).take(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!(
        "{} over {}: {} connections, up to {} at once on each, {schedule}\n{:.0} answers a second for {:.1} s\n\n{}\n",
        report.asked,
        report.protocol,
        report.connections,
        report.pipeline,
        report.rate,
        report.seconds,
        table.trim_fmt()
    );
    if let Some(processor) = report.server.processor {
        text.push_str(&format!("\nserver: {processor:.2} µs of processor time for each request"));
    }
    if let Some(within) = report.server.p99_within {
        text.push_str(&format!("\nserver: 99 of 100 answered within {within:.0} µs, by its own measures"));
    }
    text
}
