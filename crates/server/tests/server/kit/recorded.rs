//! A store that remembers its last commit: what a front asked for, and what came of it. It can be told to lie, to
//! prove that whoever compares it with the truth would notice.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use entourage_model::{
    Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome, Page, Place,
    Quota, Record, RecordId, Result, Sequence, Space, User, Version, Watermark, Write,
};
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Progress, Report, Store, SweepCursor, Swept, Whose,
};

type Commit = (Write, Result<Outcome>);

pub(crate) struct Recorded {
    inner: Arc<dyn Store>,
    last: Mutex<Option<Commit>>,
    lie: Option<Lie>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lie {
    /// Lists leave their last edge out.
    ShortLists,
    /// Counts are one too high.
    Counts,
    /// Edges have the other flag.
    Quiet,
    /// This user is gone while their edges are still there.
    Erased(Key),
}

impl Recorded {
    pub(crate) fn new(inner: Arc<dyn Store>, lie: Option<Lie>) -> Arc<Self> {
        Arc::new(Self { inner, last: Mutex::default(), lie })
    }

    /// The last commit, once.
    pub(crate) fn take(&self) -> Option<Commit> {
        self.last.lock().unwrap().take()
    }
}

#[async_trait]
impl Store for Recorded {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let last = writes.last().cloned();
        let results = self.inner.commit_all(writes).await;
        *self.last.lock().unwrap() = last.zip(results.last().cloned());
        results
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.inner.replay_all(keys).await
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.inner.peek_all(kind, pairs, answers);
        for (answer, (follower, target)) in answers.iter_mut().zip(pairs) {
            let is_gone = |key: &Key| matches!(self.lie, Some(Lie::Erased(gone)) if gone == *key);
            if *answer == Answer::Yes && (is_gone(follower) || is_gone(target)) {
                *answer = Answer::Unknown;
            }
        }
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_all(Kind::Follow, pairs, answers);
        for answer in answers.iter_mut().filter(|answer| **answer == Answer::Yes) {
            *answer = Answer::Unknown;
        }
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        !matches!(self.lie, Some(Lie::Erased(_))) && self.inner.peek_id(key, id)
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        !matches!(self.lie, Some(Lie::Erased(_))) && self.inner.peek_common(one, other, limit, found)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let mut edges = self.inner.get_edges(kind, pairs).await?;
        for edge in edges.iter_mut().flatten() {
            edge.quiet ^= self.lie == Some(Lie::Quiet);
        }
        Ok(edges)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let mut users = self.inner.get_users(keys).await?;
        for user in &mut users {
            *user = user.take().filter(|user| self.lie != Some(Lie::Erased(user.key)));
        }
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let mut all = self.inner.get_all_counts(users).await?;
        for counts in all.iter_mut().flatten() {
            counts.following += u64::from(self.lie == Some(Lie::Counts));
        }
        Ok(all)
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let mut page = self.inner.scan(list, after, limit).await?;
        if self.lie == Some(Lie::ShortLists) {
            page.edges.pop();
        }
        Ok(page)
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.inner.scan_up(list, after, limit).await
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
        self.inner.events(after, limit).await
    }

    fn lineage(&self) -> Lineage {
        self.inner.lineage()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        self.inner.last_event(partition).await
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        self.inner.progress(partition).await
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
