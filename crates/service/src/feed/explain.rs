//! Why a post is in somebody's feed, or is not.

use std::collections::HashMap;

use entourage_model::{ExternalId, Key, Kind, Millis, Post, Result, User, UserId, Version};

use super::{Entry, post::post_not_found, read::Verdict};
use crate::{Call, Feeds};

/// The one thing that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is in the reader's inbox.
    Pushed,
    /// Its author's posts are read when the feed is.
    Pulled,
    /// It is on its way into the inbox; shown all the same.
    Queued,
    /// It is older than what the inbox reaches back to: the store has it.
    BelowFloor,
    /// The reader has no inbox, or follows too many for one: the store has it.
    NoInbox,
    /// The reader wrote it.
    Own,
    NotFollowed,
    Muted,
    Blocked,
}

impl Because {
    pub const ALL: [Self; 9] = [
        Self::Pushed,
        Self::Pulled,
        Self::Queued,
        Self::BelowFloor,
        Self::NoInbox,
        Self::Own,
        Self::NotFollowed,
        Self::Muted,
        Self::Blocked,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Pulled => "pulled",
            Self::Queued => "queued",
            Self::BelowFloor => "below_floor",
            Self::NoInbox => "no_inbox",
            Self::Own => "own",
            Self::NotFollowed => "not_followed",
            Self::Muted => "muted",
            Self::Blocked => "blocked",
        }
    }

    pub const fn is_shown(self) -> bool {
        !matches!(self, Self::NotFollowed | Self::Muted | Self::Blocked)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub post: Version,
    pub external_id: Option<ExternalId>,
    pub author: UserId,
    pub because: Because,
    /// When the last follower had it, if that was lately.
    pub pushed_at: Option<Millis>,
    /// How many deliveries come before its own, while it is queued.
    pub queued_behind: Option<u64>,
    /// The inbox is complete above it.
    pub floor: Option<Version>,
}

impl Feeds {
    /// The reader's own to know, as the feed is.
    pub async fn explain(&self, call: &Call, id: &UserId, post: Version) -> Result<Explained> {
        let reader = self.reader(call, id).await?;
        let (author, record) = self.stored_post(post).await?;
        let Post { pushed, external_id, .. } = Post::decode(&record.value)?;
        let entry = Entry { post, author: author.key };
        let queued_behind = self.feed.queue.behind(author.key, post);
        let slice = self.feed.inboxes.read(reader.key, Version::from_bits(post.bits() + 1), 1).await?;
        let floor = slice.as_ref().map(|slice| slice.floor);
        let is_inside = slice.is_some_and(|slice| slice.entries.first() == Some(&entry));
        let mut judged = HashMap::new();
        self.judge(reader.key, &[entry], &mut judged).await?;
        let because = match judged.get(&author.key) {
            Some(Verdict::Blocked) => Because::Blocked,
            Some(Verdict::Muted) => Because::Muted,
            Some(Verdict::Shown) if author.key == reader.key => Because::Own,
            // Said by its own commit, wherever it stands by now.
            Some(Verdict::Shown) if !pushed => Because::Pulled,
            Some(Verdict::Shown) if is_inside => Because::Pushed,
            Some(Verdict::Shown) if self.feed.modes.is_pulled(author.key) => Because::Pulled,
            Some(Verdict::Shown) if queued_behind.is_some() => Because::Queued,
            Some(Verdict::Shown) if floor.is_some_and(|floor| post <= floor) => Because::BelowFloor,
            // It is filled in with the next read.
            Some(Verdict::Shown) => Because::NoInbox,
            Some(Verdict::NotFollowed | Verdict::ShutOut) | None => Because::NotFollowed,
        };
        // What they may not see is not there for them.
        let viewer = self.context.viewer(call).await?.filter(|viewer| *viewer == reader.key);
        if viewer.is_some()
            && matches!(because, Because::NotFollowed | Because::Blocked)
            && self.hides_posts(&author, reader.key).await?
        {
            return Err(post_not_found());
        }
        // How far it came tells of other followers, who may be hidden.
        let is_told = viewer.is_none() || !matches!(because, Because::NotFollowed | Because::Blocked);
        let pushed_at = self.feed.queue.finished_at(post).filter(|_| is_told);
        let queued_behind = queued_behind.filter(|_| is_told);
        Ok(Explained { post, external_id, author: author.id, because, pushed_at, queued_behind, floor })
    }

    /// Whether the author keeps their posts from the reader, whatever the reader did: their own block explains only
    /// posts that they would see without it.
    async fn hides_posts(&self, author: &User, reader: Key) -> Result<bool> {
        if self.context.are_active(Kind::Block, &[(author.key, reader)]).await?.contains(&true) {
            return Ok(true);
        }
        Ok(author.private && self.context.are_let_in(&[(reader, author.key)]).await?.contains(&false))
    }
}
