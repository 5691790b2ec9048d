//! A store that remembers its last commit: what a front asked for, and what came of it. It can be told to lie, to
//! prove that whoever compares it with the truth would notice.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use entourage_model::{
    Counts, EdgeValue, Key, Kind, List, Operation, Outcome, Page, Place, Result, Space, User, Write,
};
use entourage_store::{Answer, Guarantees, Store};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

type Commit = (Write, Result<Outcome>);

pub(crate) struct Recorded {
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
    pub(crate) fn over(inner: Arc<dyn Store>, lie: Option<Lie>) -> Arc<Hooked<Self>> {
        Arc::new(Hooked::new(inner, Self { last: Mutex::default(), lie }))
    }

    /// The last commit, once.
    pub(crate) fn take(&self) -> Option<Commit> {
        self.last.lock().unwrap().take()
    }
}

/// Leases and scheduled tasks, which no front asks for.
const fn is_of_the_server(write: &Write) -> bool {
    write.fence.is_some() || matches!(write.operation, Operation::PutRecord { space: Space::Schedule, .. })
}

#[async_trait]
impl Hooks for Recorded {
    fn guarantees(&self, inner: &dyn Store) -> Guarantees {
        inner.guarantees()
    }

    async fn commit_all(&self, inner: &dyn Store, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let last = writes.last().filter(|write| !is_of_the_server(write)).cloned();
        let results = inner.commit_all(writes).await;
        if let Some(commit) = last.zip(results.last().cloned()) {
            *self.last.lock().unwrap() = Some(commit);
        }
        results
    }

    fn peek_all(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        inner.peek_all(kind, pairs, answers);
        for (answer, (follower, target)) in answers.iter_mut().zip(pairs) {
            let is_gone = |key: &Key| matches!(self.lie, Some(Lie::Erased(gone)) if gone == *key);
            if *answer == Answer::Yes && (is_gone(follower) || is_gone(target)) {
                *answer = Answer::Unknown;
            }
        }
    }

    fn peek_open(&self, inner: &dyn Store, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_all(inner, Kind::Follow, pairs, answers);
        for answer in answers.iter_mut().filter(|answer| **answer == Answer::Yes) {
            *answer = Answer::Unknown;
        }
    }

    fn peek_id(&self, inner: &dyn Store, key: Key, id: &[u8]) -> bool {
        !matches!(self.lie, Some(Lie::Erased(_))) && inner.peek_id(key, id)
    }

    fn peek_common(&self, inner: &dyn Store, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        !matches!(self.lie, Some(Lie::Erased(_))) && inner.peek_common(one, other, limit, found)
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let mut edges = inner.get_edges(kind, pairs).await?;
        for edge in edges.iter_mut().flatten() {
            edge.quiet ^= self.lie == Some(Lie::Quiet);
        }
        Ok(edges)
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let mut users = inner.get_users(keys).await?;
        for user in &mut users {
            *user = user.take().filter(|user| self.lie != Some(Lie::Erased(user.key)));
        }
        Ok(users)
    }

    async fn get_all_counts(&self, inner: &dyn Store, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let mut all = inner.get_all_counts(users).await?;
        for counts in all.iter_mut().flatten() {
            counts.following += u64::from(self.lie == Some(Lie::Counts));
        }
        Ok(all)
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let mut page = inner.scan(list, after, limit).await?;
        if self.lie == Some(Lie::ShortLists) {
            page.edges.pop();
        }
        Ok(page)
    }
}
