//! A wrapper of a store that a test can intercept: to pause, to count, to lie.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome, Page, Place,
    Quota, Record, RecordId, Result, Sequence, Space, User, Version, Watermark, Write,
};

use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Named, Progress, Report, Server, Store, StoreExt as _, SweepCursor,
    Swept, Whose,
};

/// Interception points; methods left out are passed through.
#[async_trait]
pub trait Hooks: Send + Sync + 'static {
    /// What is intercepted need not be in memory.
    fn guarantees(&self, inner: &dyn Store) -> Guarantees {
        Guarantees { peeks: false, ..inner.guarantees() }
    }

    fn peek_all(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        inner.peek_all(kind, pairs, answers);
    }

    fn peek_common(&self, inner: &dyn Store, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        inner.peek_common(one, other, limit, found)
    }

    fn peek_open(&self, inner: &dyn Store, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        inner.peek_open(pairs, answers);
    }

    fn peek_id(&self, inner: &dyn Store, key: Key, id: &[u8]) -> bool {
        inner.peek_id(key, id)
    }

    /// One after the other, each through [`Self::commit`].
    async fn commit_all(&self, inner: &dyn Store, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            outcomes.push(self.commit(inner, write).await);
        }
        outcomes
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        inner.commit(write).await
    }

    fn is_away(&self, inner: &dyn Store) -> bool {
        inner.is_away()
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        inner.get_edges(kind, pairs).await
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        inner.get_users(keys).await
    }

    async fn get_all_counts(&self, inner: &dyn Store, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        inner.get_all_counts(users).await
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        inner.scan(list, after, limit).await
    }

    async fn scan_up(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        inner.scan_up(list, after, limit).await
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        inner.events(after, limit).await
    }

    fn lineage(&self, inner: &dyn Store) -> Lineage {
        inner.lineage()
    }

    async fn last_event(&self, inner: &dyn Store, partition: u16) -> Result<Sequence> {
        inner.last_event(partition).await
    }

    async fn progress(&self, inner: &dyn Store, partition: u16) -> Result<Progress> {
        inner.progress(partition).await
    }

    async fn covers(&self, inner: &dyn Store, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        inner.covers(watermark, whose).await
    }

    async fn health(&self, inner: &dyn Store) -> Health {
        inner.health().await
    }

    async fn heartbeat(&self, inner: &dyn Store, id: u64, about: &str) -> Result<Vec<Server>> {
        inner.heartbeat(id, about).await
    }

    async fn disconnect(&self, inner: &dyn Store, id: u64) -> Result<()> {
        inner.disconnect(id).await
    }

    async fn close(&self, inner: &dyn Store) -> Result<()> {
        inner.close().await
    }
}

pub struct Hooked<H> {
    inner: Arc<dyn Store>,
    pub hooks: H,
}

impl<H> Hooked<H> {
    pub const fn new(inner: Arc<dyn Store>, hooks: H) -> Self {
        Self { inner, hooks }
    }
}

#[async_trait]
impl<H: Hooks> Store for Hooked<H> {
    fn guarantees(&self) -> Guarantees {
        self.hooks.guarantees(&*self.inner)
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        self.hooks.commit_all(&*self.inner, writes).await
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.inner.replay_all(keys).await
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.hooks.peek_all(&*self.inner, kind, pairs, answers);
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        self.hooks.peek_common(&*self.inner, one, other, limit, found)
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.hooks.peek_open(&*self.inner, pairs, answers);
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.hooks.peek_id(&*self.inner, key, id)
    }

    fn is_away(&self) -> bool {
        self.hooks.is_away(&*self.inner)
    }

    fn peek_away(&self, kind: Kind, pairs: &[(Named<'_>, Named<'_>)], answers: &mut [Answer]) -> Option<Duration> {
        self.inner.peek_away(kind, pairs, answers)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.hooks.get_edges(&*self.inner, kind, pairs).await
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.hooks.get_users(&*self.inner, keys).await
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.hooks.get_all_counts(&*self.inner, users).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.hooks.scan(&*self.inner, list, after, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.hooks.scan_up(&*self.inner, list, after, limit).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        self.inner.sweep(range, after, limit).await
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.inner.count_each(space, owners).await
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

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.inner.scan_history(follower, before, limit).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.inner.get_quotas(actors).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.hooks.events(&*self.inner, after, limit).await
    }

    fn lineage(&self) -> Lineage {
        self.hooks.lineage(&*self.inner)
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        self.hooks.last_event(&*self.inner, partition).await
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        self.hooks.progress(&*self.inner, partition).await
    }

    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        self.hooks.covers(&*self.inner, watermark, whose).await
    }

    async fn verify(&self) -> Result<Report> {
        self.inner.verify().await
    }

    async fn health(&self) -> Health {
        self.hooks.health(&*self.inner).await
    }

    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<Server>> {
        self.hooks.heartbeat(&*self.inner, id, about).await
    }

    async fn disconnect(&self, id: u64) -> Result<()> {
        self.hooks.disconnect(&*self.inner, id).await
    }

    async fn close(&self) -> Result<()> {
        self.hooks.close(&*self.inner).await
    }
}

/// Answers a commit with its second poll at the earliest, so that a caller can go away in between.
pub struct Unhurried;

#[async_trait]
impl Hooks for Unhurried {
    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        let outcome = inner.commit(write).await;
        tokio::task::yield_now().await;
        outcome
    }
}
