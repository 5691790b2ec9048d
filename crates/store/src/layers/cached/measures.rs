//! What the layer measures of itself. Checks only add to cells of their own; the rest is told by the tail.

use std::sync::atomic::{AtomicU64, Ordering};

use entourage_model::Key;
use metrics::{Counter, Gauge, counter, gauge};

use super::{gate::Gate, rows::Rows};

const CELLS: usize = 16;

/// On a cache line of its own: threads that count do not wait for each other.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    hits: AtomicU64,
    misses: AtomicU64,
}

pub(super) struct Measures {
    cells: [Cell; CELLS],
    hits: Counter,
    misses: Counter,
    pub(super) fills: Counter,
    pub(super) evictions: Counter,
    pub(super) clears: Counter,
    bytes: Gauge,
    rows: Gauge,
    lag_seconds: Gauge,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            cells: Default::default(),
            hits: counter!("entourage_cache_hits_total"),
            misses: counter!("entourage_cache_misses_total"),
            fills: counter!("entourage_cache_fills_total"),
            evictions: counter!("entourage_cache_evictions_total"),
            clears: counter!("entourage_cache_clears_total"),
            bytes: gauge!("entourage_cache_bytes"),
            rows: gauge!("entourage_cache_rows"),
            lag_seconds: gauge!("entourage_cache_lag_seconds"),
        }
    }
}

impl Measures {
    /// Checks that memory answered, and those that it did not.
    #[inline]
    pub(super) fn checked(&self, user: Key, hits: u64, misses: u64) {
        let cell = &self.cells[user.0 as usize % CELLS];
        if hits > 0 {
            cell.hits.fetch_add(hits, Ordering::Relaxed);
        }
        if misses > 0 {
            cell.misses.fetch_add(misses, Ordering::Relaxed);
        }
    }

    pub(super) fn tell(&self, rows: &Rows, gate: &Gate) {
        let sum = |of: fn(&Cell) -> &AtomicU64| self.cells.iter().map(|cell| of(cell).load(Ordering::Relaxed)).sum();
        self.hits.absolute(sum(|cell| &cell.hits));
        self.misses.absolute(sum(|cell| &cell.misses));
        self.bytes.set(rows.bytes() as f64);
        self.rows.set(rows.len() as f64);
        self.lag_seconds.set(gate.lag().as_secs_f64());
    }
}
