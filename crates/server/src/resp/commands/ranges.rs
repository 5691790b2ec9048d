//! Lists by rank and by time: `ZCARD ZSCORE ZRANGE ZREVRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE`.

use entourage_model::{ExternalId, Millis, UserId, Version};
use entourage_service::{ListName, Order, Window};

use super::{
    integer, or_missing,
    sets::{ends, list},
    text,
};
use crate::resp::{
    args::Args,
    encode::{Out, Protocol},
    fail::{Done, Fail, SYNTAX},
    key::{NoKey, Virtual, parse, user_id},
    limits::ROWS_MAX,
    session::Session,
    table::{Run, commands},
};

commands! {
    ZCARD "ZCARD" 2 Read First SortedSets "key"
        "As `SCARD`; posts of a feed are counted one by one, up to 10,000, and that is the answer where there are more"
        Run::Later(|session, args, out| Box::pin(session.sorted_card(args, out)));
    ZRANGE "ZRANGE" -4 Read First SortedSets "key start stop [BYSCORE] [REV] [LIMIT offset count] [WITHSCORES]"
        "By rank, 0 the oldest, -1 the newest, or by time, oldest first; with `REV` newest first, and then the greater time comes first. No rank above 10,000: for what lies between there are `EG.LIST` and `EG.FEED`"
        Run::Later(|session, args, out| Box::pin(session.range(args, None, out)));
    ZRANGEBYSCORE "ZRANGEBYSCORE" -4 Read First SortedSets "key min max [WITHSCORES] [LIMIT offset count]"
        "By time in milliseconds, oldest first; `(` before a time leaves it out, `+inf` and `-inf` are the ends; at most 10,000"
        Run::Later(|session, args, out| Box::pin(session.range(args, Some((By::Score, Order::OldestFirst)), out)));
    ZREVRANGE "ZREVRANGE" -4 Read First SortedSets "key start stop [WITHSCORES]"
        "By rank, 0 the newest, -1 the oldest; ranks as of `ZRANGE`"
        Run::Later(|session, args, out| Box::pin(session.range(args, Some((By::Rank, Order::NewestFirst)), out)));
    ZREVRANGEBYSCORE "ZREVRANGEBYSCORE" -4 Read First SortedSets "key max min [WITHSCORES] [LIMIT offset count]"
        "As `ZRANGEBYSCORE`, newest first"
        Run::Later(|session, args, out| Box::pin(session.range(args, Some((By::Score, Order::NewestFirst)), out)));
    ZSCORE "ZSCORE" 3 Read First SortedSets "key id"
        "Since when, in milliseconds; no value when there is no such edge to see, or no such post in the feed"
        Run::Later(|session, args, out| Box::pin(session.score(args, out)));
}

pub(super) const TOO_FAR: &str =
    "ERR ranks go up to 10000, and so do replies; page through more with EG.LIST or EG.FEED";
const RANK_LIMIT: &str = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const NO_LEX: &str = "ERR BYLEX is not supported: members are in the order of their times";

/// Keys that are read by rank and by time.
#[derive(Debug)]
enum Sorted {
    List(ListName),
    Feed(UserId),
}

impl Sorted {
    fn named(key: &[u8]) -> Done<Self> {
        if let Virtual::Feed(id) = parse(key)? {
            return Ok(Self::Feed(user_id(id)?));
        }
        Ok(Self::List(list(key)?))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    User(UserId),
    Post(Version),
    /// A post by its external id.
    Named(ExternalId),
}

/// A member and its score.
pub(super) type Scored = (Member, f64);

/// Milliseconds are exact in a double.
pub(super) fn score_of(time: Millis) -> f64 {
    time.to_unix() as f64
}

/// What a range selects by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
}

/// The options of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    by: By,
    order: Order,
    with_scores: bool,
    /// Offset and count.
    limit: Option<(i64, i64)>,
}

