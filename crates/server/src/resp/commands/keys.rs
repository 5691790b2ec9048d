//! Values and keys: `GET MGET EXISTS EXPIRE TTL TYPE`.

use entourage_model::{Code, Side};

use super::{integer, or_missing, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail},
    key::{NoKey, Virtual, parse, user_id},
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
        // Who is not there has no count.
        Ok(or_missing(count.map(Some))?.map_or(Value::Nothing, Value::Count))
    }

    async fn follows(&self, follower: &[u8], target: &[u8]) -> Done<bool> {
        let (follower, target) = (user_id(follower)?, user_id(target)?);
        Ok(self.service().checks(&self.call, &[(&follower, &target)]).await?.contains(&true))
    }

    pub(super) async fn exist(&mut self, args: Args<'_>, out: &mut Out) -> Done {
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

    /// Whether a key has anything: nothing is empty in Redis.
    async fn has(&self, key: Virtual<'_>) -> Done<bool> {
        Ok(match key {
            Virtual::Feed(id) => or_missing(self.feed_length(id, 1).await)? > 0,
            key if key.is_string() => !matches!(self.value(key).await?, Value::Nothing | Value::Flag(false)),
            key => or_missing(self.count_of(key, 1).await)? > 0,
        })
    }

    /// As [`Self::has`]; what may not be looked at is taken for something.
    async fn is_there(&self, key: Virtual<'_>) -> Done<bool> {
        match self.has(key).await {
            Err(Fail::Refused(error)) if matches!(error.code(), Code::ListsHidden | Code::Forbidden) => Ok(true),
            has => has,
        }
    }

    /// Nothing here expires, so that there is no time which `XX` or `GT` could go by.
    pub(super) async fn expire(&mut self, args: Args<'_>, out: &mut Out) -> Done {
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

    pub(super) async fn time_to_live(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        out.integer(match parse(args.get(1)) {
            Ok(key) if self.is_there(key).await? => -1,
            _ => -2,
        });
        Ok(())
    }

    pub(super) async fn key_type(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let Ok(key) = parse(args.get(1)) else {
            out.simple("none");
            return Ok(());
        };
        let is_there = self.is_there(key).await?;
        out.simple(match key {
            _ if !is_there => "none",
            Virtual::Feed(_) => "zset",
            key if key.is_string() => "string",
            _ => "set",
        });
        Ok(())
    }
}
