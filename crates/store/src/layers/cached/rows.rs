//! Everything that is held, within its budget: read without waiting, changed in version order.
//!
//! Each change comes twice, from the write that made it and from the events, in any order; rows come from reads that
//! began before or after a change. A change is remembered until the events have passed it, so an older one does
//! nothing, and a row that was being read meanwhile is not held.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use entourage_model::{Key, Sequence, State, Version};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Options,
    erased::Erased,
    gate::{Gate, millis},
    held::{self, Held},
    ids::Ids,
    look::Look,
    measures::Measures,
    row::{Change, Row, RowKey},
};
use crate::{EdgeRow, adjacency::Ordinals};

const STRIPES: usize = 64;
/// Past this many erased users whom nobody followed again, everything is read anew.
const ERASED_MAX: usize = 100_000;

/// Where a change comes from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A write of this process, with its outcome's watermark.
    Outcome(Sequence, &'a Gate),
    /// The events, which will have covered this watermark when they are through.
    Events(Sequence),
}

/// Who reads a row that several callers want.
pub(super) enum Begun {
    /// The caller, until it drops the sender.
    Lead(Reading, watch::Sender<()>),
    /// Another caller, until the sender is dropped.
    Join(watch::Receiver<()>),
    /// Nobody has to.
    Held,
}

/// A row that is being read.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    key: RowKey,
    generation: u64,
}

/// The effect of a change on one row.
struct Part<'a> {
    key: RowKey,
    member: Key,
    change: &'a Change,
}

struct Recent {
    version: Version,
    /// Once the events have covered this one, no older change of the edge is in flight.
    until: Sequence,
}

struct Filling {
    changed: bool,
    done: watch::Receiver<()>,
}

/// Guards the rows of some users against concurrent changes.
#[derive(Default)]
struct Stripe {
    recent: HashMap<(RowKey, Key), Recent>,
    filling: HashMap<RowKey, Filling>,
}

/// What is held at some moment.
pub(super) struct Everything {
    pub(super) rows: Vec<(RowKey, Arc<Row>)>,
    /// Indexed by ordinal.
    pub(super) keys: Vec<Key>,
}

pub(super) struct Rows {
    pub(super) held: Held,
    pub(super) ordinals: Ordinals,
    pub(super) erased: Erased,
    pub(super) ids: Ids,
    stripes: Vec<Mutex<Stripe>>,
    recent: AtomicUsize,
    /// Even; odd during a clear.
    pub(super) generation: AtomicU64,
    clearing: Mutex<()>,
    budget: u64,
    ttl_millis: u64,
    edges_max: usize,
    changes_max: usize,
    measures: Arc<Measures>,
}

impl Rows {
    pub(super) fn new(options: &Options, measures: Arc<Measures>) -> Self {
        Self {
            held: held::with_room(options.budget_bytes),
            ordinals: Ordinals::default(),
            erased: Erased::default(),
            ids: Ids::new(options.budget_bytes),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            recent: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            clearing: Mutex::new(()),
            budget: options.budget_bytes,
            ttl_millis: millis(options.ttl),
            edges_max: options.row_edges_max,
            changes_max: options.changes_max,
            measures,
        }
    }

