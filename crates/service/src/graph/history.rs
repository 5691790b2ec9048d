//! What a user followed, or asked to follow, and does no longer.

use entourage_model::{Cause, Cursor, CursorScope, Ended, Key, List, Millis, Place, Result, Selection, State, UserId};
use entourage_store::Whose;

use crate::{Call, Graph, Limit};

/// How often one request asks the store again because a page was full of rows that are not shown.
const ROUNDS_MAX: usize = 4;

/// How a follow, or a request for one, came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Unfollowed,
    Removed,
    Blocked,
    Rejected,
    Cancelled,
    Erased,
}

impl Ending {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unfollowed => "unfollowed",
            Self::Removed => "removed",
            Self::Blocked => "blocked",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Erased => "erased",
        }
    }

    const fn of(ended: &Ended) -> Self {
        match (ended.cause, ended.state) {
            (Cause::Block, _) => Self::Blocked,
            (Cause::Erase, _) => Self::Erased,
            (Cause::Target, State::Pending | State::Parked) => Self::Rejected,
            (Cause::Target, _) => Self::Removed,
            (Cause::Follower | Cause::Import, State::Pending | State::Parked) => Self::Cancelled,
            (Cause::Follower | Cause::Import, _) => Self::Unfollowed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
    /// When it began; for a request, when it was made.
    pub followed_at: Millis,
    pub ended_at: Millis,
    pub how: Ending,
    pub quiet: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    pub rows: Vec<HistoryRow>,
    pub next_cursor: Option<String>,
}

impl Graph {
    /// Newest first: theirs and services' to know, as long as `history.retention` keeps it.
    pub async fn history(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<HistoryPage> {
        call.may_change(id)?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let follower = self.context.stored_user(id).await?.key;
        let scope = CursorScope { list: List::following(follower), selection: Selection::History, viewer };
        let start = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let mut before = start.map(|Cursor(place)| place.position);
        let (mut rows, mut next) = (Vec::new(), None);
        for _ in 0..ROUNDS_MAX {
            let wanted = limit.get() - rows.len();
            let mut found = self.context.store.scan_history(follower, before, wanted + 1).await?;
            let more = found.len() > wanted;
            found.truncate(wanted);
            next = found.last().map(|ended| ended.ended).filter(|_| more);
            rows.extend(self.shown_history(follower, viewer, found).await?);
            if next.is_none() || rows.len() >= limit.get() {
                break;
            }
            before = next;
        }
        let place = |position| Cursor(Place { position, key: follower }).encode(&self.context.sealer, &scope);
        Ok(HistoryPage { rows, next_cursor: next.map(place) })
    }

    /// Without those who are erased, and without what somebody else under the same id had to do with the user.
    async fn shown_history(&self, follower: Key, viewer: Option<Key>, found: Vec<Ended>) -> Result<Vec<HistoryRow>> {
        let keys: Vec<Key> = found.iter().map(|ended| ended.target).collect();
        let users = self.context.users_by_key(&keys).await?;
        let sees_quiet = viewer.is_none_or(|viewer| viewer == follower);
        let row = |ended: Ended| {
            let user = users.get(&ended.target).filter(|user| user.created < ended.ended)?;
            (sees_quiet || !ended.quiet).then(|| HistoryRow {
                id: user.id.clone(),
                name: user.name.clone(),
                avatar_url: user.avatar_url.clone(),
                followed_at: ended.position.millis(),
                ended_at: ended.ended.millis(),
                how: Ending::of(&ended),
                quiet: ended.quiet,
            })
        };
        Ok(found.into_iter().filter_map(row).collect())
    }
}
