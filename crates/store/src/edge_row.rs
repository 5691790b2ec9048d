//! All edges of a user of one kind, on one side: what a cache of checks is made of.

use entourage_model::{Key, Kind, List, Plane, Result, Side};

use crate::Store;

/// Page size when a row is read page by page.
const PAGE: usize = 2_000;
const USERS_AT_ONCE: usize = 1_000;

/// The other ends of all live edges of a user, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeRow {
    pub active: Vec<Key>,
    /// Pending or parked. An edge that was accepted while the row was read may be in both.
    pub waiting: Vec<Key>,
    /// Those of `active` who are no users any more.
    pub left_behind: Vec<Key>,
    /// Whether the user exists. Nobody is asked where there are no edges.
    pub owner_there: bool,
}

impl EdgeRow {
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty()
    }

    pub fn edges(&self) -> usize {
        self.active.len() + self.waiting.len()
    }
}

/// [`Store::get_rows`] of one user, page by page.
pub(crate) async fn read_row<S: Store + ?Sized>(
    store: &S,
    kind: Kind,
    side: Side,
    user: Key,
    limit: usize,
) -> Result<Option<EdgeRow>> {
    let mut row = EdgeRow::default();
    // Waiting edges are read before active ones: an edge accepted in between is then in both, not in neither.
    for &plane in Plane::of_kind(kind).iter().rev() {
        let list = List::new(user, plane, side);
        let mut after = None;
        loop {
            let page = store.scan(list, after, PAGE).await?;
            let members = page.edges.iter().map(|edge| list.other(edge));
            match plane {
                Plane::Request | Plane::Parked => row.waiting.extend(members),
                Plane::Follow | Plane::Block | Plane::Mute => row.active.extend(members),
            }
            if page.total > limit as u64 || row.edges() > limit {
                return Ok(None);
            }
            after = page.edges.last().map(|edge| list.place(edge));
            if !page.more || after.is_none() {
                break;
            }
        }
    }
    if row.is_empty() {
        return Ok(Some(row));
    }
    row.owner_there = store.get_users(&[user]).await?.iter().all(Option::is_some);
    for keys in row.active.chunks(USERS_AT_ONCE) {
        let users = store.get_users(keys).await?;
        row.left_behind.extend(keys.iter().zip(users).filter(|(_, user)| user.is_none()).map(|(key, _)| *key));
    }
    Ok(Some(row))
}
