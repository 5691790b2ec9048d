//! Is-following, in three shapes. Most answers are "no", so that path comes first and asks nothing twice.

use std::time::Duration;

use entourage_model::{Code, Edge, EdgeValue, Error, Key, Kind, Millis, Result, State, UserId};
use entourage_store::{Answer, Named, Whose};

use crate::{Actor, Call, Graph, visibility::shows_edge};

/// How many pairs one request may ask for.
pub const CHECKS_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub following: bool,
    /// Not known where there is an age.
    pub since: Option<Millis>,
    pub age: Option<Duration>,
}

/// One answer for each pair, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    pub following: Vec<bool>,
    /// How long ago this was known to be right, if it is from memory because the store is away.
    pub age: Option<Duration>,
}

/// For each pair `Some` when the viewer may know that it follows; the value is there when it was needed.
struct Found {
    edges: Vec<Option<Option<EdgeValue>>>,
    age: Option<Duration>,
}

impl Graph {
    pub async fn is_following(&self, call: &Call, follower: &UserId, target: &UserId) -> Result<Checked> {
        self.context.catch_up(call, Whose::NOBODY).await?;
        let Found { edges, age } = self.check(call, &[(follower, target)], true).await?;
        let edge = edges.into_iter().flatten().next();
        Ok(Checked { following: edge.is_some(), since: edge.flatten().map(|edge| edge.position.millis()), age })
    }

    /// Since when one follows another; `None` if that is not so.
    pub async fn following_since(&self, call: &Call, follower: &UserId, target: &UserId) -> Result<Option<Millis>> {
        let Checked { following, since, .. } = self.is_following(call, follower, target).await?;
        if following && since.is_none() {
            return Err(Error::unavailable("the store is away, and memory does not know since when"));
        }
        Ok(since)
    }

    /// One answer for each target, in their order.
    pub async fn is_following_each(&self, call: &Call, follower: &UserId, targets: &[UserId]) -> Result<Checks> {
        let pairs: Vec<_> = targets.iter().map(|target| (follower, target)).collect();
        self.check_pairs(call, &pairs, "/targets").await
    }

    /// One answer for each pair, in their order.
    pub async fn checks(&self, call: &Call, pairs: &[(&UserId, &UserId)]) -> Result<Checks> {
        self.check_pairs(call, pairs, "/pairs").await
    }

    /// The key of an id as it came in.
    #[inline]
    pub fn key_of(&self, id: &[u8]) -> Result<Key> {
        self.context.keys.key_of(id)
    }

    /// What memory knows at once, as a service sees it: one answer a pair, `Unknown` where
    /// [`Self::is_following`] has to be asked. `ids` are those that the keys are of, in the same order; few are looked at.
    pub fn peek_follows<'a>(
        &self,
        pairs: &[(Key, Key)],
        ids: impl Iterator<Item = impl FnOnce() -> [&'a [u8]; 2]>,
        answers: &mut [Answer],
    ) {
        self.context.store.peek_all(Kind::Follow, pairs, answers);
        // A negative key anywhere leaves the sign in what all of them have together.
        if pairs.iter().fold(0, |all, (follower, target)| all | follower.0 | target.0) >= 0 {
            return;
        }
        for ((answer, pair), ids) in answers.iter_mut().zip(pairs).zip(ids) {
            if *answer == Answer::Yes && !self.are_known(*pair, ids) {
                *answer = Answer::Unknown;
            }
        }
    }

