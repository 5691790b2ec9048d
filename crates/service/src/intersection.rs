//! Who is in several lists: all of them at once, where pages would be too slow.

use std::collections::HashSet;

use entourage_model::{Edge, Error, Key, Kind, List, Millis, Place, Result, Side, User, UserId};
use entourage_store::{Answer, share};
use tokio::task::yield_now;

use crate::{
    Actor, Call, Service,
    ids::user_not_found,
    range::CHUNK,
    visibility::{Eyes, lists_hidden},
};

/// What comparing two lists costs of a task's share, besides what is found.
const COMMON_UNITS: usize = 16;

/// One of several lists: from which side, and whose.
pub type ListName = (Side, UserId);

/// How many lists one request may name.
pub const LISTS_MAX: usize = 16;
/// How many rows of the shortest list one request looks at.
pub const INTERSECTION_ROWS_MAX: usize = 100_000;

/// Somebody who is in all lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    pub id: UserId,
    /// Since when, in the order of the lists.
    pub since: Vec<Millis>,
}

impl Service {
    /// Who is in all of these lists, in any order; what is beyond `max` is left out.
    pub async fn intersection(&self, call: &Call, lists: &[ListName], max: usize) -> Result<Vec<Shared>> {
        let mut walk = self.walk_lists(call, lists).await?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(some) = walk.next().await?
        {
            found.extend(some);
        }
        found.truncate(max);
        Ok(found)
    }

    /// How many are in all of them; no more than `max` are counted.
    pub async fn count_intersection(&self, call: &Call, lists: &[ListName], max: usize) -> Result<usize> {
        if let Some(count) = self.count_common(call, lists, max).await? {
            return Ok(count);
        }
        let mut walk = self.walk_lists(call, lists).await?;
        let mut count = 0;
        while count < max
            && let Some(some) = walk.next().await?
        {
            count += some.len();
        }
        Ok(count.min(max))
    }

    /// Which of these are in all lists.
    pub async fn are_in_all(&self, call: &Call, lists: &[ListName], members: &[UserId]) -> Result<Vec<bool>> {
        let mut walk = self.walk_lists(call, lists).await?;
        let there = self.present_keys(members).await?;
        let keys: Vec<Key> = there.iter().flatten().copied().collect();
        let matches = walk.matching(&keys, None).await?;
        let found: HashSet<Key> = matches.into_iter().map(|(key, _)| key).collect();
        Ok(there.into_iter().map(|key| key.is_some_and(|key| found.contains(&key))).collect())
    }

    async fn walk_lists(&self, call: &Call, names: &[ListName]) -> Result<Walk<'_>> {
        if names.len() > LISTS_MAX {
            return Err(Error::invalid("too many lists in one request").at("/lists", format!("at most {LISTS_MAX}")));
        }
        self.catch_up(call).await?;
        let viewer = self.viewer(call).await?;
        let (mut eyes, mut owners) = (self.eyes(viewer), Vec::with_capacity(names.len()));
        for (_, id) in names {
            let owner = self.find_user(id).await?;
            if let Some(owner) = &owner
                && !eyes.are_lists_open(owner).await?
            {
                return Err(lists_hidden());
            }
            owners.push(owner);
        }
        let owners: Vec<User> = owners.into_iter().collect::<Option<_>>().ok_or_else(user_not_found)?;
        let keys: Vec<Key> = owners.iter().map(|owner| owner.key).collect();
        let counts = self.store.get_all_counts(&keys).await?;
        let lists: Vec<List> = names.iter().zip(&keys).map(|((side, _), key)| list_of(*side, *key)).collect();
        let length = |(list, counts): (&List, &Option<_>)| {
            counts.as_ref().map_or(0, |counts: &entourage_model::Counts| match list.side {
                Side::Following => counts.following,
                Side::Followers => counts.followers,
            })
        };
        let lengths = lists.iter().zip(&counts).map(length);
        let driver = lengths.enumerate().min_by_key(|(_, length)| *length).map_or(0, |(index, _)| index);
        Ok(Walk { service: self, eyes, lists, driver, after: None, looked: 0, ended: names.is_empty() })
    }

    /// What memory knows at once of whom two follow, for a service: it sees every edge. `None` where rows have to be
    /// read.
    async fn count_common(&self, call: &Call, lists: &[ListName], max: usize) -> Result<Option<usize>> {
        let ([(Side::Following, one), (Side::Following, other)], Actor::Service) = (lists, &call.actor) else {
            return Ok(None);
        };
        let (_, [one, other]) = self.parties(call, [one, other]).await?;
        let mut keys = Vec::new();
        let is_known = self.store.peek_common(one.key, other.key, max, &mut keys);
        // Whoever is in one list alone was looked at, too.
        share::spend(COMMON_UNITS).await;
        share::spend_rows(keys.len()).await;
        if !is_known {
            return Ok(None);
        }
        // An edge may be left of somebody who is not there any more; only rows tell those apart.
        let pairs: Vec<(Key, Key)> = keys.iter().map(|key| (one.key, *key)).collect();
        let mut answers = Vec::with_capacity(pairs.len());
        self.store.peek_all(Kind::Follow, &pairs, &mut answers);
        Ok(answers.iter().all(|answer| *answer == Answer::Yes).then_some(keys.len()))
    }
}

