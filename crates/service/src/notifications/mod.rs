//! Notifications: what a user is told of, in groups by kind and day. They are read off the lists, so a follow that was
//! undone is not told of any more; all that is kept is how far the user has seen them.

mod group;
mod seen;
mod stream;

use std::sync::Arc;

use entourage_model::{
    Cursor, CursorScope, Key, List, Millis, Place, Plane, Position, Result, Selection, Side, User, UserId, Version,
};
use entourage_store::Whose;

use self::group::Group;
pub(crate) use self::seen::{is_seen_record, parse_id};
pub use self::{
    seen::NotificationsSeen,
    stream::{NotificationMessage, NotificationStream},
};
use crate::{Call, Context, Limit, UserRow};

/// How many actors a notification names; the newest ones.
pub const ACTORS_SHOWN: usize = 3;
/// How many rows of one day are told of in one notification; beyond them a count is not exact.
pub const GROUP_ROWS_MAX: usize = 1_000;
/// How many rows of one list are looked at for them: quiet ones, accepted ones and those of the muted are not told of.
pub const GROUP_LOOK_MAX: usize = 50_000;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotificationKind {
    /// Somebody follows the user.
    Follow,
    /// Somebody asks to.
    FollowRequest,
    /// Somebody accepted the user's request.
    RequestAccepted,
}

impl NotificationKind {
    pub const ALL: [Self; 3] = [Self::Follow, Self::FollowRequest, Self::RequestAccepted];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::FollowRequest => "follow_request",
            Self::RequestAccepted => "request_accepted",
        }
    }

    /// The list whose rows are of this kind, if they are admitted.
    const fn list(self, user: Key) -> List {
        match self {
            Self::Follow => List::followers(user).open(),
            Self::FollowRequest => List::new(user, Plane::Request, Side::Followers),
            Self::RequestAccepted => List::following(user).open(),
        }
    }

    const fn bit(self) -> i64 {
        1 << self as i64
    }
}

/// What happened to a user on one day, by one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub kind: NotificationKind,
    /// When the newest of it happened.
    pub newest: Version,
    pub actors: Vec<UserRow>,
    pub count: u64,
    /// Not when the day has more rows than are counted.
    pub count_is_exact: bool,
    pub seen: bool,
}

impl Notification {
    /// Names everything up to the newest of it; another one when more happens.
    pub fn id(&self) -> String {
        format!("{}.{}", self.newest, self.kind.as_str())
    }

