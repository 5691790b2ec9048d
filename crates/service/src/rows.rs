//! Rows of users: edges with the names of who is at their other end.

use entourage_model::{Edge, Key, List, Millis, Result, UserId};

use crate::Context;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
    pub created_at: Millis,
    /// When a mute ends.
    pub expires_at: Option<Millis>,
}

impl Context {
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