impl Form {
    /// Parses what follows key and bounds; `fixed` is implied by the command's name.
    fn parse(args: Args<'_>, fixed: Option<(By, Order)>) -> Done<Self> {
        let (mut by, mut order, mut with_scores, mut limit) = (None, None, false, None);
        let is_open = fixed.is_none();
        let mut at = 4;
        while at < args.len() {
            if args.is(at, "WITHSCORES") {
                with_scores = true;
            } else if args.is(at, "LIMIT") && at + 2 < args.len() {
                limit = Some((integer(args.get(at + 1))?, integer(args.get(at + 2))?));
                at += 2;
            } else if is_open && order.is_none() && args.is(at, "REV") {
                order = Some(Order::NewestFirst);
            } else if is_open && by.is_none() && args.is(at, "BYSCORE") {
                by = Some(By::Score);
            } else if is_open && by.is_none() && args.is(at, "BYLEX") {
                return Err(NO_LEX.into());
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let said = (by.unwrap_or(By::Rank), order.unwrap_or(Order::OldestFirst));
        let (by, order) = fixed.unwrap_or(said);
        // As in Redis, a count of -1 is no limit.
        if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
            return Err(RANK_LIMIT.into());
        }
        Ok(Self { by, order, with_scores, limit })
    }
}

impl Session {
    async fn sorted_card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = match parse(args.get(1))? {
            Virtual::Feed(id) => or_missing(self.feed_length(id, ROWS_MAX).await)?,
            key @ (Virtual::Following(_) | Virtual::Followers(_)) => or_missing(self.count_of(key, usize::MAX).await)?,
            _ => return Err(NoKey::WrongType.into()),
        };
        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    async fn score(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let since = match Sorted::named(args.get(1))? {
            Sorted::Feed(reader) => or_missing(self.post_since(&reader, args.get(2)).await)?,
            Sorted::List(list) => {
                let (follower, target) = ends(list, user_id(args.get(2))?);
                self.service().graph.following_since(&self.call, &follower, &target).await?
            }
        };
        match since {
            Some(since) => out.score(score_of(since)),
            None => out.null(),
        }
        Ok(())
    }

    /// A range by rank or score; `fixed` as in [`Form::parse`].
    async fn range(&mut self, args: Args<'_>, fixed: Option<(By, Order)>, out: &mut Out) -> Done {
        let form = Form::parse(args, fixed)?;
        let rows = match form.by {
            By::Rank => {
                let ranks = (integer(args.get(2))?, integer(args.get(3))?);
                self.ranked(&Sorted::named(args.get(1))?, form.order, ranks).await
            }
            By::Score => {
                let bounds = (Bound::parse(args.get(2))?, Bound::parse(args.get(3))?);
                let (min, max) = if form.order == Order::OldestFirst { bounds } else { (bounds.1, bounds.0) };
                self.scored(&Sorted::named(args.get(1))?, form, min, max).await
            }
        };
        say(&or_missing(rows)?, form.with_scores, out);
        Ok(())
    }

    async fn ranked(&self, sorted: &Sorted, order: Order, (start, stop): (i64, i64)) -> Done<Vec<Scored>> {
        match (usize::try_from(start), usize::try_from(stop)) {
            (Ok(skip), Ok(stop)) => self.ranks(sorted, order, skip, (stop + 1).saturating_sub(skip)).await,
            (Ok(skip), Err(_)) => {
                let mut rows = self.ranks(sorted, order, skip, usize::MAX).await?;
                rows.truncate(rows.len().saturating_sub(from_end(stop)));
                Ok(rows)
            }
            // Both from the end: the first ones of the reversed list.
            (Err(_), Err(_)) => {
                let (skip, end) = (from_end(stop), from_end(start) + 1);
                let mut rows = self.ranks(sorted, order.reversed(), skip, end.saturating_sub(skip)).await?;
                rows.reverse();
                Ok(rows)
            }
            // Needs the whole list to know how far the start is from the end.
            (Err(_), Ok(stop)) => {
                let mut rows = self.ranks(sorted, order, 0, usize::MAX).await?;
                let skip = rows.len().saturating_sub(from_end(start) + 1);
                rows.truncate(stop.saturating_add(1));
                rows.drain(..skip.min(rows.len()));
                Ok(rows)
            }
        }
    }

    /// From this rank on, up to the highest rank allowed.
    async fn ranks(&self, sorted: &Sorted, order: Order, skip: usize, take: usize) -> Done<Vec<Scored>> {
        // An empty range still checks access.
        let skip = if take == 0 { 0 } else { skip };
        let most = ROWS_MAX.min((ROWS_MAX + 1).saturating_sub(skip));
        self.window(sorted, Window { order, skip, take, ..Window::ALL }, most).await
    }

