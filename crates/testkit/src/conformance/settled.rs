//! A settling store, as seen by a client that carries a token: each write is greater than those answered before, and a
//! derived list is read once everything answered is covered. Its partitions are read as one log, each event in the
//! order of its partition.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Change, Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome, Page,
    Place, Quota, Record, RecordId, Result, Sequence, Side, Space, User, Version, Watermark, Write,
};
use parking_lot::Mutex;

use entourage_store::{
    Answer, Covered, Derived, Guarantees, Health, Identity, Progress, Report, Store, StoreExt as _, SweepCursor, Swept,
    Whose,
};

/// How often a store is polled until it has settled: some seconds.
const TRIES: usize = 5_000;

/// The store itself, if it has nothing to settle.
pub(super) fn settled(store: Arc<dyn Store>) -> Arc<dyn Store> {
    match store.guarantees().derived {
        Derived::InCommit => store,
        Derived::Settling => Arc::new(Settled { inner: store, seen: Mutex::default(), log: Mutex::default() }),
    }
}

struct Settled {
    inner: Arc<dyn Store>,
    seen: Mutex<Seen>,
    log: Mutex<Vec<Event>>,
}

/// What a token holds.
#[derive(Default)]
struct Seen {
    watermark: Option<Watermark>,
    newest: Version,
}

impl Settled {
    async fn wait(&self, whose: Whose<'_>) -> Result<()> {
        let Some(watermark) = self.seen.lock().watermark.clone() else { return Ok(()) };
        for _ in 0..TRIES {
            match self.inner.covers(&watermark, whose).await? {
                Covered::Yes => return Ok(()),
                Covered::NotYet => tokio::time::sleep(Duration::from_micros(100)).await,
                Covered::OtherLineage => panic!("{watermark:?} was of this store"),
            }
        }
        panic!("{watermark:?} is never covered");
    }

    fn saw(&self, outcome: &Outcome) {
        let mut seen = self.seen.lock();
        seen.newest = versions(outcome, Derived::Settling).fold(seen.newest.max(outcome.version), Version::max);
        let known = seen.watermark.get_or_insert_with(|| outcome.watermark.clone());
        assert!(known.merge(&outcome.watermark), "one store, one history, one size");
    }

    /// Adds what is new in each partition, ordered by version.
    async fn pull(&self) -> Result<()> {
        let partitions = self.inner.guarantees().partitions;
        let mut read = vec![Sequence::ZERO; usize::from(partitions)];
        let mut new = Vec::new();
        let begun = self.log.lock().len();
        for partition in 0..partitions {
            let from = EventPosition { lineage: Lineage::default(), partition, offset: Sequence::ZERO };
            let events = self.inner.events(from, usize::MAX).await?;
            for event in events {
                let last = &mut read[usize::from(partition)];
                assert_eq!(event.sequence, last.next(), "C12: partition {partition} has a gap");
                *last = event.sequence;
                new.push((event.version, partition, event));
            }
        }
        let mut log = self.log.lock();
        if log.len() > begun {
            return Ok(());
        }
        // What was listed keeps its place.
        let mut left = log.clone();
        let is_listed = |event: &Event, left: &mut Vec<Event>| {
            let same = |known: &Event| known.version == event.version && known.body == event.body;
            left.iter().position(same).map(|at| left.swap_remove(at)).is_some()
        };
        new.retain(|(_, _, event)| !is_listed(event, &mut left));
        new.sort_by_key(|(version, partition, event)| (*version, *partition, event.sequence));
        for (_, _, event) in new {
            let sequence = Sequence(log.len() as u64 + 1);
            log.push(Event { sequence, ..event });
        }
        Ok(())
    }
}

/// The version of each change. It is that of the commit; only where the derived side settles a change in another home
/// has a version of that home.
pub(crate) fn versions(outcome: &Outcome, derived: Derived) -> impl Iterator<Item = Version> + '_ {
    outcome.changes.iter().map(move |change| match (derived, change) {
        (Derived::Settling, Change::Edge(edge)) => edge.after.version,
        _ => outcome.version,
    })
}

#[async_trait]
impl Store for Settled {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            let floor = write.floor.max(self.seen.lock().newest);
            let outcome = self.inner.commit(Write { floor, ..write }).await;
            if let Ok(outcome) = &outcome {
                self.saw(outcome);
            }
            outcomes.push(match self.wait(Whose::Everybody).await {
                Ok(()) => outcome,
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.inner.replay_all(keys).await
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.inner.peek_all(kind, pairs, answers);
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.inner.peek_open(pairs, answers);
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        self.inner.peek_common(one, other, limit, found)
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.inner.peek_id(key, id)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.inner.get_edges(kind, pairs).await
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.inner.get_users(keys).await
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.wait(Whose::Of(users)).await?;
        self.inner.get_all_counts(users).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        if list.side == Side::Followers {
            self.wait(Whose::Of(&[list.user])).await?;
        }
        self.inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        if list.side == Side::Followers {
            self.wait(Whose::Of(&[list.user])).await?;
        }
        self.inner.scan_up(list, after, limit).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        self.inner.sweep(range, after, limit).await
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        self.inner.get_records(space, ids).await
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        self.inner.scan_each(space, owners, after, limit).await
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.inner.count_each(space, owners).await
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.inner.scan_history(follower, before, limit).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.inner.get_quotas(actors).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.pull().await?;
        let from = usize::try_from(after.offset.0).unwrap_or(usize::MAX);
        Ok(self.log.lock().iter().skip(from).take(limit).cloned().collect())
    }

    fn lineage(&self) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        Ok(self.progress(partition).await?.listed)
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        self.pull().await?;
        let last = Sequence(self.log.lock().len() as u64);
        Ok(Progress { listed: last, covered: last, newest: last })
    }

    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        self.inner.covers(watermark, whose).await
    }

    async fn verify(&self) -> Result<Report> {
        self.inner.verify().await
    }

    async fn health(&self) -> Health {
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
