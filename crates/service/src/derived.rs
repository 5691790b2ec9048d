//! Lists that follow from others: mutuals, common following, followers you know, not following back. One following
//! list drives each of them and gives the order; every row of it is tested from the other end.

use entourage_model::{Cursor, CursorScope, Edge, Key, List, Place, Result, Selection, User, UserId};

use crate::{Call, Limit, Service, UserPage, visibility::lists_hidden};

/// How many rows of the driving list one look at the store takes.
const CHUNK: usize = 500;
/// How many such looks one request takes before it answers with what it has, and a cursor.
const ROUNDS_MAX: usize = 4;

impl Service {
    /// Whom this user follows and is followed by.
    pub async fn mutuals(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        let (viewer, [owner]) = self.parties(call, [id]).await?;
        self.derived(viewer, &[&owner], owner.key, Selection::Mutuals, cursor, limit).await
    }

    /// Whom this user follows without being followed back, as far as the viewer may know.
    pub async fn not_following_back(
        &self,
        call: &Call,
        id: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        let (viewer, [owner]) = self.parties(call, [id]).await?;
        self.derived(viewer, &[&owner], owner.key, Selection::NotFollowingBack, cursor, limit).await
    }

    /// Whom both follow, in the order of the first one's list.
    pub async fn common_following(
        &self,
        call: &Call,
        id: &UserId,
        other: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        let (viewer, [owner, other]) = self.parties(call, [id, other]).await?;
        let selection = Selection::CommonWith(other.key);
        self.derived(viewer, &[&owner, &other], owner.key, selection, cursor, limit).await
    }

    /// Whom the acting user follows among a user's followers, in the order of the acting user's list.
    pub async fn followers_you_know(
        &self,
        call: &Call,
        id: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        let you = self.keys.key(call.actor.user()?);
        let (viewer, [owner]) = self.parties(call, [id]).await?;
        self.derived(viewer, &[&owner], you, Selection::FollowersOf(owner.key), cursor, limit).await
    }

    pub(crate) async fn parties<const N: usize>(
        &self,
        call: &Call,
        ids: [&UserId; N],
    ) -> Result<(Option<Key>, [User; N])> {
        self.catch_up(call).await?;
        let viewer = self.viewer(call).await?;
        let mut users = Vec::with_capacity(N);
        for id in ids {
            users.push(self.stored_user(id).await?);
        }
        let users = users.try_into().map_err(|_| entourage_model::Error::internal("one user for each id"))?;
        Ok((viewer, users))
    }

    /// `owners` must all show their lists to the viewer.
    async fn derived(
        &self,
        viewer: Option<Key>,
        owners: &[&User],
        driver: Key,
        selection: Selection,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        let mut eyes = self.eyes(viewer);
        for owner in owners {
            if !eyes.are_lists_open(owner).await? {
                return Err(lists_hidden());
            }
        }
        let list = List::following(driver);
        let scope = CursorScope { list, selection, viewer };
        let mut after = cursor.map(|text| Cursor::decode(text, &self.sealer, &scope)).transpose()?.map(|at| at.0);
        let visible = self.visible_list(viewer, list).await?;
        let mut rows: Vec<Edge> = Vec::new();
        let mut more = true;
        for _ in 0..ROUNDS_MAX {
            let page = self.scan_shown(&mut eyes, &visible, after, CHUNK).await?;
            let chosen = self.select(&mut eyes, driver, selection, &page.edges).await?;
            after = page.edges.last().map(|edge| list.place(edge)).or(after);
            rows.extend(page.edges.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(edge, _)| *edge));
            more = page.more;
            // One more than is shown tells whether there is more.
            if !more || rows.len() > limit.get() {
                break;
            }
        }
        if rows.len() > limit.get() {
            rows.truncate(limit.get());
            (after, more) = (rows.last().map(|edge| list.place(edge)), true);
        }
        let next = after.filter(|_| more).map(|place: Place| Cursor(place).encode(&self.sealer, &scope));
        Ok(UserPage { rows: self.rows(list, &rows).await?, next_cursor: next, total: None })
    }

    /// Which edges of the driving list belong into the selection, by what the viewer may know.
    async fn select(
        &self,
        eyes: &mut crate::visibility::Eyes<'_>,
        driver: Key,
        selection: Selection,
        edges: &[Edge],
    ) -> Result<Vec<bool>> {
        let mut chosen = eyes.evidence(edges).await?;
        let pair = |edge: &Edge| match selection {
            Selection::CommonWith(other) => (other, edge.target),
            Selection::FollowersOf(other) => (edge.target, other),
            _ => (edge.target, driver),
        };
        let candidates = || edges.iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(edge, _)| edge);
        let pairs: Vec<(Key, Key)> = candidates().map(pair).collect();
        let found = self.follow_edges(&pairs).await?;
        let evidence = eyes.evidence(&found.iter().flatten().copied().collect::<Vec<_>>()).await?;
        let mut evidence = evidence.into_iter();
        let mut answers = found.iter().map(|edge| edge.is_some() && evidence.next().is_some_and(|may_tell| may_tell));
        let wanted = selection != Selection::NotFollowingBack;
        for slot in chosen.iter_mut().filter(|slot| **slot) {
            *slot = answers.next() == Some(wanted);
        }
        Ok(chosen)
    }
}
