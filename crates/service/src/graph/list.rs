//! Lists of users: newest first, by cursor, as the viewer may see them.

use entourage_model::{Cursor, CursorScope, Edge, Error, Key, List, Plane, Result, Selection, Side, UserId};
use entourage_store::Whose;

use crate::{Call, Graph, UserRow, visibility::lists_hidden};

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
pub struct UserPage {
    pub rows: Vec<UserRow>,
    /// `None` at the end of the list.
    pub next_cursor: Option<String>,
    /// `None` where it would have to be counted.
    pub total: Option<u64>,
}

impl Graph {
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
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        let viewer = self.context.viewer(call).await?;
        let owner = self.context.stored_user(id).await?;
        if !self.context.visibility(viewer).are_lists_open(&owner).await? {
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
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(owner)])).await?;
        let viewer = self.context.viewer(call).await?;
        let user = self.context.stored_user(owner).await?.key;
        self.page(List::new(user, plane, side), viewer, cursor, limit).await
    }

    pub(super) async fn page(
        &self,
        list: List,
        viewer: Option<Key>,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        let scope = CursorScope { list, selection: Selection::All, viewer };
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let visible = self.context.visible_list(viewer, list).await?;
        let (mut after, mut total) = (after.map(|cursor| cursor.0), None);
        let mut visibility = self.context.visibility(viewer);
        let mut rows: Vec<(Edge, UserRow)> = Vec::new();
        // One more than is shown tells whether there is more.
        while rows.len() <= limit.get() {
            let page = self.context.scan_shown(&mut visibility, &visible, after, limit.get() + 1).await?;
            total = total.or(Some(page.total));
            after = page.edges.last().map(|edge| list.place(edge));
            let now = self.context.clock.now();
            let edges: Vec<Edge> = page.edges.into_iter().filter(|edge| !edge.value.is_over(now)).collect();
            rows.extend(self.context.placed_rows(list, &edges).await?);
            if !page.more || after.is_none() {
                break;
            }
        }
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let next = rows.last().map(|(edge, _)| list.place(edge)).filter(|_| more);
        Ok(UserPage {
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            next_cursor: next.map(|place| Cursor(place).encode(&self.context.sealer, &scope)),
            total,
        })
    }
}
