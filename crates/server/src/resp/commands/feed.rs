//! `EG.FEED`, and the key `feed:{u}` for commands on sorted sets.

use entourage_model::{Code, Error, ExternalId, Millis, UserId, Version};
use entourage_service::{FeedPost, Limit, Order, Window};

use super::{
    page,
    ranges::{Member, Scored, TOO_FAR, score_of},
    text,
};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail},
    key::user_id,
    limits::{FeedMember, ROWS_MAX},
    session::Session,
    table::{Run, commands},
};

commands! {
    FEED "EG.FEED" -2 Read None Own "user [CURSOR cursor] [LIMIT count]"
        "A page of a user's feed, newest first: the next cursor, or no value at the end; posts, each an array of id, author, time in milliseconds, body and external id or no value; 1 if not everybody's posts could be looked at in time. At most 200, 20 if not said"
        Run::Later(|session, args, out| Box::pin(session.feed(args, out)));
}

impl Session {
    async fn feed(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let reader = user_id(args.get(1))?;
        let (cursor, limit) = page(args, 2)?;
        let limit = Limit::parse_or(limit, Limit::OF_FEED)?;
        let found = self.service().feeds.feed(&self.call, &reader, cursor, limit).await?;
        out.array(3);
        match &found.next_cursor {
            Some(cursor) => out.text(cursor),
            None => out.null(),
        }
        out.array(found.rows.len());
        for row in &found.rows {
            out.array(5);
            out.bulk_number(row.post.id.bits() as i64);
            out.text(row.post.author.as_str());
            out.integer(row.post.created_at().to_unix());
            out.text(&row.post.body);
            match &row.post.external_id {
                Some(id) => out.text(id.as_str()),
                None => out.null(),
            }
        }
        out.flag(found.is_partial);
        Ok(())
    }

    /// How many posts a feed has, counted up to `max`.
    pub(super) async fn feed_length(&self, id: &[u8], max: usize) -> Done<u64> {
        let window = Window { take: max, ..Window::ALL };
        let (posts, _) = self.feed_window(&user_id(id)?, window).await?;
        Ok(posts.len() as u64)
    }

    /// Posts with their scores, and whether there are more. A partial feed is refused: its ranks would be wrong.
    pub(super) async fn feed_window(&self, reader: &UserId, window: Window) -> Done<(Vec<Scored>, bool)> {
        if window.order == Order::NewestFirst {
            return self.newest_posts(reader, window).await;
        }
        // Feeds are read newest first, so the oldest posts are known only after reading all.
        let all = Window { order: Order::NewestFirst, skip: 0, take: ROWS_MAX, ..window };
        let (mut posts, more) = self.newest_posts(reader, all).await?;
        if more && window.take > 0 {
            return Err(TOO_FAR.into());
        }
        posts.reverse();
        posts.drain(..window.skip.min(posts.len()));
        let more = posts.len() > window.take;
        posts.truncate(window.take);
        Ok((posts, more))
    }

    async fn newest_posts(&self, reader: &UserId, window: Window) -> Done<(Vec<Scored>, bool)> {
        let found = self.service().feeds.feed_window(&self.call, reader, window).await?;
        if found.is_partial {
            let detail = "not everybody's posts could be looked at in time; EG.FEED answers with what could";
            return Err(Error::new(Code::Overloaded, detail).into());
        }
        let scored = found.posts.into_iter().map(|post| (self.post_member(&post), score_of(post.id.millis())));
        Ok((scored.collect(), found.more))
    }

    fn post_member(&self, post: &FeedPost) -> Member {
        match &post.external_id {
            Some(id) if self.names_posts_externally() => Member::Named(id.clone()),
            _ => Member::Post(post.id),
        }
    }

    fn names_posts_externally(&self) -> bool {
        self.shared.front.resp.feed_member == FeedMember::ExternalId
    }

    /// When a post was written, if the feed has it.
    pub(super) async fn post_since(&self, reader: &UserId, post: &[u8]) -> Done<Option<Millis>> {
        let is_external = self.names_posts_externally();
        if let Some(name) = ExternalId::new(text(post)).ok().filter(|_| is_external) {
            let found = self.service().feeds.feed_post_named(&self.call, reader, &name).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        // An invalid post id is no member, but access is checked first.
        let id = text(post).parse().map_or(Version::ZERO, Version::from_bits);
        let post = if id.to_string().as_bytes() == post { id } else { Version::ZERO };
        match self.service().feeds.explain(&self.call, reader, post).await {
            // A post with an external id is named by it alone.
            Ok(found) if is_external && found.external_id.is_some() => Ok(None),
            Ok(found) => Ok(found.because.is_shown().then(|| found.post.millis())),
            Err(error) if error.code() == Code::PostNotFound => Ok(None),
            Err(error) => Err(Fail::from(error)),
        }
    }
}
