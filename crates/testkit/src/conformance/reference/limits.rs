//! How often a user may follow, as a leaky bucket and a list of moments.

use std::time::Duration;

use entourage_model::{Cause, Code, FollowLimits, Key, Millis, Operation, Write};

use super::{Expected, Reference, Told};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// Permitted clock skew: waits longer than a window plus this come from a wrong clock.
const DIFFERENCE: u64 = 5 * MINUTE;
const MILLI: u128 = 1_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    /// When the bucket is empty, in nanoseconds since 2000.
    empty: u128,
    followed: Vec<Millis>,
    /// The time of the last counted one.
    last: Millis,
}

/// How long one drop takes and how long a full bucket.
fn bucket(limits: &FollowLimits) -> Option<(u128, u128)> {
    let drop = (u128::from(HOUR) * MILLI).checked_div(limits.per_hour.into())?;
    let drops = if limits.burst == 0 { limits.per_hour } else { limits.burst };
    Some((drop, drop * u128::from(drops)))
}

impl Used {
    /// What is in the bucket now.
    fn level(&self, limits: &FollowLimits) -> u128 {
        let Some((drop, full)) = bucket(limits) else { return 0 };
        let level = self.empty.saturating_sub(u128::from(limits.now.since_2000()) * MILLI);
        let is_absurd = (level + drop).saturating_sub(full) > full + u128::from(DIFFERENCE) * MILLI;
        if is_absurd { full - drop } else { level }
    }

    fn has_room(&self, limits: &FollowLimits) -> bool {
        bucket(limits).is_none_or(|(drop, full)| self.level(limits) + drop <= full)
    }
}

/// Whether as many as the bound lie within the span, and the oldest of those does not stay for an absurd time.
fn is_full(mut times: Vec<Millis>, now: Millis, span: u64, bound: u32) -> bool {
    times.retain(|time| time.plus(span) > now);
    times.sort_unstable_by(|one, other| other.cmp(one));
    let leaves = (bound as usize).checked_sub(1).and_then(|index| times.get(index));
    leaves.is_some_and(|time| time.since_2000() <= now.since_2000() + DIFFERENCE)
}

impl Reference {
    /// Limits apply to a follow that would be new, also one that the cap forbids.
    pub(super) fn within_limits(&self, write: &Write, expected: Result<Expected, Code>) -> Result<Expected, Code> {
        let (Some(limits), &Operation::Follow { follower, target, .. }) = (write.limits, &write.operation) else {
            return expected;
        };
        match &expected {
            Ok(Expected { told: Told::Link { created: true, .. }, .. }) | Err(Code::FollowingLimit) => {}
            _ => return expected,
        }
        let used = self.used.get(&follower).cloned().unwrap_or_default();
        let past = self.past.get(&follower).into_iter().flatten();
        let ends = past.filter(|ended| ended.target == target && ended.cause != Cause::Erase);
        let ends = ends.map(|ended| ended.ended.millis()).collect();
        if is_full(ends, limits.now, 24 * HOUR, limits.flips_per_day) {
            return Err(Code::CoolingDown);
        }
        if !limits.proved && is_full(used.followed.clone(), limits.now, HOUR, limits.challenge_after) {
            return Err(Code::ChallengeRequired);
        }
        if used.has_room(&limits) { expected } else { Err(Code::RateLimited) }
    }

    pub(super) fn use_up(&mut self, write: &Write, expected: &Expected) {
        let (Some(limits), &Operation::Follow { follower, .. }) = (write.limits, &write.operation) else { return };
        let Told::Link { created: true, .. } = expected.told else { return };
        let used = self.used.entry(follower).or_default();
        if let Some((drop, _)) = bucket(&limits) {
            used.empty = u128::from(limits.now.since_2000()) * MILLI + used.level(&limits) + drop;
        }
        if limits.challenge_after > 0 {
            used.followed.retain(|time| time.plus(HOUR) > limits.now);
            let ahead = limits.now.plus(DIFFERENCE);
            used.followed.iter_mut().filter(|time| **time > ahead).for_each(|time| *time = limits.now);
            used.followed.push(limits.now);
        }
        used.last = limits.now;
    }

    /// How many follows a user has left, and until when the bucket is not empty.
    pub fn left(&self, actor: Key, limits: &FollowLimits) -> (u32, Duration) {
        let used = self.used.get(&actor).cloned().unwrap_or_default();
        let Some((drop, full)) = bucket(limits) else { return (u32::MAX, Duration::ZERO) };
        let level = used.level(limits);
        let room = full.saturating_sub(level) / drop;
        (u32::try_from(room).unwrap_or(u32::MAX), Duration::from_nanos(u64::try_from(level).unwrap_or(u64::MAX)))
    }

    /// The latest time of a limit.
    pub fn time(&self) -> Millis {
        self.used.values().map(|used| used.last).max().unwrap_or_default()
    }
}
