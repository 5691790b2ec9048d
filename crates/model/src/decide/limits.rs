//! How often a user may follow. Existing edges, replays and operations that are refused for another reason do not
//! count: only a follow that would be new is checked, before the cap is.

use crate::{Change, Decision, FollowLimits, Key, Kind, Operation, QuotaChange, Refusal, Version, View};

/// The follower's quota after the operation, if it makes a new follow within the limits.
pub(super) fn take(
    view: &impl View,
    operation: &Operation,
    limits: Option<&FollowLimits>,
    decided: &Result<Decision, Refusal>,
    version: Version,
) -> Result<Option<QuotaChange>, Refusal> {
    let (Some(limits), &Operation::Follow { follower, target, .. }) = (limits, operation) else { return Ok(None) };
    match decided {
        Ok(decision) if makes_follow(decision) => {}
        Err(Refusal::FollowingLimit) => {}
        _ => return Ok(None),
    }
    within(view, follower, target, limits, version)
}

fn makes_follow(decision: &Decision) -> bool {
    let is_new =
        |change: &Change| matches!(change, Change::Edge(edge) if edge.kind == Kind::Follow && edge.before.is_none());
    decision.changes.iter().any(is_new)
}

fn within(
    view: &impl View,
    follower: Key,
    target: Key,
    limits: &FollowLimits,
    version: Version,
) -> Result<Option<QuotaChange>, Refusal> {
    if limits.flips_per_day > 0
        && let Some(wait) = view.ends(follower, target).cools_down(limits, version.millis())
    {
        return Err(Refusal::CoolingDown { wait });
    }
    if limits.per_hour == 0 && limits.challenge_after == 0 {
        return Ok(None);
    }
    let quota = view.quota(follower);
    if quota.needs_challenge(limits) {
        return Err(Refusal::ChallengeRequired);
    }
    let after = quota.take(limits).map_err(|wait| Refusal::RateLimited { wait })?;
    Ok(Some(QuotaChange { actor: follower, after }))
}