    async fn scored(&self, sorted: &Sorted, form: Form, min: Bound, max: Bound) -> Done<Vec<Scored>> {
        let (skip, take) = match form.limit {
            None => (0, usize::MAX),
            Some((offset, _)) if offset < 0 => (0, 0),
            Some((offset, count)) => (offset as usize, usize::try_from(count).unwrap_or(usize::MAX)),
        };
        let (newest, oldest) = (max.newest(), min.oldest());
        let nothing = newest.is_some_and(|newest| newest < Millis::default().to_unix() || newest < oldest);
        let window = Window {
            newest: newest.map(Millis::from_unix),
            oldest: Some(oldest).filter(|oldest| *oldest > Millis::default().to_unix()).map(Millis::from_unix),
            skip,
            take: if nothing { 0 } else { take },
            order: form.order,
        };
        self.window(sorted, window, ROWS_MAX).await
    }

    /// Refused if more than `most` rows were requested and exist.
    async fn window(&self, sorted: &Sorted, window: Window, most: usize) -> Done<Vec<Scored>> {
        // Beyond the highest rank it is enough to know whether there is anything.
        let most = if window.skip > ROWS_MAX { 0 } else { most };
        let bounded = Window { skip: window.skip.min(ROWS_MAX + 1), take: window.take.min(most), ..window };
        let (rows, more) = match sorted {
            Sorted::Feed(reader) => self.feed_window(reader, bounded).await?,
            Sorted::List((side, id)) => {
                let found = self.service().graph.window(&self.call, *side, id, bounded).await?;
                let scored = found.rows.into_iter().map(|row| (Member::User(row.id), score_of(row.created_at)));
                (scored.collect(), found.more)
            }
        };
        if more && window.take > most { Err(TOO_FAR.into()) } else { Ok(rows) }
    }
}

/// How many members come after a negative rank.
fn from_end(rank: i64) -> usize {
    usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX)
}

/// A bound of a score range, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    score: f64,
    excluded: bool,
}

impl Bound {
    fn parse(bytes: &[u8]) -> Done<Self> {
        let (excluded, number) = match bytes.split_first() {
            Some((b'(', rest)) => (true, rest),
            _ => (false, bytes),
        };
        let score = text(number).parse().ok().filter(|score: &f64| !score.is_nan());
        Ok(Self { score: score.ok_or(Fail::from("ERR min or max is not a float"))?, excluded })
    }

    /// The greatest whole score within it; `None` is unbounded.
    fn newest(self) -> Option<i64> {
        let whole = self.score.floor();
        let below = if self.excluded && whole == self.score { whole - 1.0 } else { whole };
        (self.score != f64::INFINITY).then_some(below as i64)
    }

    /// The least whole score within it.
    fn oldest(self) -> i64 {
        let whole = self.score.ceil();
        (if self.excluded && whole == self.score { whole + 1.0 } else { whole }) as i64
    }
}

pub(super) fn say(rows: &[Scored], with_scores: bool, out: &mut Out) {
    let nested = with_scores && out.protocol == Protocol::Three;
    out.array(if with_scores && !nested { 2 * rows.len() } else { rows.len() });
    for (member, score) in rows {
        if nested {
            out.array(2);
        }
        match member {
            Member::User(id) => out.text(id.as_str()),
            Member::Post(id) => out.bulk_number(id.bits() as i64),
            Member::Named(id) => out.text(id.as_str()),
        }
        if with_scores {
            out.score(*score);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_whole_milliseconds() {
        let bound = |text: &str| Bound::parse(text.as_bytes()).unwrap();
        assert_eq!((bound("5").newest(), bound("5").oldest()), (Some(5), 5));
        assert_eq!((bound("(5").newest(), bound("(5").oldest()), (Some(4), 6));
        assert_eq!((bound("5.5").newest(), bound("5.5").oldest()), (Some(5), 6));
        assert_eq!((bound("(5.5").newest(), bound("(5.5").oldest()), (Some(5), 6));
        assert_eq!((bound("+inf").newest(), bound("-inf").oldest()), (None, i64::MIN));
        assert_eq!((bound("inf").oldest(), bound("-inf").newest()), (i64::MAX, Some(i64::MIN)));
        for text in ["", "x", "(", "nan", "[5"] {
            assert!(Bound::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
