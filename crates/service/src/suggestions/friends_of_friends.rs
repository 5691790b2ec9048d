//! Two hops: whom those follow whom the viewer follows.
//!
//! The first hops are the viewer's newest follows, quiet ones too, of those whose lists the viewer may look at. Of each of
//! them count the newest follows that the viewer may see: the rows that a page of that list would show. A private account
//! may be a candidate, as its name is in those rows; its own follows are no evidence for a stranger.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::{Counts, Key, List, Plane, Result, Side, User};
use entourage_store::{NewestFollows, share};
use parking_lot::Mutex;

use super::{
    count::{Counter, Marks, Scored, keep_best},
    ranker::Hop,
    source::{Asked, Candidate, Evidence, People, Source},
};
use crate::Context;

/// How many follows of the viewer are looked at, newest first.
pub const FIRST_HOPS_MAX: usize = 500;
/// How many follows of each of those are. Together they bound the work of one answer: 250,000 edges.
pub const SECOND_HOPS_MAX: usize = 500;
/// How many who follow a candidate are named.
pub const NAMED_MAX: usize = 2;
/// How many of the viewer's own follows are left out before scores are compared. Those beyond are left out afterwards.
const FOLLOWED_MAX: usize = 10_000;
/// How many blocks are looked at in each direction for who is left out of the newest follows of others. Beyond, somebody
/// blocked may take one of the places; no answer ever shows them.
const BLOCKS_MAX: usize = 100_000;
const BLOCKS_AT_ONCE: usize = 1_000;
/// Edges that cost about as much as one socket operation when they are counted.
const EDGES_A_UNIT: usize = 2_048;
/// How much memory for counting is kept for later requests.
const SCRATCHES_MAX: usize = 8;

pub(super) struct FriendsOfFriends {
    context: Arc<Context>,
    scratches: Mutex<Vec<Scratch>>,
}

/// Memory of one count.
#[derive(Default)]
struct Scratch {
    follows: NewestFollows,
    counter: Counter,
    marks: Marks,
    scored: Vec<Scored>,
}

#[async_trait]
impl Source for FriendsOfFriends {
    async fn candidates(&self, asked: &Asked, limit: usize, people: &mut People) -> Result<Vec<Candidate>> {
        let mut scratch = self.scratches.lock().pop().unwrap_or_default();
        let found = self.count(asked, limit, people, &mut scratch).await;
        // What a failed count left behind is not used again.
        if found.is_ok() {
            let mut scratches = self.scratches.lock();
            if scratches.len() < SCRATCHES_MAX {
                scratches.push(scratch);
            }
        }
        found
    }
}

