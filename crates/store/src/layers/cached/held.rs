//! Rows within a byte budget: the evicting cache, with its weights and hooks.

use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter, sync::Cache};

use super::row::{Row, RowKey};

/// An estimate that only decides how finely locks are split.
const BYTES_PER_ROW_EXPECTED: u64 = 512;

pub(super) type Held = Cache<RowKey, Arc<Row>, Weigh, DefaultHashBuilder, Evictions>;

pub(super) fn with_room(bytes: u64) -> Held {
    let items = usize::try_from(bytes / BYTES_PER_ROW_EXPECTED).unwrap_or(usize::MAX).max(1);
    match OptionsBuilder::new().estimated_items_capacity(items).weight_capacity(bytes).build() {
        Ok(sizes) => Cache::with_options(sizes, Weigh, DefaultHashBuilder::default(), Evictions),
        Err(_) => Cache::with(items, bytes, Weigh, DefaultHashBuilder::default(), Evictions),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Weigh;

impl Weighter<RowKey, Arc<Row>> for Weigh {
    fn weight(&self, _key: &RowKey, row: &Arc<Row>) -> u64 {
        row.bytes()
    }
}

/// Collects evicted rows, to be counted and dropped outside the locks.
#[derive(Clone)]
pub(super) struct Evictions;

impl Lifecycle<RowKey, Arc<Row>> for Evictions {
    type RequestState = Vec<(RowKey, Arc<Row>)>;

    fn begin_request(&self) -> Self::RequestState {
        Vec::new()
    }

    fn on_evict(&self, gone: &mut Self::RequestState, key: RowKey, row: Arc<Row>) {
        gone.push((key, row));
    }
}
