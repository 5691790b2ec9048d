//! Lists that follow from others: mutuals, common following and followers, followers you know, not following back. One
//! list drives each of them and gives the order; every row of it is tested from the other end.

use entourage_model::{
    Counts, Cursor, CursorScope, Edge, Error, Key, List, Place, Result, Selection, Side, User, UserId,
};
use entourage_store::Whose;

use super::set_scan::SetQuery;
use crate::{
    Call, Graph, Limit, UserPage, UserRow,
    visibility::{Visibility, lists_hidden},
};

/// Which list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived<'a> {
    /// Whom this user follows and is followed by.
    Mutuals(&'a UserId),
    /// Whom this user follows without being followed back, as far as the viewer may know.
    NotFollowingBack(&'a UserId),
    /// Whom both follow, in the order of the first one's list.
    CommonFollowing(&'a UserId, &'a UserId),
    /// Who follows both, in the order of the shorter list.
    CommonFollowers(&'a UserId, &'a UserId),
    /// Whom the acting user follows among a user's followers, in the order of the acting user's list.
    FollowersYouKnow(&'a UserId),
}

/// How many rows a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub number: u64,
    /// Whether all rows were looked at; otherwise there may be more.
    pub is_exact: bool,
}

/// What has to be known of a list to read it.
struct Plan<'a> {
    viewer: Option<Key>,
    visibility: Visibility<'a>,
    query: SetQuery,
    selection: Selection,
}

impl Plan<'_> {
    const fn scope(&self) -> CursorScope {
        CursorScope { list: self.query.driver, selection: self.selection, viewer: self.viewer }
    }

    /// The other list drives.
    fn turn(&mut self) {
        if let [(side, other)] = self.query.others.as_mut_slice() {
            let driver = self.query.driver.user;
            (self.query.driver, self.selection) = (side.list(*other), Selection::CommonWith(driver));
            *other = driver;
        }
    }
}

impl Graph {
    /// A page of it. One that had to look at too many rows of the driving list may be short, or empty, and goes on.
    pub async fn derived(&self, call: &Call, of: Derived<'_>, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        let mut plan = self.plan(call, of).await?;
        let after = self.begin(&mut plan, of, cursor).await?;
        let (list, scope) = (plan.query.driver, plan.scope());
        let mut scan = self.set_scan(plan.viewer, plan.visibility, plan.query, after).await?;
        let mut rows: Vec<(Edge, UserRow)> = Vec::new();
        // One more than is shown tells whether there is more.
        while rows.len() <= limit.get()
            && let Some(some) = scan.rows(limit.get() + 1 - rows.len()).await?
        {
            rows.extend(some);
        }
        let next = match rows.len() > limit.get() {
            true => {
                rows.truncate(limit.get());
                rows.last().map(|(edge, _)| list.place(edge))
            }
            false => scan.after(),
        };
        Ok(UserPage {
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            next_cursor: next.map(|place| Cursor(place).encode(&self.context.sealer, &scope)),
            total: None,
        })
    }

    /// How many rows paging through would show, as far as one request may look.
    pub async fn count_derived(&self, call: &Call, of: Derived<'_>) -> Result<Counted> {
        let mut plan = self.plan(call, of).await?;
        self.begin(&mut plan, of, None).await?;
        let scan = self.set_scan(plan.viewer, plan.visibility, plan.query, None).await?;
        let (number, is_exact) = scan.count(usize::MAX).await?;
        Ok(Counted { number: number as u64, is_exact })
    }

    async fn plan(&self, call: &Call, of: Derived<'_>) -> Result<Plan<'_>> {
        let you = match of {
            Derived::FollowersYouKnow(_) => Some(self.context.keys.key(call.actor.user()?)),
            _ => None,
        };
        let (viewer, owners) = match of {
            Derived::Mutuals(id) | Derived::NotFollowingBack(id) | Derived::FollowersYouKnow(id) => {
                let (viewer, owners) = self.parties(call, [id]).await?;
                (viewer, owners.to_vec())
            }
            Derived::CommonFollowing(id, other) | Derived::CommonFollowers(id, other) => {
                let (viewer, owners) = self.parties(call, [id, other]).await?;
                (viewer, owners.to_vec())
            }
        };
        let mut visibility = self.context.visibility(viewer);
        for owner in &owners {
            if !visibility.are_lists_open(owner).await? {
                return Err(lists_hidden());
            }
        }
        let (Some(owner), Some(other)) = (owners.first(), owners.last()) else {
            return Err(Error::internal("a list of nobody"));
        };
        let (owner, other) = (owner.key, other.key);
        let (driver, others, selection) = match of {
            Derived::Mutuals(_) => (List::following(owner), (Side::Followers, owner), Selection::Mutuals),
            Derived::NotFollowingBack(_) => {
                (List::following(owner), (Side::Followers, owner), Selection::NotFollowingBack)
            }
            Derived::CommonFollowing(..) => {
                (List::following(owner), (Side::Following, other), Selection::CommonWith(other))
            }
            Derived::CommonFollowers(..) => {
                (List::followers(owner), (Side::Followers, other), Selection::CommonWith(other))
            }
            Derived::FollowersYouKnow(_) => {
                let you = you.unwrap_or(owner);
                (List::following(you), (Side::Followers, owner), Selection::FollowersOf(owner))
            }
        };
        let is_in = selection != Selection::NotFollowingBack;
        Ok(Plan { viewer, visibility, query: SetQuery { driver, others: vec![others], is_in }, selection })
    }

    /// Where reading begins. Of two lists of followers the shorter one drives, from the first page to the last.
    async fn begin(&self, plan: &mut Plan<'_>, of: Derived<'_>, cursor: Option<&str>) -> Result<Option<Place>> {
        let decode =
            |plan: &Plan<'_>| cursor.map(|text| Cursor::decode(text, &self.context.sealer, &plan.scope())).transpose();
        if !matches!(of, Derived::CommonFollowers(..)) {
            return Ok(decode(plan)?.map(|cursor| cursor.0));
        }
        if cursor.is_some() {
            if let Ok(found) = decode(plan) {
                return Ok(found.map(|cursor| cursor.0));
            }
            plan.turn();
            return Ok(decode(plan)?.map(|cursor| cursor.0));
        }
        let keys: Vec<Key> =
            [plan.query.driver.user].into_iter().chain(plan.query.others.iter().map(|(_, key)| *key)).collect();
        let counts = self.context.store.get_all_counts(&keys).await?;
        // What everybody may know: who looks makes no difference.
        let length = |counts: &Option<Counts>| counts.map_or(0, |counts| counts.followers - counts.followers_quiet);
        if counts.last().map(length) < counts.first().map(length) {
            plan.turn();
        }
        Ok(None)
    }

    pub(crate) async fn parties<const N: usize>(
        &self,
        call: &Call,
        ids: [&UserId; N],
    ) -> Result<(Option<Key>, [User; N])> {
        self.context.catch_up(call, Whose::Of(&ids.map(|id| self.context.keys.key(id)))).await?;
        let viewer = self.context.viewer(call).await?;
        let mut users = Vec::with_capacity(N);
        for id in ids {
            users.push(self.context.stored_user(id).await?);
        }
        let users = users.try_into().map_err(|_| Error::internal("one user for each id"))?;
        Ok((viewer, users))
    }
}
