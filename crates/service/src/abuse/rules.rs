//! Thresholds of the detectors: what an operator can set about them.

use std::time::Duration;

use entourage_model::{Millis, User};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Zero switches a detector off, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbuseRules {
    /// Whether this server looks for abuse at all.
    pub detect: bool,
    /// An open case pauses its actors' right to follow.
    pub auto_suspend: bool,
    /// Follows of fresh accounts are parked while a surge on their target is an open case.
    pub quarantine: bool,
    /// Accounts that registered less than this ago are fresh.
    pub fresh_account: Duration,
    /// For so long after it was closed a case is not opened again.
    pub cool_down: Duration,
    /// How often one edge ends within [`PAIR_WINDOW`].
    pub pair_flips: u32,
    /// New follows of one actor in an hour.
    pub follows_per_hour: u32,
    /// Follows of one actor that ended within 48 hours of their beginning, within the last 48 hours.
    pub churn_follows: u32,
    /// Their share of the follows that the actor began in that time, in percent.
    pub churn_percent: u32,
    /// Requests of one actor in an hour.
    pub requests_per_hour: u32,
    /// How many of an actor's last targets are compared; at most [`Self::LOOK_ALIKES_MAX`].
    pub look_alikes: u32,
    /// Within which time they all registered.
    pub look_alike_window: Duration,
    /// New followers of one target in an hour.
    pub surge_followers: u32,
    /// The share of fresh accounts among them, in percent.
    pub surge_fresh_percent: u32,
    /// Accounts of a ring that follow the same targets.
    pub cluster_size: u32,
}

/// Within which time flips of one edge are counted.
pub(super) const PAIR_WINDOW: Duration = DAY.saturating_mul(7);

impl AbuseRules {
    /// The greatest threshold.
    pub const MAX: u32 = 1_000_000;
    pub const LOOK_ALIKES_MAX: u32 = 16;

    pub(crate) fn is_fresh(&self, user: &User, now: Millis) -> bool {
        let age = now.since_2000().saturating_sub(user.registered_at.since_2000());
        u128::from(age) < self.fresh_account.as_millis()
    }
}

impl Default for AbuseRules {
    fn default() -> Self {
        Self {
            detect: true,
            auto_suspend: false,
            quarantine: false,
            fresh_account: DAY * 7,
            cool_down: DAY * 7,
            pair_flips: 10,
            follows_per_hour: 250,
            churn_follows: 50,
            churn_percent: 50,
            requests_per_hour: 100,
            look_alikes: 10,
            look_alike_window: DAY,
            surge_followers: 200,
            surge_fresh_percent: 70,
            cluster_size: 20,
        }
    }
}