    pub fn latest_at(&self) -> Millis {
        self.newest.millis()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationPage {
    pub rows: Vec<Notification>,
    /// Notifications that the user has not seen, on all pages.
    pub unseen: u64,
    pub next_cursor: Option<String>,
}

/// The first version of the day, in UTC, that this one is of.
pub(crate) fn day_start(version: Version) -> Version {
    // 2000 began at midnight.
    let millis = version.millis().since_2000();
    Version::of_millis(Millis::from_since_2000(millis - millis % DAY_MILLIS))
}

fn day_end(start: Version) -> Version {
    Version::of_millis(start.millis().plus(DAY_MILLIS))
}

/// Where each kind goes on: below these positions.
type Below = [Position; NotificationKind::ALL.len()];

/// What users are told of, as pages and as streams.
pub struct Notifications {
    context: Arc<Context>,
}

impl Notifications {
    pub(crate) const fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// Newest first. The user's own and services' to know.
    pub async fn notifications(
        &self,
        call: &Call,
        id: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<NotificationPage> {
        call.may_change(id)?;
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        let viewer = self.context.viewer(call).await?;
        let user = self.context.stored_user(id).await?;
        let scope = CursorScope { list: List::followers(user.key), selection: Selection::Notifications, viewer };
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let seen = self.seen_up_to(user.key).await?;
        let mut shown = after.map(|Cursor(place)| (place.position, place.key.0));
        let mut below: Below = NotificationKind::ALL.map(|kind| match shown {
            None => Version::MAX,
            Some((day, kinds)) if kinds & kind.bit() != 0 => day,
            Some((day, _)) => day_end(day),
        });
        let mut heads: [Option<Group>; 3] = [None, None, None];
        let mut rows = Vec::new();
        let next = loop {
            self.fill(&user, &mut heads, &mut below).await?;
            let Some(newest) = heads.iter().flatten().max_by_key(|group| group.newest()) else { break None };
            if rows.len() == limit.get() {
                break shown;
            }
            let (kind, day) = (newest.kind, newest.day);
            let kinds = shown.filter(|(shown, _)| *shown == day).map_or(0, |(_, kinds)| kinds);
            shown = Some((day, kinds | kind.bit()));
            if let Some(group) = heads[kind as usize].take() {
                rows.extend(self.notification(&user, group, seen).await?);
            }
        };
        let cursor =
            |(position, kinds)| Cursor(Place { position, key: Key(kinds) }).encode(&self.context.sealer, &scope);
        Ok(NotificationPage { rows, unseen: self.unseen(&user, seen).await?, next_cursor: next.map(cursor) })
    }

    async fn fill(&self, user: &User, heads: &mut [Option<Group>; 3], below: &mut Below) -> Result<()> {
        for ((kind, head), below) in NotificationKind::ALL.into_iter().zip(heads).zip(below) {
            // Below the first version there is nothing.
            if head.is_some() || *below == Version::ZERO {
                continue;
            }
            *head = self.next_group(user, kind, *below).await?;
            *below = head.as_ref().map_or(Version::ZERO, |group| group.day);
        }
        Ok(())
    }

    /// `None` when nobody of it is there any more.
    async fn notification(&self, user: &User, group: Group, seen: Version) -> Result<Option<Notification>> {
        let is_seen = !self.has_unseen(user, group.kind, &group.edges, seen).await?;
        // A few more than are shown: some may have been erased, and their edges are still on their way out.
        let named = &group.edges[..group.edges.len().min(4 * ACTORS_SHOWN)];
        let mut actors = self.context.rows(group.kind.list(user.key), named).await?;
        let gone = named.len() - actors.len();
        actors.truncate(ACTORS_SHOWN);
        Ok((!actors.is_empty()).then(|| Notification {
            kind: group.kind,
            newest: group.newest(),
            actors,
            count: (group.edges.len() - gone) as u64,
            count_is_exact: group.is_exact,
            seen: is_seen,
        }))
    }

    /// The group of one kind that has rows of the day of this version.
    pub(crate) async fn notification_of(
        &self,
        user: &User,
        kind: NotificationKind,
        at: Version,
        seen: Version,
    ) -> Result<Option<Notification>> {
        let day = day_start(at);
        match self.next_group(user, kind, day_end(day)).await? {
            Some(group) if group.day == day => self.notification(user, group, seen).await,
            _ => Ok(None),
        }
    }

    /// The groups of one kind that have something above a version.
    pub(crate) async fn notifications_since(
        &self,
        user: &User,
        kind: NotificationKind,
        since: Version,
        seen: Version,
    ) -> Result<Vec<Notification>> {
        let (mut found, mut below) = (Vec::new(), Version::MAX);
        while let Some(group) = self.next_group(user, kind, below).await? {
            below = group.day;
            if group.newest() <= since {
                break;
            }
            // A pair that came again is told once a day.
            if self.has_unseen(user, kind, &group.edges, since).await? {
                found.extend(self.notification(user, group, seen).await?);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_in_utc() {
        let at = |text| Version::of_millis(Millis::parse_rfc3339(text).unwrap());
        let day = at("2026-11-15T00:00:00Z");
        for text in ["2026-11-15T00:00:00.000Z", "2026-11-15T23:59:59.999Z", "2026-11-16T00:59:59+01:00"] {
            assert_eq!(day_start(at(text)), day, "{text}");
        }
        assert_eq!(day_end(day), at("2026-11-16T00:00:00Z"));
        assert_eq!(day_start(Version::ZERO), Version::ZERO);
    }
}