    fn stripe(&self, key: RowKey) -> &Mutex<Stripe> {
        let hash = (key.user.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &self.stripes[hash as usize % STRIPES]
    }

    /// A user is erased as of `version`.
    pub(super) fn erase(&self, user: Key, version: Version) {
        self.erased.insert(user, version);
        self.ids.forget(user);
    }

    pub(super) fn apply(&self, changes: &[Change], source: Source<'_>) {
        let mut parts = Vec::with_capacity(changes.len());
        for change in changes {
            let rows = RowKey::of_edge(change.kind, change.follower, change.target);
            parts.extend(rows.map(|(key, member)| Part { key, member, change }));
        }
        // Stable: changes of one edge stay in order.
        parts.sort_by_key(|part| part.key);
        for of_row in parts.chunk_by(|one, other| one.key == other.key) {
            self.apply_to_row(of_row, source);
        }
    }

    fn apply_to_row(&self, parts: &[Part<'_>], source: Source<'_>) {
        let Some(&Part { key, .. }) = parts.first() else { return };
        let mut stripe = self.stripe(key).lock();
        let until = match source {
            // The events have delivered it already, and perhaps what came after it.
            Source::Outcome(watermark, gate) if watermark <= gate.covered() => return,
            Source::Outcome(watermark, _) | Source::Events(watermark) => watermark,
        };
        let before = stripe.recent.len();
        let mut is_news = |part: &&Part<'_>| {
            let (edge, version) = ((key, part.member), part.change.version);
            let is_new = stripe.recent.get(&edge).is_none_or(|known| known.version < version);
            if is_new {
                stripe.recent.insert(edge, Recent { version, until });
            }
            is_new
        };
        let news: Vec<&Part<'_>> = parts.iter().filter(|part| is_news(part)).collect();
        self.recent.fetch_add(stripe.recent.len() - before, Ordering::Relaxed);
        if news.is_empty() {
            return;
        }
        if let Some(filling) = stripe.filling.get_mut(&key) {
            filling.changed = true;
        }
        let Some(held) = self.held.peek(&key).filter(|row| !row.too_large) else { return };
        if held.generation != self.generation.load(Ordering::Acquire) {
            return;
        }
        let mut changed = (*held).clone();
        for &&Part { member, change, .. } in &news {
            let ordinal = match change.state {
                State::Removed => self.ordinals.get(member),
                _ => Some(self.ordinals.get_or_add(member)),
            };
            if let Some(ordinal) = ordinal {
                changed.set(ordinal, change.state, change.cause);
            }
        }
        self.hold(key, changed);
    }

    /// With the stripe of the row locked.
    fn hold(&self, key: RowKey, row: Row) {
        let row = if row.edges() > self.edges_max || row.bytes() > self.held.shard_capacity() / 2 {
            Row::too_large(row.generation, row.expires)
        } else {
            row
        };
        let gone = self.held.insert_with_lifecycle(key, Arc::new(row));
        let evicted = gone.iter().filter(|(other, _)| *other != key).count();
        Measures::add(&self.measures.evictions, evicted as u64);
    }

    pub(super) fn is_too_large(&self, key: RowKey, now: u64) -> bool {
        self.look_in(key, now, |_| Look::Absent) == Look::TooLarge
    }

    /// Who reads the row, if it must be read.
    pub(super) fn begin(&self, key: RowKey, now: u64) -> Begun {
        let mut stripe = self.stripe(key).lock();
        if let Some(filling) = stripe.filling.get(&key) {
            return Begun::Join(filling.done.clone());
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.held.peek(&key).is_some_and(|row| row.generation == generation && now < row.expires) {
            return Begun::Held;
        }
        let (sender, done) = watch::channel(());
        stripe.filling.insert(key, Filling { changed: false, done });
        Begun::Lead(Reading { key, generation }, sender)
    }

    /// The row as it was read since `begin`; `None` when it is too large. Held only if nothing intervened.
    pub(super) fn fill(&self, reading: Reading, contents: Option<&EdgeRow>, now: u64) {
        let Reading { key, generation } = reading;
        let expires = now.saturating_add(self.ttl_millis);
        let row = match contents {
            Some(contents) => Row::of(contents, &self.ordinals, generation, expires),
            None => Row::too_large(generation, expires),
        };
        let mut stripe = self.stripe(key).lock();
        let unchanged = stripe.filling.get_mut(&key).is_some_and(|filling| !filling.changed);
        if unchanged && self.generation.load(Ordering::Acquire) == generation && generation.is_multiple_of(2) {
            self.hold(key, row);
            Measures::add(&self.measures.fills, 1);
        }
    }

    /// Whatever the outcome: the next caller may read the row.
    pub(super) fn end(&self, reading: Reading) {
        self.stripe(reading.key).lock().filling.remove(&reading.key);
    }

    /// A row from a snapshot, before anything else happens.
    pub(super) fn restore(&self, key: RowKey, contents: &EdgeRow, expires: u64) {
        let row = Row::of(contents, &self.ordinals, self.generation.load(Ordering::Acquire), expires);
        let _stripe = self.stripe(key).lock();
        self.hold(key, row);
    }

    /// The events have covered this watermark: changes up to it need not be remembered.
    pub(super) fn passed(&self, covered: Sequence, gate: &Gate) {
        self.forget_changes(|recent| recent.until <= covered);
        self.bound_changes(gate);
        self.make_room();
    }

    /// Past this many changes none is remembered, also while the events stall. They are in the store: memory is not
    /// used before the events have delivered all of them.
    pub(super) fn bound_changes(&self, gate: &Gate) {
        if self.recent.load(Ordering::Relaxed) > self.changes_max {
            self.forget_changes(|recent| {
                gate.require(recent.until);
                true
            });
        }
    }

    /// The store went back: nothing known is valid, and no event will pass the remembered changes.
    pub(super) fn begin_anew(&self) {
        self.clear();
        self.forget_changes(|_| true);
    }

    fn forget_changes(&self, is_over: impl Fn(&Recent) -> bool) {
        let mut left = 0;
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            if !stripe.recent.is_empty() {
                stripe.recent.retain(|_, recent| !is_over(recent));
                if stripe.recent.is_empty() {
                    stripe.recent.shrink_to(64);
                }
                left += stripe.recent.len();
            }
        }
        self.recent.store(left, Ordering::Relaxed);
    }

    /// Keys take room that eviction does not free: past half of the budget everything is cleared.
    fn make_room(&self) {
        let keys = self.ordinals.bytes();
        let is_full = keys > self.budget / 2 || self.ordinals.are_used_up();
        if is_full || self.erased.len() > ERASED_MAX {
            self.clear();
        }
        let room = self.budget.saturating_sub(self.ordinals.bytes() + self.ids.bytes());
        // Not for every few keys: it visits everything held.
        if room.abs_diff(self.held.capacity()) > self.budget / 32 {
            self.held.set_capacity(room);
        }
    }

    /// Drops everything, also rows that are being read.
    pub(super) fn clear(&self) {
        let _alone = self.clearing.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.held.clear();
        self.ordinals.clear();
        self.erased.clear();
        self.ids.clear();
        for stripe in &self.stripes {
            stripe.lock().filling.values_mut().for_each(|filling| filling.changed = true);
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
        Measures::add(&self.measures.clears, 1);
    }

    /// Whether rows can be added before they are asked for, and nothing that was has to go.
    pub(super) fn has_room(&self) -> bool {
        self.bytes() < self.budget / 10 * 9 && self.ordinals.bytes() < self.budget / 10 * 4
    }

    pub(super) fn bytes(&self) -> u64 {
        self.held.weight() + self.ordinals.bytes() + self.ids.bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Every valid row; `None` when everything was cleared meanwhile.
    pub(super) fn all(&self) -> Option<Everything> {
        let generation = self.generation.load(Ordering::Acquire);
        let rows = self.held.iter().filter(|(_, row)| row.generation == generation && !row.too_large).collect();
        // After the rows: everyone they name has an ordinal by now.
        let keys = self.ordinals.keys();
        let is_same = self.generation.load(Ordering::Acquire) == generation && generation.is_multiple_of(2);
        is_same.then_some(Everything { rows, keys })
    }
}
