//! The layer's metrics. Checks only add to their own cells; the event reader reports the rest.

use std::sync::atomic::{AtomicU64, Ordering};

use entourage_model::Key;
use metrics::{Counter, Gauge, counter, gauge};

use super::{gate::Gate, rows::Rows};

const CELLS: usize = 16;

/// On a cache line of its own: counting threads do not contend.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What the layer holds, and its hits and misses since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Checks that memory answered.
    pub hits: u64,
    pub misses: u64,
    pub fills: u64,
    pub evictions: u64,
    /// How often everything was dropped.
    pub clears: u64,
    /// Checks that memory answered while the store was away, past its usual age.
    pub stale: u64,
    pub rows: u64,
    /// Of rows, their index and ids, by the layer's own estimate.
    pub bytes: u64,
}

pub(super) struct Measures {
    cells: [Cell; CELLS],
    pub(super) fills: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) clears: AtomicU64,
    pub(super) stale: AtomicU64,
    told: Told,
}

/// Where it is reported.
struct Told {
    hits: Counter,
    misses: Counter,
    fills: Counter,
    evictions: Counter,
    clears: Counter,
    stale: Counter,
    bytes: Gauge,
    rows: Gauge,
    lag_seconds: Gauge,
}

impl Default for Measures {
    fn default() -> Self {
        let told = Told {
            hits: counter!("entourage_cache_hits_total"),
            misses: counter!("entourage_cache_misses_total"),
            fills: counter!("entourage_cache_fills_total"),
            evictions: counter!("entourage_cache_evictions_total"),
            clears: counter!("entourage_cache_clears_total"),
            stale: counter!("entourage_cache_stale_total"),
            bytes: gauge!("entourage_cache_bytes"),
            rows: gauge!("entourage_cache_rows"),
            lag_seconds: gauge!("entourage_cache_lag_seconds"),
        };
        let [fills, evictions, clears, stale] = Default::default();
        Self { cells: Default::default(), fills, evictions, clears, stale, told }
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

    pub(super) fn add(measure: &AtomicU64, count: u64) {
        measure.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn figures(&self, rows: &Rows) -> Figures {
        let sum = |of: fn(&Cell) -> &AtomicU64| self.cells.iter().map(|cell| of(cell).load(Ordering::Relaxed)).sum();
        Figures {
            hits: sum(|cell| &cell.hits),
            misses: sum(|cell| &cell.misses),
            fills: self.fills.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            clears: self.clears.load(Ordering::Relaxed),
            stale: self.stale.load(Ordering::Relaxed),
            rows: rows.len() as u64,
            bytes: rows.bytes(),
        }
    }

    pub(super) fn tell(&self, rows: &Rows, gate: &Gate) {
        let (figures, told) = (self.figures(rows), &self.told);
        told.hits.absolute(figures.hits);
        told.misses.absolute(figures.misses);
        told.fills.absolute(figures.fills);
        told.evictions.absolute(figures.evictions);
        told.clears.absolute(figures.clears);
        told.stale.absolute(figures.stale);
        told.bytes.set(figures.bytes as f64);
        told.rows.set(figures.rows as f64);
        told.lag_seconds.set(gate.lag().as_secs_f64());
    }
}
