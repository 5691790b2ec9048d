//! `SISMEMBER SMISMEMBER SCARD SMEMBERS SSCAN SINTER SINTERCARD`, and what is wrong with a `SADD` that could not be sent.

use entourage_model::{Side, UserId};
use entourage_service::{Actor, Intersection, Mark, Window};

use super::{integer, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail, SYNTAX},
    glob,
    key::{self, NoKey, Virtual, parse, user_id},
    limits::ROWS_MAX,
    session::Session,
    verb::Verb,
};

/// Rows of a piece, unless `COUNT` says otherwise.
const SCAN_COUNT: usize = 10;
/// Ids have at most 128; what a match costs grows with both.
const PATTERN_BYTES: usize = 512;
const SCAN_COUNT_MAX: usize = 1_000;

const TOO_LONG: &str = "ERR there are more than 10000 members; read them with SSCAN or EG.LIST";
const NO_INTERSECTION: &str = "ERR there are SINTER following:{a} following:{b}, following:{a} followers:{a}, and \
                               following:{me} followers:{b} after EG.AS me";

/// The list that a key names.
pub(super) fn list(key: &[u8]) -> Done<(Side, UserId)> {
    match parse(key)? {
        Virtual::Following(id) => Ok((Side::Following, user_id(id)?)),
        Virtual::Followers(id) => Ok((Side::Followers, user_id(id)?)),
        _ => Err(NoKey::WrongType.into()),
    }
}

/// Follower and target, if this member is in that list.
pub(super) fn ends(side: Side, owner: UserId, member: UserId) -> (UserId, UserId) {
    match side {
        Side::Following => (owner, member),
        Side::Followers => (member, owner),
    }
}

impl Session {
    /// Only what could not be collected gets here, and in most cases it is refused.
    pub(super) async fn members(&mut self, verb: Verb, args: Args<'_>, out: &mut Out) -> Done {
        let (side, owner) = list(args.get(1))?;
        let members: Vec<UserId> = args.rest(2).map(user_id).collect::<entourage_model::Result<_>>()?;
        let pairs: Vec<_> = members.into_iter().map(|member| ends(side, owner.clone(), member)).collect();
        let pairs: Vec<_> = pairs.iter().map(|(follower, target)| (follower, target)).collect();
        let found = self.service().checks(&self.call, &pairs).await?;
        if verb == Verb::SMIsMember {
            out.array(found.len());
        }
        found.into_iter().for_each(|yes| out.flag(yes));
        Ok(())
    }

    pub(super) async fn card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = self.count_of(parse(args.get(1))?).await?;
        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    /// How long the list is that a key names.
    pub(super) async fn count_of(&self, key: Virtual<'_>) -> Done<u64> {
        let (id, of): (_, fn(&_) -> u64) = match key {
            Virtual::Following(id) => (id, key::following),
            Virtual::Followers(id) => (id, key::followers),
            _ => return Err(NoKey::WrongType.into()),
        };
        Ok(key::count(self.service(), &self.call, id, of).await?)
    }

    pub(super) async fn all_members(&mut self, key: &[u8], out: &mut Out) -> Done {
        let (side, id) = list(key)?;
        let window = Window { newest: None, oldest: None, skip: 0, take: ROWS_MAX };
        let found = self.service().window(&self.call, side, &id, window).await?;
        if found.more {
            return Err(TOO_LONG.into());
        }
        out.set(found.rows.len());
        found.rows.iter().for_each(|row| out.text(row.id.as_str()));
        Ok(())
    }

