//! The following side of another store in memory: checks without a round trip, as long as memory is known to be up to
//! date. Removing the layer changes speed, never an answer.
//!
//! A check reads a held row ([`rows`]) while the [`gate`] is open; a miss reads the whole row once, single-flight
//! ([`fill`]). Writes through the layer change rows before they are acked, writes of other servers when the [`tail`]
//! sees their events. A [`snapshot`] saves a restart the misses.

mod away;
mod common;
mod erased;
mod fill;
mod gate;
mod held;
mod ids;
mod look;
mod measures;
mod options;
mod row;
mod rows;
mod snapshot;
mod tail;
mod warm;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Clock, Code, Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome,
    Page, Place, Quota, Record, RecordId, Result, Sequence, Side, Space, Uptime, User, Version, Watermark, Write,
};
use tokio::{
    runtime::Handle,
    sync::{Mutex, Notify},
    task::JoinHandle,
};

use self::{fill::Misses, gate::Gate, look::Look, measures::Measures, row::RowKey, rows::Rows, tail::Position};
pub use self::{measures::Figures, options::Options};
use crate::{
    Answer, Covered, EdgeRow, Guarantees, Health, HeardEnd, Identity, Named, NewestFollows, Progress, Report, Server,
    Snapshots, SweepCursor, Swept, SystemClock, SystemUptime, Unhealthy, Whose, disk::Disk,
};

/// What a layer needs besides the store it wraps.
pub struct Surroundings {
    pub clock: Arc<dyn Clock>,
    pub uptime: Arc<dyn Uptime>,
    /// Where snapshots are kept; `None`: none are made.
    pub disk: Option<Arc<dyn Disk>>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), uptime: Arc::new(SystemUptime::start()), disk: None }
    }
}

/// Wraps a store that cannot answer without waiting.
pub struct Store {
    shared: Arc<Shared>,
    /// The event reader.
    tail: JoinHandle<()>,
}

struct Shared {
    inner: Arc<dyn crate::Store>,
    options: Options,
    clock: Arc<dyn Clock>,
    disk: Option<Arc<dyn Disk>>,
    rows: Rows,
    gate: Gate,
    position: Mutex<Position>,
    /// One snapshot is written at a time.
    saving: parking_lot::Mutex<()>,
    /// Wakes the event reader.
    wanted: Notify,
    misses: Misses,
    /// The runtime on which rows are read.
    runtime: Handle,
    measures: Arc<Measures>,
}

impl Store {
    /// Needs a runtime, on which the event reader runs until the layer is dropped.
    pub async fn open(inner: Arc<dyn crate::Store>, options: Options, surroundings: Surroundings) -> Self {
        let Surroundings { clock, uptime, disk } = surroundings;
        let measures = Arc::new(Measures::default());
        let shared = Arc::new(Shared {
            inner,
            options,
            clock,
            disk,
            rows: Rows::new(&options, Arc::clone(&measures)),
            gate: Gate::new(uptime, options.lag_max, options.max_stale),
            position: Mutex::default(),
            saving: parking_lot::Mutex::default(),
            wanted: Notify::new(),
            misses: Misses::default(),
            runtime: Handle::current(),
            measures,
        });
        let cold = shared.load_snapshot().await;
        match shared.pass().await {
            Ok(()) if cold.is_empty() => {}
            Ok(()) => drop(tokio::spawn(Arc::clone(&shared).refill(cold))),
            Err(error) => tracing::warn!(%error, "the cache begins without news of the store"),
        }
        let tail = tokio::spawn(Arc::clone(&shared).follow_events());
        Self { shared, tail }
    }

    /// Polls the events at once instead of at the next interval.
    pub async fn catch_up(&self) -> Result<()> {
        self.shared.pass().await
    }

    pub fn figures(&self) -> Figures {
        self.shared.measures.figures(&self.shared.rows)
    }
}

impl Shared {
    /// Over several logs the layer holds nothing, and every read asks the store: it follows one.
    fn has_one_log(&self) -> bool {
        self.inner.guarantees().partitions == 1
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.tail.abort();
    }
}

