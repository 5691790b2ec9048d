//! The edge healer: looks at every edge a moment after it was written, and sets the target's side right from the
//! follower's where the two differ. It is needed where a store keeps both directions apart.

mod watch;

use std::{collections::BTreeSet, time::Duration};

use entourage_model::{Error, Key, Result, User, UserId};
use entourage_store::{EdgeName, Healed, Maintenance, Sweep};
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::watch::Watch;
use super::audit::Pace;
use crate::{Call, Upkeep, ids::user_not_found};

/// Every so often it looks at what was written before the last time.
const ROUND: Duration = Duration::from_secs(1);
/// How many findings of an audit wait; the next audit finds the others again.
const FOUND_MAX: usize = 10_000;
/// How many edges are healed at once.
const HEALED_AT_ONCE: usize = 1_000;
/// How many of those the log names.
const NAMED_MAX: usize = 20;
const USERS_CHUNK: usize = 1_000;

/// What was looked at because somebody asked, and what was set right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgesHealed {
    pub users: u64,
    /// Edges of those users' own lists.
    pub edges: u64,
    pub healed: u64,
    /// Edges that were left as they are, because the follower's side does not agree with itself.
    pub unclear: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Healer {
    found: Mutex<BTreeSet<EdgeName>>,
    wake: Notify,
}

impl Healer {
    /// What an audit is sure of.
    pub(crate) fn tell(&self, edges: impl Iterator<Item = EdgeName>) {
        let mut found = self.found.lock();
        let room = FOUND_MAX.saturating_sub(found.len());
        found.extend(edges.take(room));
        if !found.is_empty() {
            self.wake.notify_one();
        }
    }
}

impl Upkeep {
    /// Looks at every edge of one user, in both directions, or of everybody, and heals those whose directions differ.
    pub async fn heal(&self, call: &Call, user: Option<&UserId>) -> Result<EdgesHealed> {
        call.must_be_admin()?;
        let Some(maintenance) = &self.maintenance else {
            return Err(Error::invalid("this server's store keeps one row for both directions of an edge"));
        };
        let mut done = EdgesHealed::default();
        if !maintenance.has_mirrors() {
            return Ok(done);
        }
        if let Some(id) = user {
            let user = self.context.find_user(id).await?.ok_or_else(user_not_found)?;
            self.heal_user(&**maintenance, &user, &mut done).await?;
            return Ok(done);
        }
        let mut sweep = Sweep::default();
        while let Some(users) = sweep.next(&*self.context.store, USERS_CHUNK).await? {
            for user in &users {
                self.heal_user(&**maintenance, user, &mut done).await?;
            }
        }
        Ok(done)
    }

    async fn heal_user(&self, maintenance: &dyn Maintenance, user: &User, done: &mut EdgesHealed) -> Result<()> {
        let (doubts, edges) = self.compare_user(user.key, &mut Pace::unlimited()).await?;
        let doubted: Vec<EdgeName> = doubts.iter().filter_map(|doubt| doubt.edge()).collect();
        let Healed { mended, unclear, .. } = self.mend(maintenance, &doubted).await?;
        done.users += 1;
        done.edges += edges;
        done.healed += mended.len() as u64;
        done.unclear += unclear.len() as u64;
        Ok(())
    }

    /// Until the server stops, where there is something to heal.
    pub(crate) async fn run_healer(&self) {
        let Some(maintenance) = self.maintenance.as_deref().filter(|maintenance| maintenance.has_mirrors()) else {
            return;
        };
        let mut closed = self.context.hub.closed();
        let mut watch = Watch::default();
        let rounds = async {
            loop {
                let is_behind = match self.round(maintenance, &mut watch).await {
                    Ok(is_behind) => is_behind,
                    Err(error) => {
                        tracing::warn!(code = error.code().as_str(), "the healer waits: {}", error.detail());
                        false
                    }
                };
                if !is_behind {
                    // Whatever an audit finds is healed at once.
                    let _ = tokio::time::timeout(ROUND, self.healer.wake.notified()).await;
                }
            }
        };
        tokio::select! {
            () = rounds => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    }

    /// Whether more waits to be looked at.
    async fn round(&self, maintenance: &dyn Maintenance, watch: &mut Watch) -> Result<bool> {
        entourage_store::fail_point("healer");
        let found: Vec<EdgeName> = std::mem::take(&mut *self.healer.found.lock()).into_iter().collect();
        self.mend(maintenance, &found).await?;
        self.watch(maintenance, watch).await
    }

    async fn mend(&self, maintenance: &dyn Maintenance, edges: &[EdgeName]) -> Result<Healed> {
        let mut all = Healed::default();
        for some in edges.chunks(HEALED_AT_ONCE) {
            let healed = maintenance.heal(some).await?;
            say(&healed);
            self.leaderboard.touch(healed.mended.iter().map(|edge| edge.target));
            all.looked += healed.looked;
            all.mended.extend(healed.mended);
            all.unclear.extend(healed.unclear);
        }
        Ok(all)
    }
}

fn say(healed: &Healed) {
    counter!("entourage_healed_edges_total").increment(healed.mended.len() as u64);
    counter!("entourage_healer_unclear_total").increment(healed.unclear.len() as u64);
    let named = |edge: &EdgeName| (edge.kind.as_str(), edge.follower, edge.target);
    for edge in healed.mended.iter().take(NAMED_MAX) {
        let (kind, follower, target): (_, Key, Key) = named(edge);
        tracing::warn!(kind, %follower, %target, "the target's side of an edge was set right from the follower's");
    }
    for edge in healed.unclear.iter().take(NAMED_MAX) {
        let (kind, follower, target): (_, Key, Key) = named(edge);
        tracing::error!(
            kind,
            %follower,
            %target,
            "the follower's side of an edge does not agree with itself; run `entourage verify` and recount"
        );
    }
    let unnamed = healed.mended.len().saturating_sub(NAMED_MAX) + healed.unclear.len().saturating_sub(NAMED_MAX);
    if unnamed > 0 {
        tracing::warn!(edges = unnamed, "more edges differed than are named here");
    }
}
