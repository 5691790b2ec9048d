//! The server's own figures for the measured time: processor time and latency.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};

use super::wire::Protocol;

const HTTP_SECONDS: &str = "entourage_http_request_seconds_bucket{";
/// Of all commands that one read brought.
const RESP_SECONDS: &str = "entourage_resp_read_seconds_bucket{";

pub(super) struct Watched<'a> {
    /// Where metrics are read, if anywhere, and which.
    measures: Option<(&'a Protocol, &'static str)>,
    pid: Option<u32>,
}

/// One reading.
pub(super) struct Look {
    /// Processor time so far, in seconds.
    processor: Option<f64>,
    /// Answers within each bound, of all routes together; over RESP, of what one read brought.
    within: BTreeMap<String, u64>,
}

/// The difference of two readings.
pub(super) struct Seen {
    pub(super) processor_seconds: Option<f64>,
    /// Seconds within which 99 of 100 were answered, as the server measured it.
    pub(super) p99_within: Option<f64>,
}

impl<'a> Watched<'a> {
    /// Metrics are served over HTTP, whose address RESP does not tell.
    pub(super) fn new(protocol: &'a Protocol, metrics: Option<&'a Protocol>, pid: Option<u32>) -> Self {
        let measures = match protocol {
            Protocol::Rest(_) => Some((metrics.unwrap_or(protocol), HTTP_SECONDS)),
            Protocol::Resp { .. } => metrics.map(|metrics| (metrics, RESP_SECONDS)),
        };
        Self { measures, pid }
    }

    pub(super) fn look(&self) -> Result<Look> {
        // The server may have no metrics or not allow reading them.
        let read = |(protocol, name)| measures(protocol, name).unwrap_or_default();
        let within = self.measures.map(read).unwrap_or_default();
        Ok(Look { processor: self.pid.map(processor_seconds).transpose()?, within })
    }

    pub(super) fn between(before: &Look, after: &Look) -> Seen {
        let processor_seconds = after.processor.zip(before.processor).map(|(after, before)| after - before);
        let since = |(bound, count): (&String, &u64)| {
            let seconds = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((seconds, count.saturating_sub(before.within.get(bound).copied().unwrap_or(0))))
        };
        let mut within: Vec<(f64, u64)> = after.within.iter().filter_map(since).collect();
        within.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = within.last().map_or(0, |(_, count)| *count);
        let enough = |(_, count): &&(f64, u64)| all > 0 && *count as f64 >= 0.99 * all as f64;
        Seen { processor_seconds, p99_within: within.iter().find(enough).map(|(bound, _)| *bound) }
    }
}

fn measures(protocol: &Protocol, name: &str) -> Result<BTreeMap<String, u64>> {
    let text = protocol.get("/metrics")?;
    let mut within = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(name)) {
        let bound = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count = line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
        if let (Some(bound), Some(count), false) = (bound, count, line.contains("/metrics")) {
            *within.entry(bound.to_owned()).or_default() += count;
        }
    }
    Ok(within)
}

/// User and system time of all threads of a process.
fn processor_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The process name before may contain spaces and parentheses.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let ticks = ticks(11).zip(ticks(12)).map(|(user, system)| user + system).with_context(|| path.clone())?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