impl FriendsOfFriends {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, scratches: Mutex::default() }
    }

    async fn count(
        &self,
        asked: &Asked,
        limit: usize,
        people: &mut People,
        scratch: &mut Scratch,
    ) -> Result<Vec<Candidate>> {
        let store = &*self.context.store;
        let Scratch { follows, counter, marks, scored } = scratch;
        let hops = self.first_hops(asked.viewer, people).await?;
        if hops.is_empty() {
            return Ok(Vec::new());
        }
        let hidden = self.blocked_either_way(asked.viewer).await?;
        let keys: Vec<Key> = hops.iter().map(|(_, key)| *key).collect();
        follows.clear();
        store.newest_follows(&[asked.viewer], FOLLOWED_MAX, &[], follows).await?;
        let own = follows.targets().len();
        store.newest_follows(&keys, SECOND_HOPS_MAX, &hidden, follows).await?;
        share::spend(follows.targets().len() / EDGES_A_UNIT).await;
        let weights = self.weights(asked, &hops).await?;
        counter.count(follows.lists().skip(1).zip(weights), follows.bound(), scored);
        share::spend(follows.targets().len() / EDGES_A_UNIT).await;
        follows.targets().iter().take(own).for_each(|number| marks.insert(*number));
        scored.retain(|scored| !marks.has(scored.number));
        marks.clear();
        keep_best(scored, limit);
        let best = self.in_order(follows, scored, limit).await?;
        Ok(with_reasons(best, &keys, follows, marks))
    }

    /// Whom the viewer follows and whose lists are open to them, with their places among all.
    async fn first_hops(&self, viewer: Key, people: &mut People) -> Result<Vec<(usize, Key)>> {
        let page = self.context.store.scan(List::following(viewer), None, FIRST_HOPS_MAX).await?;
        let keys: Vec<Key> = page.edges.iter().map(|edge| edge.target).collect();
        let users: Vec<User> = self.context.store.get_users(&keys).await?.into_iter().flatten().collect();
        let mut visibility = self.context.visibility(Some(viewer));
        visibility.learn(&users).await?;
        people.learn(users);
        Ok(keys.into_iter().enumerate().filter(|(_, key)| visibility.is_open(*key)).collect())
    }

    /// Whom a block keeps apart from the viewer, ascending.
    async fn blocked_either_way(&self, viewer: Key) -> Result<Vec<Key>> {
        let mut found = Vec::new();
        for side in Side::BOTH {
            let list = List::new(viewer, Plane::Block, side);
            let (mut after, mut seen) = (None, 0);
            while seen < BLOCKS_MAX {
                let page = self.context.store.scan(list, after, BLOCKS_AT_ONCE).await?;
                seen += page.edges.len();
                found.extend(page.edges.iter().map(|edge| list.other(edge)));
                after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
                if after.is_none() {
                    break;
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    async fn weights(&self, asked: &Asked, hops: &[(usize, Key)]) -> Result<Vec<u32>> {
        let ranker = asked.ranker.ranker();
        let public = |counts: Counts| counts.following.saturating_sub(counts.following_quiet);
        let following: Vec<u64> = if ranker.asks_following() {
            let keys: Vec<Key> = hops.iter().map(|(_, key)| *key).collect();
            let counts = self.context.store.get_all_counts(&keys).await?;
            counts.into_iter().map(|counts| public(counts.unwrap_or_default())).collect()
        } else {
            vec![0; hops.len()]
        };
        let weight = |(&(place, _), following): (&(usize, Key), u64)| ranker.weight(&Hop { place, following });
        Ok(hops.iter().zip(following).map(weight).collect())
    }

    /// The best in the order of `ranker.rs`, with their numbers.
    async fn in_order(
        &self,
        follows: &NewestFollows,
        scored: &[Scored],
        limit: usize,
    ) -> Result<Vec<(u32, Candidate)>> {
        let numbers: Vec<u32> = scored.iter().map(|scored| scored.number).collect();
        let followers = self.context.store.public_followers(follows, &numbers).await?;
        let keys = self.context.store.keys_of(follows, &numbers);
        let mut order: Vec<(std::cmp::Reverse<u32>, u64, Key, u32)> = scored
            .iter()
            .zip(followers.into_iter().zip(keys))
            .map(|(scored, (followers, key))| (std::cmp::Reverse(scored.score), followers, key, scored.number))
            .collect();
        if order.len() > limit && limit > 0 {
            order.select_nth_unstable(limit - 1);
        }
        order.truncate(limit);
        order.sort_unstable();
        let candidate = |(std::cmp::Reverse(score), _, key, number)| {
            let evidence = Evidence::FollowedBy { common: 0, first: Vec::with_capacity(NAMED_MAX) };
            (number, Candidate { key, weight: u64::from(score), evidence })
        };
        Ok(order.into_iter().map(candidate).collect())
    }
}

/// Goes through all lists once more for those who are left: how many follow each, and the first of those by name.
fn with_reasons(
    best: Vec<(u32, Candidate)>,
    hops: &[Key],
    follows: &NewestFollows,
    marks: &mut Marks,
) -> Vec<Candidate> {
    let mut places: Vec<(u32, usize)> = best.iter().enumerate().map(|(place, (number, _))| (*number, place)).collect();
    places.sort_unstable();
    best.iter().for_each(|(number, _)| marks.insert(*number));
    let mut candidates: Vec<Candidate> = best.into_iter().map(|(_, candidate)| candidate).collect();
    for (list, hop) in follows.lists().skip(1).zip(hops) {
        for number in list.iter().filter(|number| marks.has(**number)) {
            let place = places.binary_search_by_key(number, |(number, _)| *number);
            let place = place.ok().and_then(|at| places.get(at)).map(|(_, place)| *place);
            if let Some(candidate) = place.and_then(|place| candidates.get_mut(place))
                && let Evidence::FollowedBy { common, first } = &mut candidate.evidence
            {
                *common += 1;
                if first.len() < NAMED_MAX {
                    first.push(*hop);
                }
            }
        }
    }
    marks.clear();
    candidates
}
