//! Keys whose members are users: `SISMEMBER SMISMEMBER SCARD SMEMBERS SSCAN`, and what is wrong with a `SADD` that could
//! not be sent.

use entourage_model::{Result, Side, UserId};
use entourage_service::{Limit, ListName, ScanCursor, Window};

use super::{integer, or_missing, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail, SYNTAX},
    glob,
    key::{NoKey, Virtual, parse, user_id},
    limits::ROWS_MAX,
    session::Session,
    verb::Verb,
};

/// Rows of a piece, unless `COUNT` says otherwise.
const SCAN_COUNT: usize = 10;
/// Ids have at most 128; what a match costs grows with both.
const PATTERN_BYTES: usize = 512;
const SCAN_COUNT_MAX: usize = 1_000;

pub(super) const TOO_LONG: &str = "ERR there are more than 10000 members; read them with SSCAN or EG.LIST";

/// The users that a key names.
#[derive(Clone, Debug)]
pub(super) enum Members {
    List(ListName),
    /// Whom a user blocks.
    Blocks(UserId),
    /// Who is in both lists.
    Shared([ListName; 2]),
}

impl Members {
    pub(super) fn named(key: &[u8]) -> Done<Self> {
        Self::of(parse(key)?)
    }

    pub(super) fn of(key: Virtual<'_>) -> Done<Self> {
        let following = |id| Ok::<_, Fail>((Side::Following, user_id(id)?));
        let followers = |id| Ok::<_, Fail>((Side::Followers, user_id(id)?));
        Ok(match key {
            Virtual::Following(id) => Self::List(following(id)?),
            Virtual::Followers(id) => Self::List(followers(id)?),
            Virtual::Blocks(id) => Self::Blocks(user_id(id)?),
            Virtual::Mutual(id) => Self::Shared([following(id)?, followers(id)?]),
            Virtual::CommonFollowing(one, other) => Self::Shared([following(one)?, following(other)?]),
            Virtual::IsFollowing(..) | Virtual::FollowerCount(_) | Virtual::FollowingCount(_) | Virtual::Feed(_) => {
                return Err(NoKey::WrongType.into());
            }
        })
    }
}

/// The list that a key names.
pub(super) fn list(key: &[u8]) -> Done<ListName> {
    match Members::named(key)? {
        Members::List(list) => Ok(list),
        _ => Err(NoKey::WrongType.into()),
    }
}

/// Follower and target, if this member is in that list.
pub(super) fn ends((side, owner): ListName, member: UserId) -> (UserId, UserId) {
    match side {
        Side::Following => (owner, member),
        Side::Followers => (member, owner),
    }
}

impl Session {
    /// What could not be collected: it is refused, or it is no list that is asked for.
    pub(super) async fn members(&mut self, verb: Verb, args: Args<'_>, out: &mut Out) -> Done {
        let of = Members::named(args.get(1))?;
        let members: Vec<UserId> = args.rest(2).map(user_id).collect::<Result<_>>()?;
        let found = or_missing(self.have(of, &members).await)?;
        let found = if found.is_empty() { vec![false; members.len()] } else { found };
        if verb == Verb::SMIsMember {
            out.array(found.len());
        }
        found.into_iter().for_each(|yes| out.flag(yes));
        Ok(())
    }

    async fn have(&self, of: Members, members: &[UserId]) -> Done<Vec<bool>> {
        Ok(match of {
            Members::Blocks(owner) => self.service().are_blocked(&self.call, &owner, members).await?,
            Members::Shared(lists) => self.service().are_in_all(&self.call, &lists, members).await?,
            Members::List(list) => {
                let pairs: Vec<_> = members.iter().map(|member| ends(list.clone(), member.clone())).collect();
                let pairs: Vec<_> = pairs.iter().map(|(follower, target)| (follower, target)).collect();
                self.service().checks(&self.call, &pairs).await?
            }
        })
    }

    pub(super) async fn card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = or_missing(self.count_of(parse(args.get(1))?, usize::MAX).await)?;
        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    /// How many members a key has; those that have to be looked for are counted up to `max`.
    pub(super) async fn count_of(&self, key: Virtual<'_>, max: usize) -> Done<u64> {
        Ok(match Members::of(key)? {
            Members::List((side, id)) => self.length(side, &id).await?,
            Members::Blocks(id) => {
                self.service().blocks(&self.call, &id, None, Limit::DEFAULT).await?.total.unwrap_or_default()
            }
            Members::Shared(lists) => self.service().count_intersection(&self.call, &lists, max).await? as u64,
        })
    }

