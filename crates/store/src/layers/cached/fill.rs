//! Misses: which rows to read, single-flight, and many of them with one read.

use std::{collections::VecDeque, sync::Arc};

use entourage_model::{Key, Kind};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Shared,
    look::Look,
    row::RowKey,
    rows::{Begun, Reading},
};

/// Rows that one call waits for before it asks for its edges directly instead.
const ROWS_A_CALL: usize = 4;
/// Rows that one call has read for the next one, while there is room for them.
const ROWS_FOR_LATER: usize = 1_000;
/// Rows of one read.
const ROWS_AT_ONCE: usize = 250;
/// Rows that wait to be read. Past that the store is asked for edges directly.
const WAITING_MAX: usize = 20_000;
/// Rows of a refill that are asked for at a time: what callers miss comes in between.
const REFILL_AT_ONCE: usize = 1_000;

/// A row that somebody waits for. Released however its reader ends.
struct Leading {
    shared: Arc<Shared>,
    key: RowKey,
    reading: Reading,
    _done: watch::Sender<()>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.shared.rows.end(self.reading);
    }
}

/// Rows that wait for a reader, and how many readers there are.
#[derive(Default)]
struct Waiting {
    rows: VecDeque<Leading>,
    readers: usize,
}

impl Waiting {
    /// The first one with others of its kind and side.
    fn take(&mut self) -> Vec<Leading> {
        let Some(first) = self.rows.front().map(|leading| leading.key) else { return Vec::new() };
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        for leading in self.rows.drain(..) {
            let is_alike = (leading.key.kind, leading.key.side) == (first.kind, first.side);
            if is_alike && taken.len() < ROWS_AT_ONCE { taken.push(leading) } else { kept.push_back(leading) }
        }
        self.rows = kept;
        taken
    }
}

#[derive(Default)]
pub(super) struct Misses {
    waiting: Mutex<Waiting>,
}

/// Reads rows until none waits.
struct Reader {
    shared: Arc<Shared>,
    is_counted: bool,
}

impl Reader {
    fn next(&mut self) -> Vec<Leading> {
        let mut waiting = self.shared.misses.waiting.lock();
        let taken = waiting.take();
        if taken.is_empty() {
            waiting.readers = waiting.readers.saturating_sub(1);
            self.is_counted = false;
        }
        taken
    }

    async fn read_all(mut self) {
        loop {
            let taken = self.next();
            let Some(RowKey { kind, side, .. }) = taken.first().map(|leading| leading.key) else { return };
            crate::fail_point("cache-fill");
            let users: Vec<Key> = taken.iter().map(|leading| leading.key.user).collect();
            let shared = &self.shared;
            match shared.inner.get_rows(kind, side, &users, shared.options.row_edges_max).await {
                Ok(rows) => {
                    let now = shared.gate.now();
                    for (leading, row) in taken.iter().zip(&rows) {
                        shared.rows.fill(leading.reading, row.as_ref(), now);
                    }
                }
                Err(error) => tracing::debug!(%error, "rows were not read"),
            }
        }
    }
}

impl Drop for Reader {
    /// One that ends early leaves nobody waiting: whoever still wants a row asks the store.
    fn drop(&mut self) {
        if self.is_counted {
            let mut waiting = self.shared.misses.waiting.lock();
            waiting.readers = waiting.readers.saturating_sub(1);
            let left = if waiting.readers == 0 { std::mem::take(&mut waiting.rows) } else { VecDeque::new() };
            drop(waiting);
            drop(left);
        }
    }
}

impl Shared {
    /// Fills rows for these edges. Waits only if memory can then answer for all of them, and soon.
    pub(super) async fn bring_in(self: &Arc<Self>, kind: Kind, missing: &[(Key, Key)]) {
        let wanted = self.rows_for(kind, missing);
        if wanted.len() > ROWS_A_CALL {
            let most = if self.rows.has_room() { ROWS_FOR_LATER } else { ROWS_A_CALL };
            wanted.into_iter().take(most).for_each(|key| drop(self.begin(key)));
            return;
        }
        let under_way: Vec<_> = wanted.into_iter().filter_map(|key| self.begin(key)).collect();
        // Behind many others it would take longer than to ask.
        if self.misses.waiting.lock().rows.len() > ROWS_AT_ONCE {
            return;
        }
        for mut done in under_way {
            // The sender is dropped when the row is there.
            while done.changed().await.is_ok() {}
        }
    }

    /// Has these rows read, the first ones first, while there is room for them.
    pub(super) async fn refill(self: Arc<Self>, keys: Vec<RowKey>) {
        for some in keys.chunks(REFILL_AT_ONCE) {
            if !self.rows.has_room() || self.gate.is_closed() {
                return;
            }
            let under_way: Vec<_> = some.iter().filter_map(|key| self.begin(*key)).collect();
            for mut done in under_way {
                while done.changed().await.is_ok() {}
            }
        }
    }

    /// Has a row read, unless it is held; waiters are told when that is over.
    pub(super) fn begin(self: &Arc<Self>, key: RowKey) -> Option<watch::Receiver<()>> {
        match self.rows.begin(key, self.gate.now()) {
            Begun::Lead(reading, done) => {
                let over = done.subscribe();
                self.collect(Leading { shared: Arc::clone(self), key, reading, _done: done });
                Some(over)
            }
            Begun::Join(over) => Some(over),
            Begun::Held => None,
        }
    }

    /// Readers are tasks of their own: the caller may go away. Misses that come while all of them read are the next read.
    fn collect(self: &Arc<Self>, leading: Leading) {
        let mut waiting = self.misses.waiting.lock();
        if waiting.rows.len() >= WAITING_MAX {
            // Not with the lock: others are told.
            drop(waiting);
            return drop(leading);
        }
        waiting.rows.push_back(leading);
        if waiting.readers < self.options.fills_max {
            waiting.readers += 1;
            let reader = Reader { shared: Arc::clone(self), is_counted: true };
            drop(waiting);
            self.runtime.spawn(reader.read_all());
        }
    }

    /// Rows that answer for as many of the edges as possible, those for the most first.
    fn rows_for(&self, kind: Kind, missing: &[(Key, Key)]) -> Vec<RowKey> {
        let now = self.gate.now();
        let mut uses: HashMap<RowKey, usize> = HashMap::new();
        let candidates = |&(follower, target): &(Key, Key)| RowKey::of_edge(kind, follower, target).map(|(key, _)| key);
        for key in missing.iter().flat_map(candidates) {
            *uses.entry(key).or_default() += 1;
        }
        uses.retain(|key, _| !self.rows.is_too_large(*key, now));
        let best = |pair: &(Key, Key)| {
            candidates(pair).filter_map(|key| Some((*uses.get(&key)?, key))).max_by_key(|(count, _)| *count)
        };
        let mut chosen: Vec<(usize, RowKey)> =
            missing.iter().filter_map(best).collect::<HashSet<_>>().into_iter().collect();
        chosen.sort_unstable_by(|one, other| other.cmp(one));
        chosen.into_iter().map(|(_, key)| key).collect()
    }

    /// What is known of an edge, if memory may answer.
    pub(super) fn look(&self, kind: Kind, follower: Key, target: Key) -> Look {
        let now = self.gate.now();
        if self.gate.is_open(now) { self.rows.look(kind, follower, target, now) } else { Look::Missing }
    }
}
