//! The rows of one kind and day, read off a list: no quiet ones, nobody who is muted. Blocks took their edges away.

use std::collections::HashSet;

use entourage_model::{Edge, Ended, Key, Kind, Millis, Place, Position, Result, State, User, Version};
use entourage_store::{Answer, StoreExt as _};

use super::{GROUP_LOOK_MAX, GROUP_ROWS_MAX, NotificationKind, day_start};
use crate::Notifications;

const CHUNK: usize = 200;
/// This many where rows that are not told of stand in the way.
const LARGE_CHUNK: usize = 1_000;
/// How many ends of follows are looked at to find what a pair did earlier on a day.
const CHURN_ROWS_MAX: usize = 200;
/// How many pairs of one group are looked at that closely.
const CHURN_PAIRS_MAX: usize = 100;

pub(super) struct Group {
    pub(super) kind: NotificationKind,
    /// Its first version.
    pub(super) day: Version,
    /// Never empty; newest first.
    pub(super) edges: Vec<Edge>,
    pub(super) is_exact: bool,
}

impl Group {
    pub(super) fn newest(&self) -> Version {
        self.edges.first().map_or(self.day, |edge| edge.value.position)
    }
}

impl NotificationKind {
    fn admits(self, edge: &Edge) -> bool {
        match self {
            // Whom the user has accepted they know of.
            Self::Follow => !edge.value.quiet && !edge.value.accepted,
            Self::FollowRequest => !edge.value.quiet,
            Self::RequestAccepted => edge.value.accepted,
        }
    }

    /// Whether the end of a follow shows that the user had been told of it.
    fn was_told(self, ended: &Ended) -> bool {
        let active = ended.state == State::Active;
        match self {
            Self::Follow => active && !ended.quiet && !ended.accepted,
            Self::FollowRequest => ended.state == State::Pending || ended.accepted,
            Self::RequestAccepted => active && ended.accepted,
        }
    }
}

impl Notifications {
    fn oldest_notification(&self) -> Version {
        let kept = u64::try_from(self.context.rules.notification_retention.as_millis()).unwrap_or(u64::MAX);
        Version::of_millis(Millis::from_since_2000(self.context.clock.now().since_2000().saturating_sub(kept)))
    }

    /// The newest day below a position that has something to tell.
    pub(super) async fn next_group(
        &self,
        user: &User,
        kind: NotificationKind,
        mut below: Position,
    ) -> Result<Option<Group>> {
        let (list, oldest) = (kind.list(user.key), self.oldest_notification());
        loop {
            // Below every key of that position.
            let mut after = Place { position: below, key: Key::MIN };
            let (mut day, mut edges, mut looked) = (None, Vec::new(), 0);
            let is_exact = loop {
                let chunk = if looked < GROUP_ROWS_MAX { CHUNK } else { LARGE_CHUNK };
                let page = self.context.store.scan(list, Some(after), chunk).await?;
                let Some(newest) = page.edges.first() else { break true };
                if newest.value.position < oldest {
                    break true;
                }
                let start = *day.get_or_insert(day_start(newest.value.position));
                let rows = page.edges.iter().take_while(|edge| edge.value.position >= start.max(oldest));
                let rows: Vec<Edge> = rows.copied().collect();
                let is_whole = rows.len() < page.edges.len() || !page.more;
                looked += rows.len();
                after = rows.last().map_or(after, |edge| list.place(edge));
                edges.extend(self.told(user.key, kind, rows).await?);
                if is_whole || edges.len() >= GROUP_ROWS_MAX || looked >= GROUP_LOOK_MAX {
                    break is_whole && edges.len() <= GROUP_ROWS_MAX;
                }
            };
            edges.truncate(GROUP_ROWS_MAX);
            let Some(day) = day else { return Ok(None) };
            if !edges.is_empty() {
                return Ok(Some(Group { kind, day, edges, is_exact }));
            }
            below = day;
        }
    }

    /// Those of a list's rows that are told of.
    async fn told(&self, user: Key, kind: NotificationKind, rows: Vec<Edge>) -> Result<Vec<Edge>> {
        let list = kind.list(user);
        let rows: Vec<Edge> = rows.into_iter().filter(|edge| kind.admits(edge)).collect();
        let others: Vec<Key> = rows.iter().map(|edge| list.other(edge)).collect();
        let muted = self.muted(user, &others).await?;
        Ok(rows.into_iter().filter(|edge| !muted.contains(&list.other(edge))).collect())
    }

    pub(crate) async fn is_told(&self, user: Key, kind: NotificationKind, edge: Edge) -> Result<bool> {
        Ok(!self.told(user, kind, vec![edge]).await?.is_empty())
    }

    /// Whom of these the user mutes at this moment.
    async fn muted(&self, user: Key, others: &[Key]) -> Result<HashSet<Key>> {
        let may_be = |other: &&Key| self.context.store.peek(Kind::Mute, user, **other) != Answer::No;
        let pairs: Vec<(Key, Key)> = others.iter().filter(may_be).map(|other| (user, *other)).collect();
        if pairs.is_empty() {
            return Ok(HashSet::new());
        }
        let mutes = self.context.store.get_edges(Kind::Mute, &pairs).await?;
        let now = self.context.clock.now();
        let holds = |mute: &entourage_model::EdgeValue| mute.expires.is_none_or(|end| !end.is_past(now));
        Ok(pairs
            .iter()
            .zip(mutes)
            .filter(|(_, mute)| mute.as_ref().is_some_and(holds))
            .map(|(pair, _)| pair.1)
            .collect())
    }

    /// Whether one of these rows, of one day, is new to somebody who has seen everything up to `seen`.
    pub(super) async fn has_unseen(
        &self,
        user: &User,
        kind: NotificationKind,
        edges: &[Edge],
        seen: Version,
    ) -> Result<bool> {
        let fresh = edges.iter().filter(|edge| edge.value.position > seen);
        for edge in fresh.take(CHURN_PAIRS_MAX) {
            if !self.is_churn(user.key, kind, edge, seen).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the user had seen the same of the same pair on the same day before it ended and came again. Who ends
    /// too many follows a day is not looked at to the end, and makes nothing new.
    pub(crate) async fn is_churn(&self, user: Key, kind: NotificationKind, edge: &Edge, seen: Version) -> Result<bool> {
        let day = day_start(edge.value.position);
        if seen < day {
            return Ok(false);
        }
        let follower = if kind == NotificationKind::RequestAccepted { user } else { edge.follower };
        let ended = self.context.store.scan_history(follower, None, CHURN_ROWS_MAX).await?;
        let is_cut = ended.len() == CHURN_ROWS_MAX;
        let today: Vec<Ended> = ended.into_iter().take_while(|ended| ended.ended >= day).collect();
        if is_cut && today.len() == CHURN_ROWS_MAX {
            return Ok(true);
        }
        let was_seen = |ended: &Ended| {
            // A request that was accepted is one the user has dealt with.
            let dealt_with = kind == NotificationKind::FollowRequest && ended.accepted;
            ended.position >= day && (ended.position <= seen || dealt_with)
        };
        Ok(today.iter().any(|ended| ended.target == edge.target && kind.was_told(ended) && was_seen(ended)))
    }
}
