//! `stats`: version, readiness, and what the server has counted since it started.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{connection::Connection, table};

/// Metrics summed over their labels.
const COUNTED: &[(&str, &str)] = &[
    ("requests", "entourage_http_requests_total"),
    ("commits", "entourage_commits_total"),
    ("refusals", "entourage_refusals_total"),
];

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let connection = &arguments.connection;
    let version: Value = serde_json::from_str(&connection.text(Method::GET, "/version", None)?)?;
    let ready = connection.text(Method::GET, "/readyz", None);
    let metrics = connection.text(Method::GET, "/metrics", None)?;
    let counted: BTreeMap<&str, u64> = COUNTED.iter().map(|(name, metric)| (*name, sum(&metrics, metric))).collect();
    let answer = json!({ "version": version["version"], "ready": ready.is_ok(), "since_start": counted });
    connection.print(&answer, table::fields)
}

fn sum(metrics: &str, name: &str) -> u64 {
    let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let value = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
    metrics.lines().filter(of_name).filter_map(value).sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_labels() {
        let metrics = "# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3\na_b 7\nb 9\n";
        assert_eq!((sum(metrics, "a"), sum(metrics, "b"), sum(metrics, "c")), (5, 9, 0));
    }
}
