//! How often: what an operator can set about it, and what each actor, target and edge has left. All of it is in memory;
//! a restart begins anew.

mod measures;
mod quota;
mod window;
mod write;

use std::{sync::Arc, time::Duration};

use entourage_model::{Cause, Change, Code, Error, Key, Kind, Outcome, Result, State, Uptime, UserId};

pub use self::quota::Standing;
pub(crate) use self::write::{Hold, Limited};
use self::{quota::Quota, window::Window};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Zero switches one off, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// New follows of one actor.
    pub follows_per_hour: u32,
    /// How many of them at once; zero is as many as an hour has.
    pub follow_burst: u32,
    /// Requests of one end user, whatever they ask for.
    pub requests_per_minute: u32,
    /// New follows of one target, whoever makes them.
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
    follows: Option<Quota<Key>>,
    targets: Option<Quota<Key>>,
    requests: Option<Quota<UserId>>,
    /// Successful follows of an actor.
    followed: Option<Window<Key>>,
    /// Edges that ended.
    flipped: Option<Window<(Key, Key)>>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, uptime: &Arc<dyn Uptime>) -> Self {
        let burst = if limits.follow_burst == 0 { limits.follows_per_hour } else { limits.follow_burst };
        let (requests, targets) = (limits.requests_per_minute, limits.follows_per_target_per_minute);
        Self {
            follows: Quota::new("follows", limits.follows_per_hour, HOUR, burst, uptime),
            targets: Quota::new("target", targets, MINUTE, targets, uptime),
            requests: Quota::new("requests", requests, MINUTE, requests, uptime),
            followed: Window::new("challenge", limits.challenge_after, HOUR, uptime),
            flipped: Window::new("flips", limits.flips_per_day, DAY, uptime),
        }
    }

    /// One request of an end user, counted whatever comes of it.
    pub(crate) fn count_request(&self, user: &UserId) -> Result<()> {
        let Some(requests) = &self.requests else { return Ok(()) };
        requests.take(user).map_err(|wait| too_fast("too many requests", wait))
    }

    pub(crate) fn request_standing(&self, user: &UserId) -> Option<Standing> {
        self.requests.as_ref().map(|requests| requests.standing(user))
    }

    pub(crate) fn follow_standing(&self, follower: Key) -> Option<Standing> {
        self.follows.as_ref().map(|follows| follows.standing(&follower))
    }

    /// Whether a new follow may be made now. What is admitted is held back until it is settled, so that requests
    /// which run at the same time together stay within the limits.
    fn admit(self: &Arc<Self>, follower: Key, target: Key, quiet: bool, has_proof: bool) -> Result<Admission> {
        if let Some(flipped) = &self.flipped
            && let Some(wait) = flipped.wait(&(follower, target))
        {
            let detail = "this follow was made and ended too often within a day";
            return Err(Error::new(Code::CoolingDown, detail).retry_after(wait));
        }
        let limiter = Arc::clone(self);
        let mut admission = Admission { limiter, follower, target, held: Held::default(), open: true };
        match admission.hold(quiet, has_proof) {
            Ok(()) => Ok(admission),
            Err(error) => {
                admission.settle(false);
                Err(error)
            }
        }
    }

    /// Every outcome of this process passes here, however it was asked for and whoever is still there to hear of it.
    /// Whatever ends a follow or a request flips its edge, but for the end of one of the two.
    pub(crate) fn saw(&self, outcome: &Outcome) {
        let Some(flipped) = &self.flipped else { return };
        for change in &outcome.changes {
            if let Change::Edge(edge) = change
                && (edge.kind, edge.after.state) == (Kind::Follow, State::Removed)
                && edge.cause != Cause::Erase
            {
                flipped.count((edge.follower, edge.target));
            }
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Held {
    followed: bool,
    follows: bool,
    targets: bool,
}

/// A follow under way. One whose end nobody saw may have happened and is counted.
pub(crate) struct Admission {
    limiter: Arc<Limiter>,
    follower: Key,
    target: Key,
    held: Held,
    open: bool,
}

impl Admission {
    /// Quiet follows do not count for their target: others would learn of them by being refused.
    fn hold(&mut self, quiet: bool, has_proof: bool) -> Result<()> {
        let Limiter { followed, follows, targets, .. } = &*self.limiter;
        if let Some(followed) = followed {
            if !followed.hold(&self.follower, has_proof) {
                return Err(challenge_required());
            }
            self.held.followed = true;
        }
        if let Some(follows) = follows {
            follows.hold(&self.follower).map_err(|wait| too_fast("this user follows too fast", wait))?;
            self.held.follows = true;
        }
        if let Some(targets) = targets.as_ref().filter(|_| !quiet) {
            targets.hold(&self.target).map_err(|wait| too_fast("this user is being followed too fast", wait))?;
            self.held.targets = true;
        }
        Ok(())
    }

    /// Only what made a new edge counts.
    fn settle(mut self, counts: bool) {
        self.close(counts);
    }

    fn close(&mut self, counts: bool) {
        self.open = false;
        if let Some(followed) = self.limiter.followed.as_ref().filter(|_| self.held.followed) {
            followed.settle(&self.follower, counts);
        }
        if let Some(follows) = self.limiter.follows.as_ref().filter(|_| self.held.follows) {
            follows.settle(&self.follower, counts);
        }
        if let Some(targets) = self.limiter.targets.as_ref().filter(|_| self.held.targets) {
            targets.settle(&self.target, counts);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.open {
            self.close(true);
        }
    }
}

fn too_fast(what: &'static str, wait: Duration) -> Error {
    Error::new(Code::RateLimited, what).retry_after(wait)
}

fn challenge_required() -> Error {
    let detail = "after so many follows in an hour the header Entourage-Challenge must prove a solved challenge";
    Error::new(Code::ChallengeRequired, detail)
}