const fn list_of(side: Side, user: Key) -> List {
    match side {
        Side::Following => List::following(user),
        Side::Followers => List::followers(user),
    }
}

/// Reads the shortest list, and looks in the others for whom it has.
struct Walk<'a> {
    service: &'a Service,
    eyes: Eyes<'a>,
    lists: Vec<List>,
    driver: usize,
    after: Option<Place>,
    looked: usize,
    ended: bool,
}

impl Walk<'_> {
    /// The next ones who are in all lists; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Shared>>> {
        let Some(list) = self.lists.get(self.driver).copied().filter(|_| !self.ended) else { return Ok(None) };
        if self.looked >= INTERSECTION_ROWS_MAX {
            return Err(Error::invalid(format!(
                "the shortest of these lists has more than {INTERSECTION_ROWS_MAX} rows: too many to look at"
            )));
        }
        yield_now().await;
        let page = self.service.store.scan(list, self.after, CHUNK).await?;
        self.looked += page.edges.len();
        self.after = page.edges.last().map(|edge| list.place(edge));
        self.ended = !page.more || self.after.is_none();
        let keys: Vec<Key> = page.edges.iter().map(|edge| list.other(edge)).collect();
        let matches = self.matching(&keys, Some(&page.edges)).await?;
        let keys: Vec<Key> = matches.iter().map(|(key, _)| *key).collect();
        let mut users = self.service.users_by_key(&keys).await?;
        let shared = matches.into_iter().filter_map(|(key, edges)| {
            let since = edges.iter().map(|edge| edge.value.position.millis()).collect();
            Some(Shared { id: users.remove(&key)?.id, since })
        });
        Ok(Some(shared.collect()))
    }

    /// Who of these is in all lists, as far as the viewer may know, with the edge of each list.
    async fn matching(&mut self, keys: &[Key], driving: Option<&[Edge]>) -> Result<Vec<(Key, Vec<Edge>)>> {
        let mut matches: Vec<(Key, Vec<Edge>)> = keys.iter().map(|key| (*key, Vec::new())).collect();
        for (index, list) in self.lists.clone().into_iter().enumerate() {
            let found: Vec<Option<Edge>> = match driving {
                Some(edges) if index == self.driver => {
                    let is_left = |edge: &Edge| matches.iter().position(|(key, _)| *key == list.other(edge));
                    let mut found = vec![None; matches.len()];
                    for edge in edges {
                        if let Some(slot) = is_left(edge).and_then(|at| found.get_mut(at)) {
                            *slot = Some(*edge);
                        }
                    }
                    found
                }
                _ => {
                    let pair = |(key, _): &(Key, Vec<Edge>)| match list.side {
                        Side::Following => (list.user, *key),
                        Side::Followers => (*key, list.user),
                    };
                    let pairs: Vec<_> = matches.iter().map(pair).collect();
                    self.service.follow_edges(&pairs).await?
                }
            };
            let edges: Vec<Edge> = found.iter().flatten().copied().collect();
            let mut tellable = self.eyes.evidence(&edges).await?.into_iter();
            let found = found.into_iter().map(|edge| edge.filter(|_| tellable.next() == Some(true)));
            let paired = matches.into_iter().zip(found.collect::<Vec<_>>());
            matches = paired
                .filter_map(|((key, mut edges), edge)| {
                    edges.push(edge?);
                    Some((key, edges))
                })
                .collect();
        }
        Ok(matches)
    }
}
