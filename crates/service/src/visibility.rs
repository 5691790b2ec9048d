//! Who sees what: quiet edges, private accounts, hidden lists. `None` as a viewer is a service and sees everything.

use entourage_model::{Code, Edge, EdgeValue, Error, Key, Kind, List, Page, Result, Side, State, User};
use entourage_store::Answer;

use crate::Service;

/// A quiet edge is there for its follower and for services only.
pub(crate) fn shows_edge(viewer: Option<Key>, follower: Key, value: &EdgeValue) -> bool {
    !value.quiet || viewer.is_none_or(|viewer| viewer == follower)
}

pub(crate) fn shows_row(viewer: Option<Key>, edge: &Edge) -> bool {
    shows_edge(viewer, edge.follower, &edge.value)
}

/// Public totals leave quiet edges out; the follower's own following list and services count them.
pub(crate) fn visible_total(viewer: Option<Key>, list: List, page: &Page) -> u64 {
    let own = list.side == Side::Following && viewer == Some(list.user);
    if own || viewer.is_none() { page.total } else { page.total.saturating_sub(page.quiet) }
}

pub(crate) fn lists_hidden() -> Error {
    Error::new(Code::ListsHidden, "this account shows its lists only to itself or to accepted followers")
}

impl Service {
    /// Whether a viewer may look at an account's lists.
    pub(crate) async fn shows_lists(&self, viewer: Option<Key>, owner: &User) -> Result<bool> {
        let Some(viewer) = viewer else { return Ok(true) };
        if viewer == owner.key {
            return Ok(true);
        }
        if owner.hide_lists {
            return Ok(false);
        }
        Ok(!owner.private || self.is_accepted(viewer, owner.key).await?)
    }

    /// An edge is shown when either of the two lists that hold it would show it.
    pub(crate) async fn shows_either_list(&self, viewer: Option<Key>, follower: &User, target: &User) -> Result<bool> {
        Ok(self.shows_lists(viewer, follower).await? || self.shows_lists(viewer, target).await?)
    }

    async fn is_accepted(&self, follower: Key, target: Key) -> Result<bool> {
        match self.store.peek(Kind::Follow, follower, target) {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::Unknown => {
                let edges = self.store.get_edges(Kind::Follow, &[(follower, target)]).await?;
                Ok(edges.into_iter().flatten().any(|edge| edge.state == State::Active))
            }
        }
    }
}