#[async_trait]
impl Snapshots for Store {
    async fn save_snapshot(&self) -> Result<u64> {
        self.shared.save_snapshot().await
    }
}

#[inline]
fn answer(look: Look) -> Answer {
    match look {
        Look::Active => Answer::Yes,
        Look::Waiting | Look::Absent => Answer::No,
        Look::Missing | Look::TooLarge => Answer::Unknown,
    }
}

#[async_trait]
impl crate::Store for Store {
    fn guarantees(&self) -> Guarantees {
        Guarantees { peeks: false, ..self.shared.inner.guarantees() }
    }

    fn identity(&self) -> &Identity {
        self.shared.inner.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let outcomes = self.shared.inner.commit_all(writes).await;
        outcomes.iter().flatten().for_each(|outcome| self.shared.committed(outcome));
        outcomes
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.shared.inner.replay_all(keys).await
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        let Shared { rows, gate, measures, .. } = &*self.shared;
        let now = gate.now();
        if !gate.is_open(now) {
            answers.fill(Answer::Unknown);
        } else {
            for (slot, &(follower, target)) in answers.iter_mut().zip(pairs) {
                *slot = answer(rows.look_between_users(kind, follower, target, now));
            }
        }
        let misses = answers.iter().filter(|answer| **answer == Answer::Unknown).count() as u64;
        if let Some((first, _)) = pairs.first() {
            measures.checked(*first, pairs.len() as u64 - misses, misses);
        }
    }

