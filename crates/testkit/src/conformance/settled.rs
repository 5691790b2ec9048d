//! A settling store, as seen by a client that carries a token: each write is greater than those answered before, and a
//! derived list is read once everything answered is covered. Its partitions are read as one log, each event in the
//! order of its partition.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Change, Counts, Event, EventPosition, Key, Lineage, List, Outcome, Page, Place, Result, Sequence, Side, Version,
    Watermark, Write,
};
use entourage_store::{Covered, Derived, Guarantees, Progress, Store, StoreExt as _, Whose};
use parking_lot::Mutex;

use super::hooked::{Hooked, Hooks};

/// How often a store is polled until it has settled: some seconds.
const TRIES: usize = 5_000;

/// The store itself, if it has nothing to settle.
pub(super) fn settled(store: Arc<dyn Store>) -> Arc<dyn Store> {
    match store.guarantees().derived {
        Derived::InCommit => store,
        Derived::Settling => Arc::new(Hooked::new(store, Settled::default())),
    }
}

#[derive(Default)]
struct Settled {
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
    async fn wait(&self, inner: &dyn Store, whose: Whose<'_>) -> Result<()> {
        let Some(watermark) = self.seen.lock().watermark.clone() else { return Ok(()) };
        for _ in 0..TRIES {
            match inner.covers(&watermark, whose).await? {
                Covered::Yes => return Ok(()),
                Covered::NotYet => tokio::time::sleep(Duration::from_micros(100)).await,
                Covered::OtherLineage => panic!("{watermark:?} was of this store"),
            }
        }
        panic!("{watermark:?} is never covered");
    }

    /// Who follows somebody settles later; whom somebody follows is the truth.
    async fn wait_for(&self, inner: &dyn Store, list: List) -> Result<()> {
        match list.side {
            Side::Followers => self.wait(inner, Whose::Of(&[list.user])).await,
            Side::Following => Ok(()),
        }
    }

    fn saw(&self, outcome: &Outcome) {
        let mut seen = self.seen.lock();
        seen.newest = versions(outcome, Derived::Settling).fold(seen.newest.max(outcome.version), Version::max);
        let known = seen.watermark.get_or_insert_with(|| outcome.watermark.clone());
        assert!(known.merge(&outcome.watermark), "one store, one history, one size");
    }

    /// Adds what is new in each partition, ordered by version.
    async fn pull(&self, inner: &dyn Store) -> Result<()> {
        let partitions = inner.guarantees().partitions;
        let mut read = vec![Sequence::ZERO; usize::from(partitions)];
        let mut new = Vec::new();
        let begun = self.log.lock().len();
        for partition in 0..partitions {
            let from = EventPosition { lineage: Lineage::default(), partition, offset: Sequence::ZERO };
            let events = inner.events(from, usize::MAX).await?;
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
impl Hooks for Settled {
    fn guarantees(&self, inner: &dyn Store) -> Guarantees {
        inner.guarantees()
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        let floor = write.floor.max(self.seen.lock().newest);
        let outcome = inner.commit(Write { floor, ..write }).await;
        if let Ok(outcome) = &outcome {
            self.saw(outcome);
        }
        self.wait(inner, Whose::Everybody).await?;
        outcome
    }

    async fn get_all_counts(&self, inner: &dyn Store, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.wait(inner, Whose::Of(users)).await?;
        inner.get_all_counts(users).await
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.wait_for(inner, list).await?;
        inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.wait_for(inner, list).await?;
        inner.scan_up(list, after, limit).await
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.pull(inner).await?;
        let from = usize::try_from(after.offset.0).unwrap_or(usize::MAX);
        Ok(self.log.lock().iter().skip(from).take(limit).cloned().collect())
    }

    fn lineage(&self, _: &dyn Store) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, inner: &dyn Store, partition: u16) -> Result<Sequence> {
        Ok(self.progress(inner, partition).await?.listed)
    }

    async fn progress(&self, inner: &dyn Store, _: u16) -> Result<Progress> {
        self.pull(inner).await?;
        let last = Sequence(self.log.lock().len() as u64);
        Ok(Progress { listed: last, covered: last, newest: last })
    }
}