    pub(super) async fn length(&self, side: Side, owner: &UserId) -> Done<u64> {
        let counts = self.service().get_user(&self.call, owner).await?.counts;
        Ok(if side == Side::Following { counts.following } else { counts.followers })
    }

    pub(super) async fn all_members(&mut self, key: &[u8], out: &mut Out) -> Done {
        let ids = or_missing(self.all_of(Members::named(key)?).await)?;
        out.set(ids.len());
        ids.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    /// Refused where there are too many.
    async fn all_of(&self, of: Members) -> Done<Vec<UserId>> {
        let (ids, more) = match of {
            Members::List((side, id)) => {
                let window = Window { take: ROWS_MAX, ..Window::ALL };
                let found = self.service().window(&self.call, side, &id, window).await?;
                (found.rows.into_iter().map(|row| row.id).collect(), found.more)
            }
            Members::Blocks(id) => self.blocked(&id).await?,
            Members::Shared(lists) => return self.in_all(&lists).await,
        };
        if more { Err(TOO_LONG.into()) } else { Ok(ids) }
    }

    /// Who is in all of these lists. Refused where there are too many.
    pub(super) async fn in_all(&self, lists: &[ListName]) -> Done<Vec<UserId>> {
        let found = self.service().intersection(&self.call, lists, ROWS_MAX + 1).await?;
        if found.len() > ROWS_MAX { Err(TOO_LONG.into()) } else { Ok(found) }
    }

    async fn blocked(&self, owner: &UserId) -> Done<(Vec<UserId>, bool)> {
        let (mut ids, mut cursor): (Vec<UserId>, Option<String>) = (Vec::new(), None);
        loop {
            let page = self.service().blocks(&self.call, owner, cursor.as_deref(), Limit::LARGEST).await?;
            ids.extend(page.rows.into_iter().map(|row| row.id));
            cursor = page.next_cursor;
            if cursor.is_none() || ids.len() >= ROWS_MAX {
                return Ok((ids, cursor.is_some()));
            }
        }
    }

    pub(super) async fn scan(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let of = Members::named(args.get(1))?;
        // 0 is the beginning and the end.
        let from = match text(args.get(2)).parse().ok() {
            Some(0) => None,
            cursor => Some(cursor.and_then(ScanCursor::from_number).ok_or(Fail::from("ERR invalid cursor"))?),
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
        let (mut ids, next) = or_missing(self.piece_of(of, from, about).await)?;
        ids.retain(|id| pattern.is_none_or(|pattern| glob::matches(pattern, id.as_str().as_bytes())));
        out.array(2);
        out.bulk_number(next);
        out.array(ids.len());
        ids.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    /// Some members, and the cursor for the next ones. What is no list comes in one piece, as a small set does in Redis.
    async fn piece_of(&self, of: Members, from: Option<ScanCursor>, about: usize) -> Done<(Vec<UserId>, i64)> {
        let Members::List((side, id)) = of else {
            let ids = self.all_of(of).await?;
            return Ok((if from.is_none() { ids } else { Vec::new() }, 0));
        };
        let piece = self.service().scan_page(&self.call, side, &id, from, about).await?;
        let next = piece.next.map_or(0, |mark| mark.number() as i64);
        Ok((piece.rows.into_iter().map(|row| row.id).collect(), next))
    }

    /// A write that could not be sent with others cannot be sent at all: says why.
    pub(super) fn no_write(&self, args: Args<'_>) -> Done {
        match parse(args.get(1))? {
            Virtual::Following(id) => user_id(id)?,
            Virtual::Followers(_) => {
                return Err("ERR write the follower's side: SADD or SREM following:{a} b".into());
            }
            Virtual::Blocks(_) | Virtual::Mutual(_) | Virtual::CommonFollowing(..) => {
                return Err("ERR this set is only read: what it has follows from other writes".into());
            }
            _ => return Err(NoKey::WrongType.into()),
        };
        for member in args.rest(2) {
            user_id(member)?;
        }
        Err("ERR at most 1000 members can be written at once".into())
    }
}
