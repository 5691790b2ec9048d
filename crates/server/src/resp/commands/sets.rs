//! Keys whose members are users: `SADD SREM SISMEMBER SMISMEMBER SCARD SMEMBERS SSCAN`.

use entourage_model::{Error, Result, Side, UserId};
use entourage_service::{BatchOperation, Limit, ListName, ScanCursor, Service, Window};

use super::{integer, or_missing, text};
use crate::resp::{
    args::Args,
    checks::{Checks, Shape},
    encode::Out,
    fail::{Done, Fail, SYNTAX},
    glob,
    key::{NoKey, Virtual, parse, user_id},
    limits::ROWS_MAX,
    session::Session,
    table::{Answering, Run, commands},
    writes::{Results, Writes},
};

commands! {
    SADD "SADD" -3 Write First Sets "following:{a} b …"
        "Follows each: how many were added to the list; a request to a private account is made, but added only when it is accepted; if one is refused an error that says how many were applied, and those stay"
        Run::Write { collect: collect_follows, alone: refuse_write };
    SCARD "SCARD" 2 Read First Sets "key"
        "How many, as far as the viewer may know; members of `mutual:` and `common_following:` are counted one by one"
        Run::Later(|session, args, out| Box::pin(session.card(args, out)));
    SISMEMBER "SISMEMBER" 3 Read First Sets "key id"
        "1 if the key has this member: `following:{a} b` and `followers:{b} a` if `a` follows `b`"
        Run::Check { collect: collect_member, alone: |session, args, out| Box::pin(session.member(args, out)) };
    SMEMBERS "SMEMBERS" 2 Read First Sets "key"
        "All of at most 10,000; of a list newest first"
        Run::Later(|session, args, out| Box::pin(session.all_members(args.get(1), out)));
    SMISMEMBER "SMISMEMBER" -3 Read First Sets "key id …"
        "As `SISMEMBER`, for at most 1,000 ids"
        Run::Check { collect: collect_members, alone: |session, args, out| Box::pin(session.members(args, out)) };
    SREM "SREM" -3 Write First Sets "following:{a} b …"
        "Unfollows each: how many were taken out of the list; a request is cancelled, but was in no list; errors as of `SADD`"
        Run::Write { collect: collect_unfollows, alone: refuse_write };
    SSCAN "SSCAN" -3 Read First Sets "key cursor [MATCH pattern] [COUNT count]"
        "A list piece by piece from cursor 0 until it is 0 again, newest first; all of one millisecond come together, or, of more than 10,000, parts of them, so that there may be more than asked for. Other sets come in one piece of at most 10,000"
        Run::Later(|session, args, out| Box::pin(session.scan(args, out)));
}

