//! Values and keys: `GET MGET EXISTS EXPIRE TTL TYPE`.

use entourage_model::Code;

use super::{integer, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail},
    key::{self, NoKey, Virtual, parse, user_id},
    session::Session,
};

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

/// Who is not there has no count.
fn known(count: Done<u64>) -> Done<Option<u64>> {
    match count {
        Ok(count) => Ok(Some(count)),
        Err(Fail::Refused(error)) if error.code() == Code::UserNotFound => Ok(None),
        Err(fail) => Err(fail),
    }
}

impl Session {
    pub(super) async fn get(&mut self, key: &[u8], out: &mut Out) -> Done {
        self.value(parse(key)?).await?.say(out);
        Ok(())
    }

    /// What is no string has no value here, as in Redis.
    pub(super) async fn get_all(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        out.array(args.len() - 1);
        for key in args.rest(1) {
            match parse(key) {
                Err(NoKey::Unknown) | Ok(Virtual::Following(_) | Virtual::Followers(_) | Virtual::Feed(_)) => {
                    out.null()
                }
                key => self.value(key?).await?.say(out),
            }
        }
        Ok(())
    }

    async fn value(&self, key: Virtual<'_>) -> Done<Value> {
        let (id, of): (_, fn(&_) -> u64) = match key {
            Virtual::IsFollowing(follower, target) => return Ok(Value::Flag(self.follows(follower, target).await?)),
            Virtual::FollowerCount(id) => (id, key::followers),
            Virtual::FollowingCount(id) => (id, key::following),
            Virtual::Following(_) | Virtual::Followers(_) | Virtual::Feed(_) => return Err(NoKey::WrongType.into()),
        };
        let count = key::count(self.service(), &self.call, id, of).await.map_err(Fail::from);
        Ok(known(count)?.map_or(Value::Nothing, Value::Count))
    }

    async fn follows(&self, follower: &[u8], target: &[u8]) -> Done<bool> {
        let (follower, target) = (user_id(follower)?, user_id(target)?);
        Ok(self.service().checks(&self.call, &[(&follower, &target)]).await?.contains(&true))
    }

    pub(super) async fn exist(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let mut count = 0;
        for key in args.rest(1) {
            let is_there = match parse(key) {
                Err(NoKey::Unknown) => false,
                Ok(key @ (Virtual::Following(_) | Virtual::Followers(_))) => {
                    known(self.count_of(key).await)?.is_some_and(|count| count > 0)
                }
                Ok(Virtual::Feed(id)) => known(self.feed_length(id, 1).await)?.is_some_and(|count| count > 0),
                key => !matches!(self.value(key?).await?, Value::Nothing | Value::Flag(false)),
            };
            count += usize::from(is_there);
        }
        out.count(count);
        Ok(())
    }

    /// Nothing here expires, so that there is no time which `XX` or `GT` could go by.
    pub(super) fn expire(args: Args<'_>, out: &mut Out) -> Done {
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
        parse(args.get(1))?;
        if integer(args.get(2))?.checked_mul(1_000).is_none() {
            return Err("ERR invalid expire time in 'expire' command".into());
        }
        out.flag(!(xx || gt));
        Ok(())
    }

    pub(super) fn time_to_live(args: Args<'_>, out: &mut Out) -> Done {
        out.integer(if parse(args.get(1)).is_ok() { -1 } else { -2 });
        Ok(())
    }

    pub(super) fn key_type(args: Args<'_>, out: &mut Out) -> Done {
        out.simple(match parse(args.get(1)) {
            Ok(Virtual::Following(_) | Virtual::Followers(_)) => "set",
            Ok(Virtual::Feed(_)) => "zset",
            Ok(_) => "string",
            Err(_) => "none",
        });
        Ok(())
    }
}
