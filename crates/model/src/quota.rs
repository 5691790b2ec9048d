//! How often an actor may follow: the limits of a write, and the state of an actor that every commit decides on. Times
//! are passed in; the state of an actor has a bounded size, whatever the limits are.

use std::{ops::Deref, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Key, Millis};

const HOUR_MILLIS: u64 = 60 * 60 * 1_000;
const DAY_MILLIS: u64 = 24 * HOUR_MILLIS;
const NANOS_A_MILLI: u64 = 1_000_000;
/// How far the clocks of two servers may be apart. A wait that is longer than a window by more than this comes from a
/// clock that was set back, or from limits that were lowered.
const SKEW_MILLIS: u64 = 5 * 60 * 1_000;
/// How far versions may be ahead of the caller's time, after a clock was set: ends of edges, which have the times of
/// versions, are measured from there. Anything further ahead comes from a wrong clock, and is not trusted.
const SET_MILLIS: u64 = 2 * HOUR_MILLIS;
/// Up to this many moments are kept exactly; beyond that, neighbours are merged.
const MOMENTS_MAX: usize = 64;

/// The limits of new follows, decided in the commit. Zero switches each off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowLimits {
    /// The caller's time. As far as clocks agree, the same on every server and after a restart.
    pub now: Millis,
    /// New follows of the follower.
    pub per_hour: u32,
    /// The burst; zero is a whole hour's worth.
    pub burst: u32,
    /// New follows in an hour after which more need a solved challenge.
    pub challenge_after: u32,
    /// The challenge was solved. The follow still counts.
    pub proved: bool,
    /// How often the edge may end in a day before it can be followed again.
    pub flips_per_day: u32,
}

impl FollowLimits {
    pub const fn none(now: Millis) -> Self {
        Self { now, per_hour: 0, burst: 0, challenge_after: 0, proved: false, flips_per_day: 0 }
    }

    /// The least time between two follows and the time that a whole burst takes, in nanoseconds; `None` is no limit.
    fn rate(&self) -> Option<(u64, u64)> {
        let period = (HOUR_MILLIS * NANOS_A_MILLI).checked_div(self.per_hour.into()).filter(|period| *period > 0)?;
        Some((period, period.saturating_mul(self.allowed_at_once().into())))
    }

    const fn allowed_at_once(&self) -> u32 {
        if self.burst == 0 { self.per_hour } else { self.burst }
    }

    const fn now_nanos(&self) -> u64 {
        self.now.since_2000().saturating_mul(NANOS_A_MILLI)
    }
}

/// What an actor has left of new follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowsLeft {
    /// What can be used at once after `window` without use.
    pub limit: u32,
    pub window: Duration,
    pub remaining: u32,
    /// Until all of `limit` is available again.
    pub reset: Duration,
}

/// The quota state of an actor's new follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// GCRA's theoretical arrival time, in nanoseconds since 2000: the quota is full from then on.
    arrival: u64,
    /// New follows within the last hour, while challenges are enabled.
    followed: Moments,
}

/// The quota of an actor as a commit left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaChange {
    pub actor: Key,
    pub after: Quota,
}

impl Quota {
    /// `None` when there is no limit.
    pub fn left(&self, limits: &FollowLimits) -> Option<FollowsLeft> {
        let (period, window) = limits.rate()?;
        let now = limits.now_nanos();
        let used = self.used(now, period, window) - now;
        let remaining = window.saturating_sub(used) / period;
        Some(FollowsLeft {
            limit: limits.allowed_at_once(),
            window: Duration::from_nanos(window),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            reset: Duration::from_nanos(used),
        })
    }

    /// The quota after one more follow, or how long to wait for it.
    pub fn take(&self, limits: &FollowLimits) -> Result<Self, Duration> {
        let mut after = self.clone();
        if let Some((period, window)) = limits.rate() {
            let now = limits.now_nanos();
            let arrival = self.used(now, period, window).saturating_add(period);
            if let Some(wait) = (arrival - now).checked_sub(window).filter(|wait| *wait > 0) {
                return Err(Duration::from_nanos(wait));
            }
            after.arrival = arrival;
        }
        if limits.challenge_after > 0 {
            after.followed.push(limits.now, HOUR_MILLIS);
        }
        Ok(after)
    }

    pub(crate) fn needs_challenge(&self, limits: &FollowLimits) -> bool {
        let wait = || self.followed.wait(limits.now, HOUR_MILLIS, limits.challenge_after);
        limits.challenge_after > 0 && !limits.proved && wait().is_some()
    }

