//! Parts of a feed by rank or by time. Only ids are kept of what is passed on the way, so that a long feed costs no more
//! memory than a short one.

use std::time::Instant;

use entourage_model::{Code, ExternalId, Millis, Result, UserId, Version};

use super::read::{Circle, PAGE_TIMEOUT};
use crate::{Call, Feeds, Window};

/// How many posts are looked up at once.
const AT_ONCE: usize = 200;

/// A post by its names alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPost {
    pub id: Version,
    pub external_id: Option<ExternalId>,
}

/// What was found in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedWindowed {
    /// Newest first.
    pub posts: Vec<FeedPost>,
    /// The window has more posts than were to be taken.
    pub more: bool,
    /// Not everybody's posts could be looked at in time; asking again goes further.
    pub is_partial: bool,
}

impl Feeds {
    /// Posts of a feed as [`Feeds::feed`] has them, to whom it has them.
    pub async fn feed_window(&self, call: &Call, id: &UserId, window: Window) -> Result<FeedWindowed> {
        let reader = self.reader(call, id).await?;
        let below = window.newest.map_or(Version::MAX, |newest| Version::of_millis(newest.plus(1)));
        let mut walk = self.walk(reader.key, &Circle::Everybody, below, Instant::now() + PAGE_TIMEOUT).await?;
        let (mut skip, mut posts, mut more) = (window.skip, Vec::new(), false);
        'reading: loop {
            // One more than is taken tells whether there is more.
            let wanted = (window.take - posts.len()).saturating_add(skip).saturating_add(1).min(AT_ONCE);
            let rows = self.walk_rows(&mut walk, wanted).await?;
            let is_end = rows.len() < wanted;
            for row in rows {
                if window.oldest.is_some_and(|oldest| row.post.created_at() < oldest) {
                    break 'reading;
                }
                if skip > 0 {
                    skip -= 1;
                } else if posts.len() < window.take {
                    posts.push(FeedPost { id: row.post.id, external_id: row.post.external_id });
                } else {
                    more = true;
                    break 'reading;
                }
            }
            if is_end {
                break;
            }
        }
        Ok(FeedWindowed { posts, more, is_partial: walk.is_partial() })
    }

    /// When the post with this external id was written, if the feed has it; of several authors' posts the newest.
    pub async fn feed_post_named(&self, call: &Call, id: &UserId, name: &ExternalId) -> Result<Option<Millis>> {
        let reader = self.reader(call, id).await?;
        let mut authors = Vec::new();
        self.followed(reader.key, &mut authors).await?;
        authors.push(reader.key);
        let mut posts = Vec::new();
        for authors in authors.chunks(AT_ONCE) {
            let found = self.records_named(authors, name).await?;
            posts.extend(found.into_iter().filter_map(|(_, record)| record.id.version()));
        }
        posts.sort_unstable_by(|a, b| b.cmp(a));
        for post in posts {
            match self.explain(call, id, post).await {
                Ok(found) if found.because.is_shown() => return Ok(Some(post.millis())),
                Err(error) if error.code() != Code::PostNotFound => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}
