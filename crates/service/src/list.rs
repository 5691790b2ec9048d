//! Lists of users: newest first, by cursor, as the viewer may see them.

use entourage_model::{Cursor, CursorScope, Edge, Error, Key, List, Millis, Plane, Result, Selection, Side, UserId};
use entourage_store::Whose;

use crate::{Call, Service, visibility::lists_hidden};

/// How many rows a page may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(usize);

impl Limit {
    pub const DEFAULT: Self = Self(50);
    /// Posts are longer than rows of users.
    pub const OF_FEED: Self = Self(20);
    pub const MAX: usize = 200;
    pub const LARGEST: Self = Self(Self::MAX);

    pub fn parse(text: Option<&str>) -> Result<Self> {
        Self::parse_or(text, Self::DEFAULT)
    }

    /// With what it is where nothing is said.
    pub fn parse_or(text: Option<&str>, default: Self) -> Result<Self> {
        let Some(text) = text else { return Ok(default) };
        match text.parse() {
            Ok(number @ 1..=Self::MAX) => Ok(Self(number)),
            _ => Err(Error::invalid("the limit is not valid").at("/limit", "a whole number from 1 to 200")),
        }
    }

    pub const fn get(self) -> usize {
        self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
    pub created_at: Millis,
    /// When a mute ends.
    pub expires_at: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPage {
    pub rows: Vec<UserRow>,
    /// `None` at the end of the list.
    pub next_cursor: Option<String>,
    /// `None` where it would have to be counted.
    pub total: Option<u64>,
}

impl Service {
    pub async fn followers(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.follow_list(call, id, List::followers, cursor, limit).await
    }

    pub async fn following(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.follow_list(call, id, List::following, cursor, limit).await
    }

    async fn follow_list(
        &self,
        call: &Call,
        id: &UserId,
        list_of: fn(Key) -> List,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        self.catch_up(call, Whose::Of(&[self.keys.key(id)])).await?;
        let viewer = self.viewer(call).await?;
        let owner = self.stored_user(id).await?;
        if !self.visibility(viewer).are_lists_open(&owner).await? {
            return Err(lists_hidden());
        }
        self.page(list_of(owner.key), viewer, cursor, limit).await
    }

    /// A list that only its owner and services see.
    pub(crate) async fn own_page(
        &self,
        call: &Call,
        owner: &UserId,
        (plane, side): (Plane, Side),
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        call.may_change(owner)?;
        self.catch_up(call, Whose::Of(&[self.keys.key(owner)])).await?;
        let viewer = self.viewer(call).await?;
        let user = self.stored_user(owner).await?.key;
        self.page(List::new(user, plane, side), viewer, cursor, limit).await
    }

    async fn page(&self, list: List, viewer: Option<Key>, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        let scope = CursorScope { list, selection: Selection::All, viewer };
        let after = cursor.map(|text| Cursor::decode(text, &self.sealer, &scope)).transpose()?;
        let visible = self.visible_list(viewer, list).await?;
        let (mut after, mut total) = (after.map(|cursor| cursor.0), None);
        let mut visibility = self.visibility(viewer);
        let mut rows: Vec<(Edge, UserRow)> = Vec::new();
        // One more than is shown tells whether there is more.
        while rows.len() <= limit.get() {
            let page = self.scan_shown(&mut visibility, &visible, after, limit.get() + 1).await?;
            total = total.or(Some(page.total));
            after = page.edges.last().map(|edge| list.place(edge));
            let now = self.clock.now();
            let edges: Vec<Edge> = page.edges.into_iter().filter(|edge| !edge.value.is_over(now)).collect();
            rows.extend(self.placed_rows(list, &edges).await?);
            if !page.more || after.is_none() {
                break;
            }
        }
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let next = rows.last().map(|(edge, _)| list.place(edge)).filter(|_| more);
        Ok(UserPage {
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            next_cursor: next.map(|place| Cursor(place).encode(&self.sealer, &scope)),
            total,
        })
    }

    /// Rows with names. Who is no longer there has none.
    pub(crate) async fn rows(&self, list: List, edges: &[Edge]) -> Result<Vec<UserRow>> {
        Ok(self.placed_rows(list, edges).await?.into_iter().map(|(_, row)| row).collect())
    }

    /// Rows with names, behind their edges. Who is no longer there has none.
    pub(crate) async fn placed_rows(&self, list: List, edges: &[Edge]) -> Result<Vec<(Edge, UserRow)>> {
        let keys: Vec<Key> = edges.iter().map(|edge| list.other(edge)).collect();
        let users = if keys.is_empty() { Vec::new() } else { self.store.get_users(&keys).await? };
        let rows = edges.iter().zip(users).filter_map(|(edge, user)| {
            let user = user?;
            let created_at = edge.value.position.millis();
            let expires_at = edge.value.expires.map(|expires| expires.time());
            let (name, avatar_url) = (user.name, user.avatar_url);
            Some((*edge, UserRow { id: user.id, name, avatar_url, created_at, expires_at }))
        });
        Ok(rows.collect())
    }
}
