//! The stream of one user's notifications as they happen. The caller decides when the next one is read.

use entourage_model::{Edge, Key, Kind, Result, State, User, UserId, Version};
use entourage_store::Whose;

use super::{Notification, NotificationKind, Notifications, day_start, parse_id};
use crate::{
    Call,
    events::{Hint, Hints, Listening, StreamHub},
};

/// What a stream of notifications says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotificationMessage {
    /// How many notifications have not been seen: said first, and when the user marks some as seen.
    Unseen(u64),
    /// Something new; its group as it is now.
    New(Box<Notification>),
}

#[derive(Debug)]
pub struct NotificationStream {
    user: UserId,
    created: Version,
    listening: Listening,
    /// What is being looked at: kept here, because a caller may stop waiting and ask again.
    hints: Option<Hints>,
    ready: Vec<NotificationMessage>,
    /// Everything up to here was told.
    told: Version,
}

impl Notifications {
    /// What is told to a user from now on, or since the notification that was told last.
    pub async fn notification_stream(
        &self,
        call: &Call,
        id: &UserId,
        last: Option<&str>,
    ) -> Result<NotificationStream> {
        call.may_change(id)?;
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        let last = last.map(parse_id).transpose()?;
        let user = self.context.stored_user(id).await?;
        let listening = StreamHub::listen(&self.context.hub, Some(user.key)).await;
        let seen = self.seen_up_to(user.key).await?;
        let mut ready = match last {
            Some(last) => self.told_since(&user, last, seen).await?,
            None => Vec::new(),
        };
        ready.push(NotificationMessage::Unseen(self.unseen(&user, seen).await?));
        // The first of them is said first.
        ready.reverse();
        let told = last.unwrap_or_else(|| Version::of_millis(self.context.clock.now()));
        Ok(NotificationStream { user: id.clone(), created: user.created, listening, hints: None, ready, told })
    }

    /// Waits for the next thing to tell; `None` when the server stops or the user is gone.
    pub async fn next_notification(&self, stream: &mut NotificationStream) -> Result<Option<NotificationMessage>> {
        loop {
            if let Some(told) = stream.ready.pop() {
                if let NotificationMessage::New(notification) = &told {
                    stream.told = stream.told.max(notification.newest);
                }
                return Ok(Some(told));
            }
            let closed = stream.listening.closed.clone();
            if *closed.borrow() {
                return Ok(None);
            }
            let Some(inbox) = stream.listening.inbox() else { return Ok(None) };
            let hints = match &stream.hints {
                Some(hints) => hints,
                None => {
                    let mut closing = closed;
                    tokio::select! {
                        () = inbox.filled() => {}
                        _ = closing.wait_for(|closed| *closed) => return Ok(None),
                    }
                    stream.hints.insert(inbox.take())
                }
            };
            // Who followed may not be in the list of followers yet.
            if !self.context.are_settled(&[self.context.keys.key(&stream.user)]).await? {
                continue;
            }
            let user = self.context.find_user(&stream.user).await?.filter(|user| user.created == stream.created);
            let Some(user) = user else { return Ok(None) };
            stream.ready = self.worth_telling(&user, hints, stream.told).await?;
            stream.ready.reverse();
            stream.hints = None;
        }
    }

    async fn worth_telling(&self, user: &User, hints: &Hints, told: Version) -> Result<Vec<NotificationMessage>> {
        let seen = self.seen_up_to(user.key).await?;
        let mut ready = Vec::new();
        if hints.too_many {
            ready = self.told_since(user, told, seen).await?;
        } else {
            let mut groups: Vec<(NotificationKind, Version)> = Vec::new();
            for hint in &hints.hints {
                let group = (hint.kind, day_start(hint.version));
                if !groups.contains(&group) && self.is_news(user.key, hint).await? {
                    groups.push(group);
                    let found = self.notification_of(user, hint.kind, hint.version, seen).await?;
                    ready.extend(found.map(|found| NotificationMessage::New(Box::new(found))));
                }
            }
        }
        if hints.seen_changed || !ready.is_empty() {
            ready.push(NotificationMessage::Unseen(self.unseen(user, seen).await?));
        }
        Ok(ready)
    }

    /// Whether the edge still stands, is told of at all, and is the pair's first of the day.
    async fn is_news(&self, user: Key, hint: &Hint) -> Result<bool> {
        let (follower, target) = match hint.kind {
            NotificationKind::RequestAccepted => (user, hint.actor),
            NotificationKind::Follow | NotificationKind::FollowRequest => (hint.actor, user),
        };
        let state = if hint.kind == NotificationKind::FollowRequest { State::Pending } else { State::Active };
        let value =
            self.context.store.get_edges(Kind::Follow, &[(follower, target)]).await?.into_iter().flatten().next();
        let Some(value) = value.filter(|value| value.state == state) else { return Ok(false) };
        let edge = Edge { kind: Kind::Follow, follower, target, value };
        Ok(self.is_told(user, hint.kind, edge).await? && !self.is_churn(user, hint.kind, &edge, Version::MAX).await?)
    }

    /// Every group that has grown since, oldest first.
    async fn told_since(&self, user: &User, since: Version, seen: Version) -> Result<Vec<NotificationMessage>> {
        let mut found = Vec::new();
        for kind in NotificationKind::ALL {
            found.extend(self.notifications_since(user, kind, since, seen).await?);
        }
        found.sort_by_key(|notification| notification.newest);
        Ok(found.into_iter().map(|notification| NotificationMessage::New(Box::new(notification))).collect())
    }
}
