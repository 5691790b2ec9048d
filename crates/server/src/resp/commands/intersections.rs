//! Intersections: `SINTER SINTERCARD ZINTER ZINTERCARD`.

use entourage_model::UserId;
use entourage_service::{ListName, Shared, UserRow, Window};

use super::{
    integer, or_missing,
    ranges::{Member, say},
    sets::{Members, TOO_LONG},
    text,
};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail, SYNTAX},
    key::parse,
    limits::ROWS_MAX,
    session::Session,
    table::{Run, commands},
};

commands! {
    SINTER "SINTER" -2 Read All Sets "key …"
        "Who is in all of these lists, in any order: `following:{a} following:{b}` are those both follow, `following:{a} followers:{a}` mutuals, `followers:{a} followers:{b}` those who follow both. Up to 16 lists, of which the shortest has at most 100,000 members; `mutual:` and `common_following:` are two lists each. At most 10,000"
        Run::Later(|session, args, out| Box::pin(session.inter(args, out)));
    SINTERCARD "SINTERCARD" -3 Read Counted Sets "numkeys key … [LIMIT count]"
        "How many `SINTER` would answer with"
        Run::Later(|session, args, out| Box::pin(session.inter_card(args, out)));
    ZINTER "ZINTER" -3 Read Counted SortedSets "numkeys key … [WEIGHTS weight …] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]"
        "Who is in all of these lists, by the sum of their times; keys as of `SINTER`, of which sets count 1. At most 10,000"
        Run::Later(|session, args, out| Box::pin(session.sorted_inter(args, out)));
    ZINTERCARD "ZINTERCARD" -3 Read Counted SortedSets "numkeys key … [LIMIT count]"
        "As `SINTERCARD`"
        Run::Later(|session, args, out| Box::pin(session.sorted_inter_card(args, out)));
}

const NOT_BLOCKS: &str = "ERR block:{a} is read by itself: SMEMBERS, SISMEMBER, SSCAN";

/// What one key contributes to a score.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The time in this list.
    Time(usize),
    /// Members of sets count 1.
    One,
}

/// Keys as the lists they are made of.
#[derive(Debug, Default)]
struct Keys {
    lists: Vec<ListName>,
    parts: Vec<Part>,
}

impl Keys {
    fn named<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Done<Self> {
        let mut all = Self::default();
        for key in keys {
            let part = match Members::named(key)? {
                Members::List(list) => {
                    all.lists.push(list);
                    Part::Time(all.lists.len() - 1)
                }
                Members::Shared(lists) => {
                    all.lists.extend(lists);
                    Part::One
                }
                Members::Blocks(_) => return Err(NOT_BLOCKS.into()),
            };
            all.parts.push(part);
        }
        Ok(all)
    }
}

/// How the parts of a score are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn named(args: Args<'_>, at: usize) -> Done<Self> {
        match at {
            at if args.is(at, "SUM") => Ok(Self::Sum),
            at if args.is(at, "MIN") => Ok(Self::Min),
            at if args.is(at, "MAX") => Ok(Self::Max),
            _ => Err(SYNTAX.into()),
        }
    }

    fn of(self, scores: impl Iterator<Item = f64>) -> f64 {
        let one = |all: f64, score: f64| match self {
            Self::Sum => all + score,
            Self::Min => all.min(score),
            Self::Max => all.max(score),
        };
        // Infinities of both signs sum to NaN, which counts as 0.
        scores.reduce(one).filter(|score| !score.is_nan()).unwrap_or_default()
    }
}

/// The options of `ZINTER`.
#[derive(Debug, Default)]
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Options {
    fn parse(args: Args<'_>, count: usize) -> Done<Self> {
        let mut options = Self::default();
        let mut at = 2 + count;
        while at < args.len() {
            let left = args.len() - at - 1;
            if args.is(at, "WEIGHTS") && left >= count {
                options.weights = args.rest(at + 1).take(count).map(weight).collect::<Done<_>>()?;
                at += count;
            } else if args.is(at, "AGGREGATE") && left >= 1 {
                options.aggregate = Aggregate::named(args, at + 1)?;
                at += 1;
            } else if args.is(at, "WITHSCORES") {
                options.with_scores = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }

    fn score(&self, parts: &[Part], times: &[i64]) -> f64 {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1.0));
        let scores = parts.iter().zip(weights).map(|(part, weight)| {
            let score = match part {
                Part::Time(list) => times.get(*list).map_or(0.0, |time| *time as f64),
                Part::One => 1.0,
            };
            let weighted = weight * score;
            if weighted.is_nan() { 0.0 } else { weighted }
        });
        self.aggregate.of(scores)
    }
}

fn weight(word: &[u8]) -> Done<f64> {
    let weight: Option<f64> = text(word).parse().ok();
    weight.filter(|weight| !weight.is_nan()).ok_or(Fail::from("ERR weight value is not a float"))
}

