//! Who is in several lists: all of them at once, where pages would be too slow.

use std::collections::HashSet;

use entourage_model::{Counts, Error, Key, Millis, Result, Side, User, UserId};
use entourage_store::Whose;

use super::set_scan::{DRIVING_ROWS_MAX, SetQuery, SetScan};
use crate::{
    Call, Graph,
    ids::user_not_found,
    visibility::{Visibility, lists_hidden},
};

/// One of several lists: from which side, and whose.
pub type ListName = (Side, UserId);

/// How many lists one request may name.
pub const LISTS_MAX: usize = 16;

/// Somebody who is in all lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    pub id: UserId,
    /// Since when, in the order of the lists.
    pub since: Vec<Millis>,
}

/// Lists that the viewer may look at.
struct Open<'a> {
    viewer: Option<Key>,
    visibility: Visibility<'a>,
    lists: Vec<(Side, Key)>,
}

impl Graph {
    /// Who is in all of these lists, in any order; what is beyond `max` is left out.
    pub async fn intersection(&self, call: &Call, lists: &[ListName], max: usize) -> Result<Vec<UserId>> {
        let (mut scan, _) = self.scan_lists(call, lists).await?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(some) = scan.rows(usize::MAX).await?
        {
            found.extend(some.into_iter().map(|(_, row)| row.id));
        }
        if found.len() < max && scan.after().is_some() {
            return Err(too_many_rows());
        }
        found.truncate(max);
        Ok(found)
    }

    /// As [`Self::intersection`], with their times.
    pub async fn timed_intersection(&self, call: &Call, lists: &[ListName], max: usize) -> Result<Vec<Shared>> {
        let (mut scan, named) = self.scan_lists(call, lists).await?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(some) = scan.rows(usize::MAX).await?
        {
            let mut shared: Vec<Shared> =
                some.iter().map(|(_, row)| Shared { id: row.id.clone(), since: Vec::new() }).collect();
            for list in &named {
                let pairs: Vec<_> = some.iter().map(|(key, _)| SetQuery::pair(*list, scan.member(key))).collect();
                for (one, edge) in shared.iter_mut().zip(self.context.follow_edges(&pairs).await?) {
                    one.since.extend(edge.map(|edge| edge.value.position.millis()));
                }
            }
            // Those who have gone from one of them since have no time in it.
            shared.retain(|one| one.since.len() == named.len());
            found.extend(shared);
        }
        if found.len() < max && scan.after().is_some() {
            return Err(too_many_rows());
        }
        found.truncate(max);
        Ok(found)
    }

    /// How many are in all of them; no more than `max` are counted.
    pub async fn count_intersection(&self, call: &Call, lists: &[ListName], max: usize) -> Result<usize> {
        let (scan, _) = self.scan_lists(call, lists).await?;
        match scan.count(max).await? {
            (count, true) => Ok(count),
            _ => Err(too_many_rows()),
        }
    }

    /// Which of these are in all lists.
    pub async fn are_in_all(&self, call: &Call, lists: &[ListName], members: &[UserId]) -> Result<Vec<bool>> {
        let Open { viewer, mut visibility, lists } = self.open_lists(call, lists).await?;
        let there = self.context.present_keys(members).await?;
        let mut left: Vec<Key> = there.iter().flatten().copied().collect();
        for list in lists {
            for is_told in [true, false] {
                let pairs: Vec<_> = left.iter().map(|member| SetQuery::pair(list, *member)).collect();
                let passes = match is_told {
                    true => self.context.visible_follows(viewer, &pairs).await?.0,
                    false => visibility.evidence_of(&pairs).await?,
                };
                let mut passes = passes.into_iter();
                left.retain(|_| passes.next() == Some(true));
            }
        }
        let left: HashSet<Key> = left.into_iter().collect();
        Ok(there.into_iter().map(|key| key.is_some_and(|key| left.contains(&key))).collect())
    }

    async fn open_lists(&self, call: &Call, names: &[ListName]) -> Result<Open<'_>> {
        if names.len() > LISTS_MAX {
            return Err(Error::invalid("too many lists in one request").at("/lists", format!("at most {LISTS_MAX}")));
        }
        let keys: Vec<Key> = names.iter().map(|(_, id)| self.context.keys.key(id)).collect();
        self.context.catch_up(call, Whose::Of(&keys)).await?;
        let viewer = self.context.viewer(call).await?;
        let (mut visibility, mut owners) = (self.context.visibility(viewer), Vec::with_capacity(names.len()));
        for (_, id) in names {
            let owner = self.context.find_user(id).await?;
            if let Some(owner) = &owner
                && !visibility.are_lists_open(owner).await?
            {
                return Err(lists_hidden());
            }
            owners.push(owner);
        }
        let owners: Vec<User> = owners.into_iter().collect::<Option<_>>().ok_or_else(user_not_found)?;
        let lists = names.iter().zip(owners).map(|((side, _), owner)| (*side, owner.key)).collect();
        Ok(Open { viewer, visibility, lists })
    }

    /// The shortest list drives.
    async fn scan_lists(&self, call: &Call, names: &[ListName]) -> Result<(SetScan<'_>, Vec<(Side, Key)>)> {
        let Open { viewer, visibility, lists } = self.open_lists(call, names).await?;
        let keys: Vec<Key> = lists.iter().map(|(_, key)| *key).collect();
        let counts = self.context.store.get_all_counts(&keys).await?;
        let length = |((side, _), counts): (&(Side, Key), &Option<Counts>)| {
            let counts = counts.unwrap_or_default();
            match side {
                Side::Following => counts.following - counts.following_quiet,
                Side::Followers => counts.followers - counts.followers_quiet,
            }
        };
        let lengths = lists.iter().zip(&counts).map(length);
        let shortest = lengths.enumerate().min_by_key(|(_, length)| *length).map_or(0, |(index, _)| index);
        let mut others = lists.clone();
        if others.is_empty() {
            return Err(Error::internal("no list to look at"));
        }
        let (side, key) = others.swap_remove(shortest);
        let query = SetQuery { driver: side.list(key), others, is_in: true };
        Ok((self.set_scan(viewer, visibility, query, None).await?, lists))
    }
}

fn too_many_rows() -> Error {
    Error::invalid(format!(
        "the shortest of these lists has more rows than one request looks at, {DRIVING_ROWS_MAX}; page through it"
    ))
}