    pub(super) async fn scan(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let (side, id) = list(args.get(1))?;
        // 0 is the beginning and the end.
        let from = match text(args.get(2)).parse().ok() {
            Some(0) => None,
            cursor => Some(cursor.and_then(Mark::from_number).ok_or(Fail::from("ERR invalid cursor"))?),
        };
        let (mut pattern, mut about) = (None, SCAN_COUNT);
        let mut at = 3;
        while at < args.len() {
            if at + 1 == args.len() {
                return Err(SYNTAX.into());
            } else if args.is(at, "MATCH") {
                pattern = Some(args.get(at + 1));
                if args.get(at + 1).len() > PATTERN_BYTES {
                    return Err("ERR a pattern has at most 512 bytes".into());
                }
            } else if args.is(at, "COUNT") {
                let count = usize::try_from(integer(args.get(at + 1))?).unwrap_or(0);
                about = Some(count.min(SCAN_COUNT_MAX)).filter(|count| *count > 0).ok_or(Fail::from(SYNTAX))?;
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        let piece = self.service().piece(&self.call, side, &id, from, about).await?;
        let next = piece.next.map_or(0, |mark| mark.number() as i64);
        let fits = |id: &str| pattern.is_none_or(|pattern| glob::matches(pattern, id.as_bytes()));
        let ids: Vec<&str> = piece.rows.iter().map(|row| row.id.as_str()).filter(|id| fits(id)).collect();
        out.array(2);
        out.bulk_number(next);
        out.array(ids.len());
        ids.into_iter().for_each(|id| out.text(id));
        Ok(())
    }

    pub(super) async fn inter(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        if args.len() == 2 {
            return self.all_members(args.get(1), out).await;
        }
        let of = self.intersection(args.rest(1).collect())?;
        let ids = self.service().intersection(&self.call, &of, ROWS_MAX + 1).await?;
        if ids.len() > ROWS_MAX {
            return Err(TOO_LONG.into());
        }
        out.set(ids.len());
        ids.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    pub(super) async fn inter_card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let number = |at: usize| integer(args.get(at)).ok().and_then(|number| usize::try_from(number).ok());
        let count = number(1).filter(|count| *count > 0);
        let count = count.ok_or(Fail::from("ERR numkeys should be greater than 0"))?;
        if args.len() < 2 + count {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        let mut limit = 0;
        match args.len() - 2 - count {
            0 => {}
            2 if args.is(2 + count, "LIMIT") => {
                limit = number(3 + count).ok_or(Fail::from("ERR LIMIT can't be negative"))?;
            }
            _ => return Err(SYNTAX.into()),
        }
        let max = if limit == 0 { usize::MAX } else { limit };
        let found = if count == 1 {
            usize::try_from(self.count_of(parse(args.get(2))?).await?).unwrap_or(usize::MAX).min(max)
        } else {
            let of = self.intersection(args.rest(2).take(count).collect())?;
            self.service().count_intersection(&self.call, &of, max).await?
        };
        out.count(found);
        Ok(())
    }

    fn intersection(&self, keys: Vec<&[u8]>) -> Done<Intersection> {
        let lists: Vec<(Side, UserId)> = keys.into_iter().map(list).collect::<Done<_>>()?;
        let [(Side::Following, first), (side, other)] = lists.as_slice() else { return Err(NO_INTERSECTION.into()) };
        Ok(match side {
            Side::Following => Intersection::Common(first.clone(), other.clone()),
            Side::Followers if first == other => Intersection::Mutuals(first.clone()),
            Side::Followers if self.call.actor == Actor::User(first.clone()) => Intersection::Known(other.clone()),
            Side::Followers => return Err(NO_INTERSECTION.into()),
        })
    }

    /// A write that could not be sent with others cannot be sent at all: says why.
    pub(super) fn no_write(&self, args: Args<'_>) -> Done {
        match parse(args.get(1))? {
            Virtual::Following(id) => user_id(id)?,
            Virtual::Followers(_) => {
                return Err("ERR write the follower's side: SADD or SREM following:{a} b".into());
            }
            _ => return Err(NoKey::WrongType.into()),
        };
        for member in args.rest(2) {
            user_id(member)?;
        }
        Err("ERR at most 1000 members can be written at once".into())
    }
}
