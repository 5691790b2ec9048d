//! Caches with typical bugs, each in front of a correct store.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use async_trait::async_trait;
use entourage_model::{EdgeValue, Key, Kind, List, Outcome, Result, Secret, State, User, UserId, Write};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use super::passes;
use crate::conformance::{
    block_on,
    hooked::{Hooked, Hooks},
    random,
};
use entourage_memory as memory;
use entourage_store::{Answer, Identity, Store, StoreExt as _, SystemClock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A miss is a "no".
    MissingIsNo,
    /// What was read is cached, whatever was written meanwhile.
    UnversionedFill,
    /// Rows follow the request, not the outcome.
    ChangesWhatWasAsked,
    /// Rows change after the write is acked: at the next one.
    ChangesLate,
    /// A miss in an intersection is an empty one.
    MissingHasNobodyInCommon,
    /// Erased users are still in common.
    ErasedInCommon,
    /// The two rows are read at different moments.
    CommonAtTwoMoments,
    /// Ids stay when their users go.
    RemembersTheErased,
}

/// Rows of follows in a map, without a bound.
struct Cache {
    mistake: Mistake,
    rows: Mutex<HashMap<Key, HashSet<Key>>>,
    /// Of users as they were read.
    ids: Mutex<HashMap<Key, UserId>>,
    changes: Mutex<Changes>,
}

#[derive(Default)]
struct Changes {
    /// A fill that began before the last one is stale.
    made: u64,
    late: Vec<(Key, Key, bool)>,
    erased: HashSet<Key>,
}

fn cached(mistake: Mistake) -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([5; 32]) };
    let store = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    Arc::new(Hooked::new(
        store,
        Cache { mistake, rows: Mutex::default(), ids: Mutex::default(), changes: Mutex::default() },
    ))
}

impl Cache {
    fn set(&self, follower: Key, target: Key, active: bool) {
        if let Some(row) = self.rows.lock().get_mut(&follower) {
            if active {
                row.insert(target);
            } else {
                row.remove(&target);
            }
        }
    }

    async fn fill(&self, inner: &dyn Store, follower: Key) -> Result<()> {
        let began = self.changes.lock().made;
        let page = inner.scan(List::following(follower), None, usize::MAX - 1).await?;
        // Lets others intervene.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        let changes = self.changes.lock();
        if changes.made == began || self.mistake == Mistake::UnversionedFill {
            let row = page.edges.iter().map(|edge| edge.target).collect();
            self.rows.lock().insert(follower, row);
        }
        Ok(())
    }
}

#[async_trait]
impl Hooks for Cache {
    fn peek_all(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        if kind != Kind::Follow {
            return inner.peek_all(kind, pairs, answers);
        }
        for (slot, &(follower, target)) in answers.iter_mut().zip(pairs) {
            *slot = match self.rows.lock().get(&follower) {
                // A row does not tell who is erased.
                Some(row) if row.contains(&target) && inner.peek(kind, follower, target) == Answer::Unknown => {
                    Answer::Unknown
                }
                Some(row) if row.contains(&target) => Answer::Yes,
                Some(_) => Answer::No,
                None if self.mistake == Mistake::MissingIsNo => Answer::No,
                None => Answer::Unknown,
            };
        }
    }