    /// Whether memory knows that keys name the very ids that were asked for: a number is its own key, a hash could be
    /// another id's.
    fn are_known<'a>(&self, (follower, target): (Key, Key), ids: impl FnOnce() -> [&'a [u8]; 2]) -> bool {
        if follower.0 >= 0 && target.0 >= 0 {
            return true;
        }
        let [first, second] = ids();
        let is_known = |key: Key, id| key.0 >= 0 || self.context.store.peek_id(key, id);
        is_known(follower, first) && is_known(target, second)
    }

    async fn check_pairs(&self, call: &Call, pairs: &[(&UserId, &UserId)], pointer: &str) -> Result<Checks> {
        if pairs.len() > CHECKS_MAX {
            return Err(Error::new(Code::InvalidRequest, "too many checks in one request")
                .at(pointer, format!("at most {CHECKS_MAX}")));
        }
        self.context.catch_up(call, Whose::NOBODY).await?;
        let Found { edges, age } = self.check(call, pairs, false).await?;
        Ok(Checks { following: edges.iter().map(Option::is_some).collect(), age })
    }

    /// From the store as it is; while that is away, from memory as it was.
    async fn check(&self, call: &Call, pairs: &[(&UserId, &UserId)], with_values: bool) -> Result<Found> {
        match self.check_now(call, pairs, with_values).await {
            Ok(edges) => Ok(Found { edges, age: None }),
            Err(error) if error.code() == Code::Unavailable => self.check_away(call, pairs).ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// A service's view alone: what others may know depends on who is private and on quiet edges, which memory does not
    /// hold. All pairs, or none.
    fn check_away(&self, call: &Call, pairs: &[(&UserId, &UserId)]) -> Option<Found> {
        if call.actor != Actor::Service {
            return None;
        }
        let named: Vec<_> =
            pairs.iter().map(|&(follower, target)| (self.named(follower), self.named(target))).collect();
        let mut answers = vec![Answer::Unknown; named.len()];
        let age = self.context.store.peek_away(Kind::Follow, &named, &mut answers)?;
        let known = |answer| match answer {
            Answer::Yes => Some(Some(None)),
            Answer::No => Some(None),
            Answer::Unknown => None,
        };
        let edges = answers.into_iter().map(known).collect::<Option<_>>()?;
        Some(Found { edges, age: Some(age) })
    }

    fn named<'a>(&self, id: &'a UserId) -> Named<'a> {
        Named { key: self.context.keys.key(id), id: id.as_str().as_bytes() }
    }

    /// The values are there when they were needed or `with_values` asks for them.
    async fn check_now(
        &self,
        call: &Call,
        pairs: &[(&UserId, &UserId)],
        with_values: bool,
    ) -> Result<Vec<Option<Option<EdgeValue>>>> {
        let viewer = self.context.viewer(call).await?;
        let keys: Vec<_> =
            pairs.iter().map(|pair| (self.context.keys.key(pair.0), self.context.keys.key(pair.1))).collect();
        let mut answers = vec![Answer::Unknown; keys.len()];
        self.context.store.peek_all(Kind::Follow, &keys, &mut answers);
        let mut found = vec![None; pairs.len()];
        let mut open = Vec::new();
        let mut doubtful = false;
        for (index, ((answer, pair), ids)) in answers.into_iter().zip(keys).zip(pairs).enumerate() {
            // Memory does not know whether a hit is quiet: only those who may see quiet edges take its word.
            let sees_all = viewer.is_none_or(|viewer| viewer == pair.0);
            match answer {
                Answer::No => {}
                Answer::Yes if sees_all && !with_values => {
                    found[index] = Some(None);
                    doubtful |=
                        viewer.is_some() || !self.are_known(pair, || [ids.0, ids.1].map(|id| id.as_str().as_bytes()));
                }
                Answer::Yes | Answer::Unknown => open.push((index, pair)),
            }
        }
        if doubtful || !open.is_empty() {
            self.ask_store(viewer, &open, &mut found).await?;
            self.confirm(viewer, pairs, &mut found).await?;
        }
        Ok(found)
    }

    async fn ask_store(
        &self,
        viewer: Option<Key>,
        open: &[(usize, (Key, Key))],
        found: &mut [Option<Option<EdgeValue>>],
    ) -> Result<()> {
        if open.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = open.iter().map(|&(_, pair)| pair).collect();
        let edges = self.context.store.get_edges(Kind::Follow, &keys).await?;
        for (&(index, (follower, _)), edge) in open.iter().zip(edges) {
            let shown = edge.filter(|edge| edge.state == State::Active && shows_edge(viewer, follower, edge));
            if let Some(slot) = found.get_mut(index) {
                *slot = shown.map(Some);
            }
        }
        Ok(())
    }

    /// A hit counts only between users with these very ids, who are still there, and where a list would show it.
    async fn confirm(
        &self,
        viewer: Option<Key>,
        pairs: &[(&UserId, &UserId)],
        found: &mut [Option<Option<EdgeValue>>],
    ) -> Result<()> {
        let hits = pairs.iter().zip(found.iter()).filter(|(_, edge)| edge.is_some()).map(|(pair, _)| pair);
        let mut keys: Vec<Key> =
            hits.flat_map(|(follower, target)| [follower, target]).map(|id| self.context.keys.key(id)).collect();
        keys.sort_unstable();
        keys.dedup();
        let users = self.context.users_by_key(&keys).await?;
        let is_there = |id: &UserId| users.get(&self.context.keys.key(id)).is_some_and(|user| user.id == *id);
        for ((follower, target), slot) in pairs.iter().zip(found.iter_mut()) {
            if slot.is_some() && !(is_there(follower) && is_there(target)) {
                *slot = None;
            }
        }
        if viewer.is_none() {
            return Ok(());
        }
        let mut visibility = self.context.visibility(viewer);
        visibility.learn(&users.into_values().collect::<Vec<_>>()).await?;
        // A hit without a value is the viewer's own.
        let edge = |(pair, slot): (&(&UserId, &UserId), &Option<Option<EdgeValue>>)| {
            let (follower, target) = (self.context.keys.key(pair.0), self.context.keys.key(pair.1));
            Some(Edge { kind: Kind::Follow, follower, target, value: (*slot)?? })
        };
        let edges: Vec<Option<Edge>> = pairs.iter().zip(found.iter()).map(edge).collect();
        let shown = visibility.shown(&edges.iter().flatten().copied().collect::<Vec<_>>()).await?;
        let hits = edges.iter().zip(found.iter_mut()).filter(|(edge, _)| edge.is_some());
        for ((_, slot), shown) in hits.zip(shown) {
            *slot = slot.take().filter(|_| shown);
        }
        Ok(())
    }
}
