//! Quarantine: which new follows are parked because fresh accounts surge on their target, and who sees that they are.

use std::collections::HashSet;

use entourage_model::{EdgeValue, Key, Result, State};

use crate::{Actor, Call, Context, Credential, Graph};

/// Who sees a surge at this moment.
pub trait Surges: Send + Sync + 'static {
    /// Whether a surge of fresh accounts on this user is an open case.
    fn is_surging(&self, target: Key) -> bool;
}

impl Graph {
    /// Which of these follows are parked if they are new. An admin's own token is exempt.
    pub(crate) async fn parked(&self, call: &Call, pairs: &[(Key, Key)]) -> Result<HashSet<(Key, Key)>> {
        let Context { rules, surges, clock, .. } = &*self.context;
        if !rules.abuse.quarantine || (call.admin && call.credential == Credential::User) {
            return Ok(HashSet::new());
        }
        // A server that has just started does not know of open cases before it has read them.
        self.abuse.load().await?;
        let mut surging: Vec<(Key, Key)> =
            pairs.iter().copied().filter(|(_, target)| surges.is_surging(*target)).collect();
        let followers: Vec<Key> = surging.iter().map(|(follower, _)| *follower).collect();
        let (users, now) = (self.context.users_by_key(&followers).await?, clock.now());
        surging.retain(|(follower, _)| users.get(follower).is_some_and(|user| rules.abuse.is_fresh(user, now)));
        Ok(surging.into_iter().collect())
    }
}

/// The edge as its follower sees it, or a service: to a user a parked follow is a request.
pub(crate) fn shown_edge(call: &Call, edge: EdgeValue) -> EdgeValue {
    match (&call.actor, edge.state) {
        (Actor::User(_), State::Parked) => EdgeValue { state: State::Pending, ..edge },
        _ => edge,
    }
}