    /// Rows do not say which follows are quiet.
    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_all(Kind::Follow, pairs, answers);
        for answer in answers.iter_mut().filter(|answer| **answer == Answer::Yes) {
            *answer = Answer::Unknown;
        }
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        let Shared { inner, rows, gate, .. } = &*self.shared;
        (gate.is_open(gate.now()) && rows.ids.has(key, id)) || inner.peek_id(key, id)
    }

    fn is_away(&self) -> bool {
        self.shared.inner.is_away()
    }

    fn peek_away(&self, kind: Kind, pairs: &[(Named<'_>, Named<'_>)], answers: &mut [Answer]) -> Option<Duration> {
        self.shared.peek_away(kind, pairs, answers)
    }

    /// Missing rows are filled for the next caller.
    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        let Shared { rows, gate, .. } = &*self.shared;
        let now = gate.now();
        if !gate.is_open(now) {
            return false;
        }
        let knows = rows.common(one, other, limit, now, found);
        if !knows {
            for user in [one, other] {
                self.shared.begin(RowKey::follows_of(user));
            }
        }
        knows
    }

    /// Only existing edges ask the store, for their values; most do not exist, and memory knows that.
    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let shared = &self.shared;
        if !shared.gate.is_open(shared.gate.now()) {
            return shared.inner.get_edges(kind, pairs).await;
        }
        let look = |&(follower, target): &(Key, Key)| shared.look(kind, follower, target);
        let mut looks: Vec<Look> = pairs.iter().map(look).collect();
        let is_missing = |(_, look): &(&(Key, Key), &Look)| **look == Look::Missing;
        let missing: Vec<(Key, Key)> = pairs.iter().zip(&looks).filter(is_missing).map(|(pair, _)| *pair).collect();
        if !missing.is_empty() {
            shared.bring_in(kind, &missing).await;
            looks = pairs.iter().map(look).collect();
        }
        let asked: Vec<(Key, Key)> =
            pairs.iter().zip(&looks).filter(|(_, look)| **look != Look::Absent).map(|(pair, _)| *pair).collect();
        let found = if asked.is_empty() { Vec::new() } else { shared.inner.get_edges(kind, &asked).await? };
        let mut found = found.into_iter();
        let answer = |look: &Look| if *look == Look::Absent { None } else { found.next().flatten() };
        Ok(looks.iter().map(answer).collect())
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let ids = &self.shared.rows.ids;
        let since = ids.begin();
        let users = self.shared.inner.get_users(keys).await?;
        ids.learn(since, &users);
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.shared.inner.get_all_counts(users).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.shared.inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.shared.inner.scan_up(list, after, limit).await
    }

    async fn newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
        found: &mut NewestFollows,
    ) -> Result<()> {
        self.shared.inner.newest_follows(users, limit, without, found).await
    }

    async fn get_rows(&self, kind: Kind, side: Side, users: &[Key], limit: usize) -> Result<Vec<Option<EdgeRow>>> {
        self.shared.inner.get_rows(kind, side, users, limit).await
    }

    fn keys_of(&self, found: &NewestFollows, numbers: &[u32]) -> Vec<Key> {
        self.shared.inner.keys_of(found, numbers)
    }

    async fn public_followers(&self, found: &NewestFollows, numbers: &[u32]) -> Result<Vec<u64>> {
        self.shared.inner.public_followers(found, numbers).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        self.shared.inner.sweep(range, after, limit).await
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.shared.inner.count_each(space, owners).await
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        self.shared.inner.get_records(space, ids).await
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        self.shared.inner.scan_each(space, owners, after, limit).await
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.shared.inner.scan_history(follower, before, limit).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.shared.inner.get_quotas(actors).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.shared.inner.events(after, limit).await
    }

    fn lineage(&self) -> Lineage {
        self.shared.inner.lineage()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        self.shared.inner.last_event(partition).await
    }

    /// The layer looks all the time: others need not.
    fn heard_end(&self, partition: u16) -> Option<HeardEnd> {
        let Shared { inner, gate, .. } = &*self.shared;
        // The age first: what is read afterwards is as of then, or later.
        let age = gate.quiet_for().filter(|_| self.shared.has_one_log())?;
        let (offset, lineage) = (gate.listed(), gate.lineage());
        (lineage == inner.lineage()).then_some(HeardEnd { at: EventPosition { lineage, partition, offset }, age })
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        self.shared.inner.progress(partition).await
    }

    /// Memory has it, or is not used before it has.
    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        let Shared { inner, gate, options, wanted, .. } = &*self.shared;
        if !self.shared.has_one_log() {
            return inner.covers(watermark, whose).await;
        }
        let sequence = watermark.sequence();
        // Once the store has met another lineage, what is in memory may be of events that were lost.
        let is_current = gate.lineage() == inner.lineage();
        if is_current && watermark.lineage() == gate.lineage() && sequence <= gate.covered() {
            return Ok(Covered::Yes);
        }
        let covered = match inner.covers(watermark, whose).await {
            // Nobody can tell whether it is there; that it is not in memory is certain.
            Err(error) if error.code() == Code::Unavailable && inner.is_away() => return Ok(Covered::NotYet),
            covered => covered?,
        };
        if covered == Covered::Yes && gate.lineage() != inner.lineage() {
            self.shared.pass().await?;
        }
        // In another lineage the number says nothing; whatever it stood for is below the end of the log.
        let sequence = match watermark.lineage() == gate.lineage() {
            true => sequence,
            false if covered == Covered::Yes => inner.progress(0).await?.covered,
            false => return Ok(covered),
        };
        if covered == Covered::Yes && !gate.is_required(sequence) {
            wanted.notify_one();
            if !gate.wait(sequence, options.patience).await {
                gate.require(sequence);
            }
        }
        Ok(covered)
    }

    async fn verify(&self) -> Result<Report> {
        self.shared.inner.verify().await
    }

    async fn health(&self) -> Health {
        // It does not end by itself. Without it rows would be read from the store for good.
        if self.tail.is_finished() && !self.shared.gate.is_closed() {
            return Health::Degraded(Unhealthy::Poisoned("the cache's event reader ended".to_owned()));
        }
        self.shared.inner.health().await
    }

    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<Server>> {
        self.shared.inner.heartbeat(id, about).await
    }

    async fn disconnect(&self, id: u64) -> Result<()> {
        self.shared.inner.disconnect(id).await
    }

    async fn close(&self) -> Result<()> {
        self.shared.gate.close();
        self.tail.abort();
        // A failure costs only time at the next start.
        if let Err(error) = self.shared.save_snapshot().await {
            tracing::warn!(%error, "the cache will begin with less");
        }
        self.shared.inner.close().await
    }
}