/// The default of `COUNT`.
const SCAN_COUNT: usize = 10;
/// Ids have at most 128 bytes; the cost of a match grows with both.
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
            Virtual::IsFollowing(..)
            | Virtual::FollowerCount(_)
            | Virtual::FollowingCount(_)
            | Virtual::Feed(_)
            | Virtual::Suggestions(_) => {
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

fn collect_member(checks: &mut Checks, service: &Service, args: Args<'_>) -> bool {
    collect_members_as(checks, service, args, Shape::Integer)
}

fn collect_members(checks: &mut Checks, service: &Service, args: Args<'_>) -> bool {
    collect_members_as(checks, service, args, Shape::Integers(args.len() - 2))
}

#[inline]
fn collect_members_as(checks: &mut Checks, service: &Service, args: Args<'_>, shape: Shape) -> bool {
    let (id, is_follower) = match parse(args.get(1)) {
        Ok(Virtual::Following(id)) => (id, true),
        Ok(Virtual::Followers(id)) => (id, false),
        _ => return false,
    };
    let Ok(owner) = service.graph.key_of(id) else { return false };
    checks.add(args, shape, ends_of_member, args.rest(2), |member| {
        let member = service.graph.key_of(member).ok()?;
        Some(if is_follower { (owner, member) } else { (member, owner) })
    })
}

/// Follower and target of one check.
fn ends_of_member(args: Args<'_>, index: usize) -> [&[u8]; 2] {
    match parse(args.get(1)) {
        Ok(Virtual::Following(id)) => [id, args.get(2 + index)],
        Ok(Virtual::Followers(id)) => [args.get(2 + index), id],
        _ => Default::default(),
    }
}

fn collect_follows(writes: &mut Writes, args: Args<'_>) -> bool {
    collect_each(writes, args, |follower, target| BatchOperation::Follow { follower, target, quiet: None })
}

fn collect_unfollows(writes: &mut Writes, args: Args<'_>) -> bool {
    collect_each(writes, args, |follower, target| BatchOperation::Unfollow { follower, target })
}

fn collect_each(writes: &mut Writes, args: Args<'_>, operation: impl Fn(UserId, UserId) -> BatchOperation) -> bool {
    let Ok(Virtual::Following(follower)) = parse(args.get(1)) else { return false };
    let Ok(follower) = user_id(follower) else { return false };
    let operations = args.rest(2).map(|member| Some(operation(follower.clone(), user_id(member).ok()?)));
    writes.add(say_written, operations)
}

fn say_written(results: &mut Results, count: usize, out: &mut Out) {
    let (mut changed, mut applied, mut refused) = (0, 0, None);
    for _ in 0..count {
        match results.next() {
            Ok(edge) => {
                applied += 1;
                // As in a set: a request is in no list before it is accepted.
                changed += usize::from(edge.listed);
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        None => out.count(changed),
        Some(error) => out.refusal(&with_detail(&error, &format!("{applied} of {count} applied"))),
    }
}

fn with_detail(error: &Error, more: &str) -> Error {
    let fuller = Error::new(error.code(), format!("{}; {more}", error.detail()));
    match error.retry_delay() {
        Some(delay) => fuller.retry_after(delay),
        None => fuller,
    }
}

/// The error for a write that could not be collected, which is always invalid.
fn refuse_write<'a>(_: &'a mut Session, args: Args<'a>, _: &'a mut Out) -> Answering<'a> {
    let wrong = || -> Done {
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
    };
    Box::pin(std::future::ready(wrong()))
}

impl Session {
    async fn member(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let found = self.which(args).await?;
        found.into_iter().for_each(|yes| out.flag(yes));
        Ok(())
    }

    async fn members(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let found = self.which(args).await?;
        out.array(found.len());
        out.flags(found.into_iter());
        Ok(())
    }

    /// Checks that could not be collected: invalid, or of another set than a list.
    async fn which(&self, args: Args<'_>) -> Done<Vec<bool>> {
        let of = Members::named(args.get(1))?;
        let members: Vec<UserId> = args.rest(2).map(user_id).collect::<Result<_>>()?;
        let found = or_missing(self.have(of, &members).await)?;
        Ok(if found.is_empty() { vec![false; members.len()] } else { found })
    }

    async fn have(&self, of: Members, members: &[UserId]) -> Done<Vec<bool>> {
        Ok(match of {
            Members::Blocks(owner) => self.service().graph.are_blocked(&self.call, &owner, members).await?,
            Members::Shared(lists) => self.service().graph.are_in_all(&self.call, &lists, members).await?,
            Members::List(list) => {
                let pairs: Vec<_> = members.iter().map(|member| ends(list.clone(), member.clone())).collect();
                let pairs: Vec<_> = pairs.iter().map(|(follower, target)| (follower, target)).collect();
                self.service().graph.checks(&self.call, &pairs).await?.following
            }
        })
    }

    async fn card(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let count = or_missing(self.count_of(parse(args.get(1))?, usize::MAX).await)?;
        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    /// How many members a key has; intersections are counted up to `max`.
    pub(super) async fn count_of(&self, key: Virtual<'_>, max: usize) -> Done<u64> {
        Ok(match Members::of(key)? {
            Members::List((side, id)) => self.length(side, &id).await?,
            Members::Blocks(id) => {
                self.service().graph.blocks(&self.call, &id, None, Limit::DEFAULT).await?.total.unwrap_or_default()
            }
            Members::Shared(lists) => self.service().graph.count_intersection(&self.call, &lists, max).await? as u64,
        })
    }

    pub(super) async fn length(&self, side: Side, owner: &UserId) -> Done<u64> {
        let counts = self.service().graph.get_user(&self.call, owner).await?.counts;
        Ok(if side == Side::Following { counts.following } else { counts.followers })
    }

    pub(super) async fn all_members(&mut self, key: &[u8], out: &mut Out) -> Done {
        let ids = or_missing(self.all_of(Members::named(key)?).await)?;
        out.set(ids.len());
        ids.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    /// Refused if there are too many.
    async fn all_of(&self, of: Members) -> Done<Vec<UserId>> {
        let (ids, more) = match of {
            Members::List((side, id)) => {
                let window = Window { take: ROWS_MAX, ..Window::ALL };
                let found = self.service().graph.window(&self.call, side, &id, window).await?;
                (found.rows.into_iter().map(|row| row.id).collect(), found.more)
            }
            Members::Blocks(id) => self.blocked(&id).await?,
            Members::Shared(lists) => return self.in_all(&lists).await,
        };
        if more { Err(TOO_LONG.into()) } else { Ok(ids) }
    }

    /// The members of all of these lists. Refused if there are too many.
    pub(super) async fn in_all(&self, lists: &[ListName]) -> Done<Vec<UserId>> {
        let found = self.service().graph.intersection(&self.call, lists, ROWS_MAX + 1).await?;
        if found.len() > ROWS_MAX { Err(TOO_LONG.into()) } else { Ok(found) }
    }

    async fn blocked(&self, owner: &UserId) -> Done<(Vec<UserId>, bool)> {
        let (mut ids, mut cursor): (Vec<UserId>, Option<String>) = (Vec::new(), None);
        loop {
            let page = self.service().graph.blocks(&self.call, owner, cursor.as_deref(), Limit::LARGEST).await?;
            ids.extend(page.rows.into_iter().map(|row| row.id));
            cursor = page.next_cursor;
            if cursor.is_none() || ids.len() >= ROWS_MAX {
                return Ok((ids, cursor.is_some()));
            }
        }
    }

    async fn scan(&mut self, args: Args<'_>, out: &mut Out) -> Done {
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

    /// Some members, and the next cursor. Other sets than lists come in one piece, like a small set in Redis.
    async fn piece_of(&self, of: Members, from: Option<ScanCursor>, about: usize) -> Done<(Vec<UserId>, i64)> {
        let Members::List((side, id)) = of else {
            let ids = self.all_of(of).await?;
            return Ok((if from.is_none() { ids } else { Vec::new() }, 0));
        };
        let piece = self.service().graph.scan_page(&self.call, side, &id, from, about).await?;
        let next = piece.next.map_or(0, |mark| mark.number() as i64);
        Ok((piece.rows.into_iter().map(|row| row.id).collect(), next))
    }
}
