//! The store's metrics. Handles are created when it opens, so that a batch only uses them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::engine::Engine;

/// Sizes are sampled once in this many batches, and by the idle checkpoint thread.
const BATCHES_BETWEEN_SAMPLES: u64 = 64;

pub(crate) struct Metrics {
    batches: AtomicU64,
    batch_writes: Histogram,
    sync_seconds: Histogram,
    checkpoint_seconds: Histogram,
    checkpoint_failures: Counter,
    log_bytes: Gauge,
    memory_bytes: Gauge,
    users: Gauge,
    edges: Gauge,
    quotas: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            batches: AtomicU64::new(0),
            batch_writes: histogram!("entourage_batch_writes"),
            sync_seconds: histogram!("entourage_sync_seconds"),
            checkpoint_failures: counter!("entourage_checkpoint_failures_total"),
            checkpoint_seconds: histogram!("entourage_checkpoint_seconds"),
            log_bytes: gauge!("entourage_log_bytes"),
            memory_bytes: gauge!("entourage_memory_bytes"),
            users: gauge!("entourage_users"),
            edges: gauge!("entourage_edges"),
            quotas: gauge!("entourage_limiter_keys", "limit" => "follows"),
        }
    }
}

impl Metrics {
    pub(crate) fn batch(&self, engine: &Engine, writes: usize, synced_in: Duration) {
        self.batch_writes.record(writes as f64);
        self.sync_seconds.record(synced_in.as_secs_f64());
        self.quotas.set(engine.state.quotas.len() as f64);
        if self.batches.fetch_add(1, Ordering::Relaxed).is_multiple_of(BATCHES_BETWEEN_SAMPLES) {
            self.sizes(engine);
        }
    }

    pub(crate) fn checkpoint(&self, engine: &Engine, elapsed: Duration) {
        self.checkpoint_seconds.record(elapsed.as_secs_f64());
        self.sizes(engine);
    }

    pub(crate) fn failed_checkpoint(&self) {
        self.checkpoint_failures.increment(1);
    }

    pub(crate) fn sizes(&self, engine: &Engine) {
        self.log_bytes.set(engine.segments.lock().bytes() as f64);
        self.memory_bytes.set(engine.memory_estimate() as f64);
        self.users.set(f64::from(engine.state.users()));
        self.edges.set(engine.state.edges() as f64);
    }
}