impl Session {
    async fn inter(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        if args.len() == 2 {
            return self.all_members(args.get(1), out).await;
        }
        let keys = Keys::named(args.rest(1))?;
        let ids = or_missing(self.in_all(&keys.lists).await)?;
        out.set(ids.len());
        ids.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    async fn inter_card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let number = |at: usize| integer(args.get(at)).ok().and_then(|number| usize::try_from(number).ok());
        let count = number(1).filter(|count| *count > 0);
        let count = count.ok_or(Fail::from("ERR numkeys should be greater than 0"))?;
        if args.len() - 2 < count {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        self.count_shared(args, count, out).await
    }

    async fn sorted_inter_card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = number_of_keys(args)?;
        // Redis checks the keys before the options here.
        Keys::named(args.rest(2).take(count))?;
        self.count_shared(args, count, out).await
    }

    async fn count_shared(&self, args: Args<'_>, count: usize, out: &mut Out) -> Done {
        let mut limit = 0;
        let mut at = 2 + count;
        while at < args.len() {
            if !args.is(at, "LIMIT") || at + 1 == args.len() {
                return Err(SYNTAX.into());
            }
            let word = integer(args.get(at + 1)).ok().and_then(|number| usize::try_from(number).ok());
            limit = word.ok_or(Fail::from("ERR LIMIT can't be negative"))?;
            at += 2;
        }
        let max = if limit == 0 { usize::MAX } else { limit };
        let found = match count {
            1 => or_missing(self.count_of(parse(args.get(2))?, max).await)?,
            _ => or_missing(self.count_in_all(&Keys::named(args.rest(2).take(count))?, max).await)?,
        };
        out.count(usize::try_from(found).unwrap_or(usize::MAX).min(max));
        Ok(())
    }

    async fn count_in_all(&self, keys: &Keys, max: usize) -> Done<u64> {
        match keys.lists.as_slice() {
            [(side, id)] => self.length(*side, id).await,
            lists => Ok(self.service().graph.count_intersection(&self.call, lists, max).await? as u64),
        }
    }

    async fn sorted_inter(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = number_of_keys(args)?;
        let keys = Keys::named(args.rest(2).take(count))?;
        let options = Options::parse(args, count)?;
        let found = or_missing(self.shared(&keys).await)?;
        let scored = found.into_iter().map(|(id, times)| {
            let score = options.score(&keys.parts, &times);
            (Member::User(id), score)
        });
        let mut rows: Vec<(Member, f64)> = scored.collect();
        rows.sort_by(|(one, score), (other, other_score)| score.total_cmp(other_score).then_with(|| one.cmp(other)));
        say(&rows, options.with_scores, out);
        Ok(())
    }

    /// The members of all lists, with their time in each. Refused if there are too many.
    async fn shared(&self, keys: &Keys) -> Done<Vec<(UserId, Vec<i64>)>> {
        let (found, more): (Vec<_>, _) = match keys.lists.as_slice() {
            [(side, id)] => {
                let window = Window { take: ROWS_MAX, ..Window::ALL };
                let found = self.service().graph.window(&self.call, *side, id, window).await?;
                let timed = |row: UserRow| (row.id, vec![row.created_at.to_unix()]);
                (found.rows.into_iter().map(timed).collect(), found.more)
            }
            lists => {
                let found = self.service().graph.timed_intersection(&self.call, lists, ROWS_MAX + 1).await?;
                let more = found.len() > ROWS_MAX;
                let timed = |shared: Shared| (shared.id, shared.since.iter().map(|since| since.to_unix()).collect());
                (found.into_iter().map(timed).collect(), more)
            }
        };
        if more { Err(TOO_LONG.into()) } else { Ok(found) }
    }
}

/// The `numkeys` of commands on sorted sets.
fn number_of_keys(args: Args<'_>) -> Done<usize> {
    let count = usize::try_from(integer(args.get(1))?).unwrap_or(0);
    if count == 0 {
        let name = text(args.get(0)).to_ascii_lowercase();
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    if count > args.len() - 2 { Err(SYNTAX.into()) } else { Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_become_one() {
        let parts = [Part::Time(1), Part::One, Part::Time(0)];
        let score = |options: &Options| options.score(&parts, &[10, 200]);
        assert_eq!(score(&Options::default()), 211.0);
        assert_eq!(score(&Options { aggregate: Aggregate::Min, ..Options::default() }), 1.0);
        let weights = vec![2.0, -3.0, 0.5];
        assert_eq!(score(&Options { weights, ..Options::default() }), 402.0);
        let weights = vec![f64::INFINITY, f64::NEG_INFINITY, 1.0];
        assert_eq!(score(&Options { weights: weights.clone(), ..Options::default() }), 0.0);
        assert_eq!(score(&Options { weights, aggregate: Aggregate::Max, ..Options::default() }), f64::INFINITY);
        assert_eq!(Options { weights: vec![f64::INFINITY], ..Options::default() }.score(&[Part::Time(0)], &[0]), 0.0);
    }
}
