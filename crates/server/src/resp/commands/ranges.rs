//! Lists by rank and by time: `ZSCORE ZREVRANGE ZREVRANGEBYSCORE ZRANGE … REV`.

use entourage_model::{Millis, Side, UserId, Version};
use entourage_service::Window;

use super::{
    integer,
    sets::{ends, list},
    text,
};
use crate::resp::{
    args::Args,
    encode::{Out, Protocol},
    fail::{Done, Fail, SYNTAX},
    key::{Virtual, parse, user_id},
    limits::ROWS_MAX,
    session::Session,
};

const TOO_FAR: &str = "ERR ranks go up to 10000, and so do replies; page through more with EG.LIST or EG.FEED";

/// What is read by rank and by time.
#[derive(Debug)]
enum Sorted {
    List(Side, UserId),
    Feed(UserId),
}

impl Sorted {
    fn named(key: &[u8]) -> Done<Self> {
        if let Virtual::Feed(id) = parse(key)? {
            return Ok(Self::Feed(user_id(id)?));
        }
        let (side, id) = list(key)?;
        Ok(Self::List(side, id))
    }
}

#[derive(Debug)]
pub(super) enum Member {
    User(UserId),
    Post(Version),
}

/// A member and its score.
pub(super) type Scored = (Member, i64);

/// What may follow key and bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    with_scores: bool,
    reversed: bool,
    by_score: bool,
    /// Offset and count.
    limit: Option<(i64, i64)>,
}

impl Options {
    fn parse(args: Args<'_>) -> Done<Self> {
        let mut options = Self::default();
        let mut at = 4;
        while at < args.len() {
            if args.is(at, "WITHSCORES") {
                options.with_scores = true;
            } else if args.is(at, "REV") {
                options.reversed = true;
            } else if args.is(at, "BYSCORE") {
                options.by_score = true;
            } else if args.is(at, "LIMIT") && at + 2 < args.len() {
                options.limit = Some((integer(args.get(at + 1))?, integer(args.get(at + 2))?));
                at += 2;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }
}

impl Session {
    pub(super) async fn score(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let since = match Sorted::named(args.get(1))? {
            Sorted::Feed(reader) => self.post_since(&reader, args.get(2)).await?,
            Sorted::List(side, owner) => {
                let (follower, target) = ends(side, owner, user_id(args.get(2))?);
                self.service().is_following(&self.call, &follower, &target).await?.since
            }
        };
        match since {
            Some(since) => out.score(since.to_unix()),
            None => out.null(),
        }
        Ok(())
    }

    pub(super) async fn by_rank(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let options = Options::parse(args)?;
        if options != (Options { with_scores: options.with_scores, ..Options::default() }) {
            return Err(SYNTAX.into());
        }
        self.ranked(args, options, out).await
    }

    pub(super) async fn by_score(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let options = Options::parse(args)?;
        if options.reversed || options.by_score {
            return Err(SYNTAX.into());
        }
        self.scored(args, options, out).await
    }

    pub(super) async fn range(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let options = Options::parse(args)?;
        if options.limit.is_some() && !options.by_score {
            return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
        }
        if !options.reversed {
            return Err("ERR lists are read newest first: ZRANGE is answered with REV only".into());
        }
        if options.by_score { self.scored(args, options, out).await } else { self.ranked(args, options, out).await }
    }

    async fn ranked(&mut self, args: Args<'_>, options: Options, out: &mut Out) -> Done {
        let sorted = Sorted::named(args.get(1))?;
        let (start, stop) = (integer(args.get(2))?, integer(args.get(3))?);
        let rows = match (usize::try_from(start), usize::try_from(stop)) {
            (Ok(start), _) if start > ROWS_MAX => return Err(TOO_FAR.into()),
            (Ok(start), Ok(stop)) => self.rows(&sorted, start, (stop + 1).saturating_sub(start)).await?,
            (Ok(start), Err(_)) if stop == -1 => self.rows(&sorted, start, usize::MAX).await?,
            // Counted from the end: where that is, only the whole list tells.
            _ => {
                let mut rows = self.rows(&sorted, 0, usize::MAX).await?;
                let from_end = |rank: i64| if rank < 0 { rows.len() as i64 + rank } else { rank };
                let (start, end) = (from_end(start).max(0) as usize, from_end(stop).saturating_add(1).max(0) as usize);
                rows.truncate(end);
                rows.drain(..start.min(rows.len()));
                rows
            }
        };
        say(&rows, options.with_scores, out);
        Ok(())
    }

    /// From this rank on, and none above the last that can be asked for.
    async fn rows(&self, sorted: &Sorted, skip: usize, take: usize) -> Done<Vec<Scored>> {
        let most = ROWS_MAX.min((ROWS_MAX + 1).saturating_sub(skip));
        self.window(sorted, Window { newest: None, oldest: None, skip, take }, most).await
    }

    async fn scored(&mut self, args: Args<'_>, options: Options, out: &mut Out) -> Done {
        let sorted = Sorted::named(args.get(1))?;
        let (max, min) = (Bound::parse(args.get(2))?, Bound::parse(args.get(3))?);
        let (skip, take) = match options.limit {
            None => (0, usize::MAX),
            Some((offset, _)) if offset < 0 => (0, 0),
            Some((offset, count)) => (offset as usize, usize::try_from(count).unwrap_or(usize::MAX)),
        };
        if skip > ROWS_MAX {
            return Err(TOO_FAR.into());
        }
        let (newest, oldest) = (max.newest(), min.oldest());
        let nothing = newest.is_some_and(|newest| newest < Millis::default().to_unix() || newest < oldest);
        let window = Window {
            newest: newest.map(Millis::from_unix),
            oldest: Some(oldest).filter(|oldest| *oldest > Millis::default().to_unix()).map(Millis::from_unix),
            skip,
            take: if nothing { 0 } else { take },
        };
        let rows = self.window(&sorted, window, ROWS_MAX).await?;
        say(&rows, options.with_scores, out);
        Ok(())
    }

    /// Refused when more than the most was asked for and is there.
    async fn window(&self, sorted: &Sorted, window: Window, most: usize) -> Done<Vec<Scored>> {
        let bounded = Window { take: window.take.min(most), ..window };
        let (rows, more) = match sorted {
            Sorted::Feed(reader) => self.feed_window(reader, bounded).await?,
            Sorted::List(side, id) => {
                let found = self.service().window(&self.call, *side, id, bounded).await?;
                let scored = found.rows.into_iter().map(|row| (Member::User(row.id), row.created_at.to_unix()));
                (scored.collect(), found.more)
            }
        };
        if more && window.take > most { Err(TOO_FAR.into()) } else { Ok(rows) }
    }
}

/// A score at an end of a range, in milliseconds.
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

    /// The greatest whole score below; `None` is no bound.
    fn newest(self) -> Option<i64> {
        let whole = self.score.floor();
        let below = if self.excluded && whole == self.score { whole - 1.0 } else { whole };
        (self.score != f64::INFINITY).then_some(below as i64)
    }

    /// The least whole score above.
    fn oldest(self) -> i64 {
        let whole = self.score.ceil();
        (if self.excluded && whole == self.score { whole + 1.0 } else { whole }) as i64
    }
}

fn say(rows: &[Scored], with_scores: bool, out: &mut Out) {
    let nested = with_scores && out.protocol == Protocol::Three;
    out.array(if with_scores && !nested { 2 * rows.len() } else { rows.len() });
    for (member, score) in rows {
        if nested {
            out.array(2);
        }
        match member {
            Member::User(id) => out.text(id.as_str()),
            Member::Post(id) => out.bulk_number(id.bits() as i64),
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
