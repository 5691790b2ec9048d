//! How often: what an operator can set about it. New follows of an actor, challenges and flips of an edge are decided in
//! the commit and are the store's; requests and new follows of a target are counted here, for this process alone, and
//! begin anew with it.

mod metrics;
mod quota;
mod quota_cache;
mod targets;
mod time;
mod write;

use std::{sync::Arc, time::Duration};

use entourage_model::{
    Change, Clock, Code, Error, FollowLimits, FollowsLeft, Key, Outcome, Result, Uptime, UserChange, UserId,
};
use entourage_store::Store;

pub use self::quota::QuotaStatus;
pub(crate) use self::write::{Hold, Limited};
use self::{metrics::Refusals, quota::Quota, quota_cache::QuotaCache, targets::Targets, time::Time};

const MINUTE: Duration = Duration::from_secs(60);

/// Zero switches one off, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// New follows of one actor.
    pub follows_per_hour: u32,
    /// How many of them at once; zero is as many as an hour has.
    pub follow_burst: u32,
    /// Requests of one end user, whatever they ask for.
    pub requests_per_minute: u32,
    /// New follows of one target, by anybody.
    pub follows_per_target_per_minute: u32,
    /// New follows of one actor in an hour after which more need a solved challenge.
    pub challenge_after: u32,
    /// How often an edge may end before it is followed once more.
    pub flips_per_day: u32,
}

impl Limits {
    /// The greatest value of any of them.
    pub const MAX: u32 = 1_000_000;

    pub const NONE: Self = Self {
        follows_per_hour: 0,
        follow_burst: 0,
        requests_per_minute: 0,
        follows_per_target_per_minute: 0,
        challenge_after: 0,
        flips_per_day: 0,
    };
}

impl Default for Limits {
    /// Without challenges: they need a key.
    fn default() -> Self {
        Self { follows_per_hour: 200, follow_burst: 100, requests_per_minute: 600, flips_per_day: 3, ..Self::NONE }
    }
}

pub(crate) struct Limiter {
    limits: Limits,
    time: Time,
    cache: QuotaCache,
    targets: Targets,
    requests: Option<Quota<UserId>>,
    refusals: Refusals,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, clock: &Arc<dyn Clock>, uptime: &Arc<dyn Uptime>) -> Self {
        let (requests, targets) = (limits.requests_per_minute, limits.follows_per_target_per_minute);
        metrics::say_what_is_shared();
        Self {
            limits,
            time: Time::new(clock, uptime),
            cache: QuotaCache::new(uptime),
            targets: Targets::new(targets, uptime),
            requests: Quota::new("requests", requests, MINUTE, requests, uptime),
            refusals: Refusals::default(),
        }
    }

    /// One request of an end user, counted whatever comes of it.
    pub(crate) fn count_request(&self, user: &UserId) -> Result<()> {
        let Some(requests) = &self.requests else { return Ok(()) };
        requests.take(user).map_err(|wait| too_fast("too many requests", wait))
    }

    pub(crate) fn request_quota(&self, user: &UserId) -> Option<QuotaStatus> {
        self.requests.as_ref().map(|requests| requests.status(user))
    }

    /// By what the store has of the follower; `None` where there is no limit, or nobody knows.
    pub(crate) async fn follow_quota(&self, store: &dyn Store, follower: Key) -> Option<QuotaStatus> {
        let limits = self.follow_limits(false).filter(|limits| limits.per_hour > 0)?;
        let quota = self.cache.quota(store, follower).await?;
        let FollowsLeft { limit, window, remaining, reset } = quota.left(&limits)?;
        Some(QuotaStatus { name: "follows", limit, window, remaining, reset })
    }

    /// What a commit is told of the limits; `None` when there are none.
    fn follow_limits(&self, proved: bool) -> Option<FollowLimits> {
        let Limits { follows_per_hour, follow_burst, challenge_after, flips_per_day, .. } = self.limits;
        if follows_per_hour == 0 && challenge_after == 0 && flips_per_day == 0 {
            return None;
        }
        let [per_hour, burst, challenge_after, flips_per_day] =
            [follows_per_hour, follow_burst, challenge_after, flips_per_day].map(|limit| limit.min(Limits::MAX));
        Some(FollowLimits { now: self.time.now(), per_hour, burst, challenge_after, proved, flips_per_day })
    }

    /// New follows of this target a minute in place of everybody's quota; zero is no limit, `None` is that of everybody.
    pub(crate) fn set_target_quota(&self, target: Key, per_minute: Option<u32>) {
        self.targets.set(target, per_minute);
    }

    /// Called with every outcome of this process, also when its caller is gone.
    pub(crate) fn saw(&self, outcome: &Outcome) {
        self.cache.saw(outcome);
        for change in &outcome.changes {
            // Whoever is created under this id later is another person.
            if let Change::User(UserChange { key, after: None, .. }) = change {
                self.targets.set(*key, None);
            }
        }
    }
}

fn too_fast(what: &'static str, wait: Duration) -> Error {
    Error::new(Code::RateLimited, what).retry_after(wait)
}
