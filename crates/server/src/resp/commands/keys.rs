//! Values and keys: `GET MGET EXISTS EXPIRE TTL TYPE`.

use entourage_model::{Code, Side};
use entourage_service::Service;

use super::{integer, or_missing, text};
use crate::resp::{
    args::Args,
    checks::{Checks, Shape},
    encode::Out,
    fail::{Done, Fail},
    key::{NoKey, Virtual, parse, user_id},
    session::Session,
    table::{Run, commands},
};

commands! {
    EXISTS "EXISTS" -2 Read All Keys "key …"
        "How many of these keys have anything: a list that is not empty, a count of a user who is there, one who follows"
        Run::Later(|session, args, out| Box::pin(session.exist(args, out)));
    EXPIRE "EXPIRE" -3 Plain First Keys "key seconds [NX|XX|GT|LT]"
        "Accepted, without effect: 1, or 0 with `XX` or `GT`, or where there is nothing. Nothing here expires"
        Run::Later(|session, args, out| Box::pin(session.expire(args, out)));
    GET "GET" 2 Read First Strings "key"
        "`is_following:{a}:{b}`, `follower_count:{u}` or `following_count:{u}`"
        Run::Check { collect: collect_value, alone: |session, args, out| Box::pin(session.get(args.get(1), out)) };
    MGET "MGET" -2 Read All Strings "key …"
        "As `GET`, for each key"
        Run::Check { collect: collect_values, alone: |session, args, out| Box::pin(session.get_all(args, out)) };
    TTL "TTL" 2 Read First Keys "key"
        "-1: nothing here expires; -2 where there is nothing"
        Run::Later(|session, args, out| Box::pin(session.time_to_live(args, out)));
    TYPE "TYPE" 2 Read First Keys "key"
        "`set`, `zset`, `list` or `string`; lists of users are `set`, and sorted sets as well; `none` where there is nothing, and for other names"
        Run::Later(|session, args, out| Box::pin(session.key_type(args, out)));
}

enum Value {
    Flag(bool),
    Count(u64),
    Nothing,
}

impl Value {
    fn say(&self, out: &mut Out) {
        match self {
            Self::Flag(yes) => out.flag_text(*yes),
            Self::Count(count) => out.bulk_number(i64::try_from(*count).unwrap_or(i64::MAX)),
            Self::Nothing => out.null(),
        }
    }
}

fn collect_value(checks: &mut Checks, service: &Service, args: Args<'_>) -> bool {
    collect_values_as(checks, service, args, Shape::Text)
}

fn collect_values(checks: &mut Checks, service: &Service, args: Args<'_>) -> bool {
    collect_values_as(checks, service, args, Shape::Texts(args.len() - 1))
}

fn collect_values_as(checks: &mut Checks, service: &Service, args: Args<'_>, shape: Shape) -> bool {
    checks.add(args, shape, ends_of_value, args.rest(1), |key| match parse(key) {
        Ok(Virtual::IsFollowing(follower, target)) => {
            Some((service.graph.key_of(follower).ok()?, service.graph.key_of(target).ok()?))
        }
        _ => None,
    })
}

/// Follower and target of one check.
fn ends_of_value(args: Args<'_>, index: usize) -> [&[u8]; 2] {
    match parse(args.get(1 + index)) {
        Ok(Virtual::IsFollowing(follower, target)) => [follower, target],
        _ => Default::default(),
    }
}

impl Session {
    async fn get(&mut self, key: &[u8], out: &mut Out) -> Done {
        self.value(parse(key)?).await?.say(out);
        Ok(())
    }

    /// Keys of other types have no value here, as in Redis.
    async fn get_all(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        out.array(args.len() - 1);
        for key in args.rest(1) {
            match parse(key) {
                Err(NoKey::Unknown) => out.null(),
                Ok(key) if !key.is_string() => out.null(),
                key => self.value(key?).await?.say(out),
            }
        }
        Ok(())
    }

    async fn value(&self, key: Virtual<'_>) -> Done<Value> {
        let (side, id) = match key {
            Virtual::IsFollowing(follower, target) => return Ok(Value::Flag(self.follows(follower, target).await?)),
            Virtual::FollowerCount(id) => (Side::Followers, id),
            Virtual::FollowingCount(id) => (Side::Following, id),
            _ => return Err(NoKey::WrongType.into()),
        };
        let count = self.length(side, &user_id(id)?).await;
        // A user who does not exist has no count.
        Ok(or_missing(count.map(Some))?.map_or(Value::Nothing, Value::Count))
    }

    async fn follows(&self, follower: &[u8], target: &[u8]) -> Done<bool> {
        let (follower, target) = (user_id(follower)?, user_id(target)?);
        Ok(self.service().graph.checks(&self.call, &[(&follower, &target)]).await?.following.contains(&true))
    }

    async fn exist(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let mut count = 0;
        for key in args.rest(1) {
            count += usize::from(match parse(key) {
                Err(NoKey::Unknown) => false,
                key => self.has(key?).await?,
            });
        }
        out.count(count);
        Ok(())
    }

    /// Whether a key exists: in Redis an empty set does not.
    async fn has(&self, key: Virtual<'_>) -> Done<bool> {
        Ok(match key {
            Virtual::Feed(id) => or_missing(self.feed_length(id, 1).await)? > 0,
            Virtual::Suggestions(id) => or_missing(self.suggested(id, 1).await).map(|ids| !ids.is_empty())?,
            key if key.is_string() => !matches!(self.value(key).await?, Value::Nothing | Value::Flag(false)),
            key => or_missing(self.count_of(key, 1).await)? > 0,
        })
    }

    /// As [`Self::has`]; hidden lists count as existing.
    async fn is_there(&self, key: Virtual<'_>) -> Done<bool> {
        match self.has(key).await {
            Err(Fail::Refused(error)) if matches!(error.code(), Code::ListsHidden | Code::Forbidden) => Ok(true),
            has => has,
        }
    }

    /// Nothing here expires, so `XX` and `GT` never apply.
    async fn expire(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let has = |option: &str| (3..args.len()).any(|at| args.is(at, option));
        let (nx, xx, gt, lt) = (has("NX"), has("XX"), has("GT"), has("LT"));
        if let Some(at) = (3..args.len()).find(|at| !["NX", "XX", "GT", "LT"].iter().any(|one| args.is(*at, one))) {
            return Err(format!("ERR Unsupported option {}", text(args.get(at))).into());
        }
        if nx && (xx || gt || lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if gt && lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let key = parse(args.get(1))?;
        if integer(args.get(2))?.checked_mul(1_000).is_none() {
            return Err("ERR invalid expire time in 'expire' command".into());
        }
        out.flag(!(xx || gt) && self.is_there(key).await?);
        Ok(())
    }

    async fn time_to_live(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        out.integer(match parse(args.get(1)) {
            Ok(key) if self.is_there(key).await? => -1,
            _ => -2,
        });
        Ok(())
    }

    async fn key_type(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let Ok(key) = parse(args.get(1)) else {
            out.simple("none");
            return Ok(());
        };
        let is_there = self.is_there(key).await?;
        out.simple(match key {
            _ if !is_there => "none",
            Virtual::Feed(_) => "zset",
            Virtual::Suggestions(_) => "list",
            key if key.is_string() => "string",
            _ => "set",
        });
        Ok(())
    }
}