    /// The arrival time as seen from `now`, never before it. A wait beyond the window is none: then one more is left,
    /// and taking it corrects the quota, so that a clock that was set back locks nobody out and refills nothing.
    fn used(&self, now: u64, period: u64, window: u64) -> u64 {
        let used = self.arrival.max(now);
        let wait = (used - now).saturating_add(period).saturating_sub(window);
        let longest = window.saturating_add(SKEW_MILLIS * NANOS_A_MILLI);
        if wait > longest { now.saturating_add(window.saturating_sub(period)) } else { used }
    }

    /// Whether it carries no information any more: the quota is full.
    pub fn is_idle(&self, now: Millis) -> bool {
        self.arrival <= now.since_2000().saturating_mul(NANOS_A_MILLI) && self.followed.is_past(now, HOUR_MILLIS)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12);
        put_varint(&mut bytes, self.arrival);
        bytes.extend(self.followed.to_bytes());
        bytes
    }

    /// `None`: these are not the bytes of a quota.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let arrival = take_varint(&mut bytes)?;
        Some(Self { arrival, followed: Moments::from_bytes(bytes)? })
    }
}

/// When something happened, oldest first, as far back as its window needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments(Vec<(Millis, u32)>);

impl Moments {
    /// The ends of an edge within a day, each at its version's time, in their order.
    pub fn of_ends(ends: impl IntoIterator<Item = Millis>) -> Self {
        let mut moments = Self::default();
        ends.into_iter().for_each(|end| moments.push_end(end));
        moments
    }

    /// An edge ended.
    pub fn push_end(&mut self, at: Millis) {
        self.push(at, DAY_MILLIS);
    }

    /// Whether no end lies within the last day.
    pub fn are_ends_past(&self, now: Millis) -> bool {
        self.is_past(now, DAY_MILLIS)
    }

    /// How long until the edge that ended then may be followed again, by a commit at `version`.
    pub(crate) fn cools_down(&self, limits: &FollowLimits, version: Millis) -> Option<Duration> {
        let is_near = version <= limits.now.plus(SET_MILLIS);
        let now = if is_near { limits.now.max(version) } else { limits.now };
        self.wait(now, DAY_MILLIS, limits.flips_per_day)
    }

    fn push(&mut self, at: Millis, span: u64) {
        self.0.retain(|(then, _)| then.plus(span) > at);
        // A time ahead of every clock counts as now: otherwise it would count until then.
        for (then, _) in self.0.iter_mut().filter(|(then, _)| *then > at.plus(SKEW_MILLIS)) {
            *then = at;
        }
        self.0.push((at, 1));
        self.0.sort_unstable_by_key(|(then, _)| *then);
        if self.0.len() > MOMENTS_MAX {
            self.halve();
        }
    }

    /// Two neighbours merge at the later time: the merge never permits more.
    fn halve(&mut self) {
        let pairs = self.0.chunks(2);
        self.0 = pairs.filter_map(|pair| Some((pair.last()?.0, pair.iter().map(|(_, count)| *count).sum()))).collect();
    }

    /// How long until fewer than `bound` of them lie within `span`; `None` when that is so now, or when only a wrong
    /// clock would require such a wait.
    fn wait(&self, now: Millis, span: u64, bound: u32) -> Option<Duration> {
        let within = || self.0.iter().filter(|(then, _)| then.plus(span) > now);
        let mut left: u64 = within().map(|(_, count)| u64::from(*count)).sum();
        if bound == 0 || left < bound.into() {
            return None;
        }
        let last = within().find(|(_, count)| {
            left -= u64::from(*count);
            left < bound.into()
        });
        let wait = last?.0.plus(span).since_2000().saturating_sub(now.since_2000());
        (wait <= span + SKEW_MILLIS).then_some(Duration::from_millis(wait))
    }

    fn is_past(&self, now: Millis, span: u64) -> bool {
        self.0.iter().all(|(then, _)| then.plus(span) <= now)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut bytes, mut before) = (Vec::with_capacity(self.0.len() * 5), 0);
        for (then, count) in &self.0 {
            put_varint(&mut bytes, then.since_2000() - before);
            put_varint(&mut bytes, u64::from(*count));
            before = then.since_2000();
        }
        bytes
    }

    /// `None`: these are not the bytes of moments.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let (mut moments, mut before) = (Vec::new(), 0u64);
        while !bytes.is_empty() {
            before = before.checked_add(take_varint(&mut bytes)?)?;
            let then = Millis::from_since_2000(before);
            (then.since_2000() == before).then_some(())?;
            moments.push((then, u32::try_from(take_varint(&mut bytes)?).ok()?));
        }
        (moments.len() <= MOMENTS_MAX).then_some(Self(moments))
    }
}

impl Deref for Moments {
    type Target = [(Millis, u32)];

    fn deref(&self) -> &[(Millis, u32)] {
        &self.0
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
