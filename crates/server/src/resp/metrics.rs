//! Metrics of RESP. Handles are made once, and connections count locally until they have answered.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::table::COMMANDS;

pub(super) struct Metrics {
    by_command: Vec<Counter>,
    unknown: Counter,
    seconds: Histogram,
    connections: Gauge,
    refused: Counter,
    total: AtomicU64,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let name = "entourage_resp_commands_total";
        Self {
            by_command: COMMANDS.iter().map(|spec| counter!(name, "command" => spec.name)).collect(),
            unknown: counter!(name, "command" => "unknown"),
            seconds: histogram!("entourage_resp_read_seconds"),
            connections: gauge!("entourage_resp_connections"),
            refused: counter!("entourage_resp_connections_refused_total"),
            total: AtomicU64::new(0),
        }
    }

    /// All commands of one read were answered.
    pub(super) fn answered(&self, elapsed: Duration) {
        self.seconds.record(elapsed.as_secs_f64());
    }

    pub(super) fn connected(&self) {
        self.connections.increment(1.0);
    }

    pub(super) fn disconnected(&self) {
        self.connections.decrement(1.0);
    }

    pub(super) fn refused(&self) {
        self.refused.increment(1);
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// Consecutive commands of one kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    command: Option<usize>,
    count: u64,
}

impl Tally {
    pub(super) fn add(&mut self, command: Option<usize>, metrics: &Metrics) {
        if command != self.command {
            self.flush(metrics);
            self.command = command;
        }
        self.count += 1;
    }

    pub(super) fn flush(&mut self, metrics: &Metrics) {
        if self.count > 0 {
            let counter = self.command.and_then(|index| metrics.by_command.get(index)).unwrap_or(&metrics.unknown);
            counter.increment(self.count);
            metrics.total.fetch_add(self.count, Ordering::Relaxed);
            self.count = 0;
        }
    }
}