    fn peek_common(&self, _: &dyn Store, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        let changes = (self.mistake != Mistake::CommonAtTwoMoments).then(|| self.changes.lock());
        let row = |user| self.rows.lock().get(&user).cloned();
        let first = row(one);
        if changes.is_none() {
            // Lets others intervene.
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
        let (Some(first), Some(second)) = (first, row(other)) else {
            return self.mistake == Mistake::MissingHasNobodyInCommon;
        };
        let changes = changes.unwrap_or_else(|| self.changes.lock());
        let is_there = |key: &Key| self.mistake == Mistake::ErasedInCommon || !changes.erased.contains(key);
        if is_there(&one) && is_there(&other) {
            found.extend(first.intersection(&second).copied().filter(is_there).take(limit));
        }
        true
    }

    fn peek_id(&self, _: &dyn Store, key: Key, id: &[u8]) -> bool {
        self.ids.lock().get(&key).is_some_and(|held| held.as_str().as_bytes() == id)
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let began = self.changes.lock().made;
        let users = inner.get_users(keys).await?;
        if self.changes.lock().made == began {
            self.ids.lock().extend(users.iter().flatten().map(|user| (user.key, user.id.clone())));
        }
        Ok(users)
    }

    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        let outcome = inner.commit(write.clone()).await?;
        let mut changes = self.changes.lock();
        changes.made += 1;
        if self.mistake == Mistake::ChangesWhatWasAsked {
            use entourage_model::Operation::{Follow, Unfollow};
            match write.operation {
                Follow { follower, target, .. } => self.set(follower, target, true),
                Unfollow { follower, target } => self.set(follower, target, false),
                _ => {}
            }
            return Ok(outcome);
        }
        let mut news = Vec::new();
        for change in &outcome.changes {
            match change {
                entourage_model::Change::Edge(edge) if edge.kind == Kind::Follow => {
                    news.push((edge.follower, edge.target, edge.after.state == State::Active));
                }
                entourage_model::Change::User(user) if user.after.is_none() => {
                    changes.erased.insert(user.key);
                    if self.mistake != Mistake::RemembersTheErased {
                        self.ids.lock().remove(&user.key);
                    }
                }
                entourage_model::Change::User(user) => {
                    changes.erased.remove(&user.key);
                }
                _ => {}
            }
        }
        if self.mistake == Mistake::ChangesLate {
            std::mem::swap(&mut news, &mut changes.late);
        }
        news.into_iter().for_each(|(follower, target, active)| self.set(follower, target, active));
        Ok(outcome)
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        if kind == Kind::Follow {
            for (follower, _) in pairs {
                if !self.rows.lock().contains_key(follower) {
                    self.fill(inner, *follower).await?;
                }
            }
        }
        inner.get_edges(kind, pairs).await
    }
}

const CAUGHT_BY_CASES: &[(Mistake, &str)] = &[
    (Mistake::MissingIsNo, "checks::peek_agrees_while_others_write"),
    (Mistake::ChangesWhatWasAsked, "checks::peek_agrees_with_the_exact_read"),
    (Mistake::ChangesLate, "checks::peek_agrees_with_the_exact_read"),
    (Mistake::ChangesLate, "checks::common_follows_are_in_both_lists"),
    (Mistake::MissingHasNobodyInCommon, "checks::common_follows_are_in_both_lists"),
    (Mistake::ErasedInCommon, "checks::common_follows_are_in_both_lists"),
    (Mistake::CommonAtTwoMoments, "checks::common_follows_are_those_of_one_moment"),
    (Mistake::RemembersTheErased, "checks::peeks_at_ids_know_the_very_id"),
    (Mistake::UnversionedFill, "checks::a_row_that_is_read_while_it_changes_is_not_believed"),
];

#[test]
fn each_mistake_fails_its_case_and_only_the_mistake_does() {
    for &(mistake, case) in CAUGHT_BY_CASES {
        assert!(passes(case, cached(Mistake::None)), "{case} fails without a mistake");
        let noticed = (0..super::TRIES).any(|_| !passes(case, cached(mistake)));
        assert!(noticed, "{case} does not notice {mistake:?}");
    }
}

#[test]
fn random_runs_notice_rows_that_do_not_change_as_the_store_does() {
    let passes = |mistake| {
        let run = || block_on(random::run(cached(mistake), random::Plan::new(3, 1_500), random::straight_on));
        catch_unwind(AssertUnwindSafe(run)).is_ok_and(|run| run.is_ok())
    };
    assert!(passes(Mistake::None));
    let [asked, late] = [Mistake::ChangesWhatWasAsked, Mistake::ChangesLate];
    for mistake in [asked, late, Mistake::ErasedInCommon, Mistake::RemembersTheErased] {
        assert!(!passes(mistake), "{mistake:?}");
    }
}
