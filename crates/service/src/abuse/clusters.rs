//! Rings of accounts that follow the same targets, or each other: a search over everybody, run now and then.
//!
//! Everybody's newest follows are hashed into a few signatures that accounts with nearly the same targets mostly share. The
//! accounts of one signature are compared exactly. What most of them follow must be surprising, given how many follow it
//! anyway, and must have been followed, or they must have registered, in a burst: a class of friends grows over weeks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Counts, Edge, Error, Key, List, Millis, Result, User};
use entourage_store::Sweep;

use super::{
    Abuse, CASE_ACTORS_MAX, CASE_TARGETS_MAX, CaseKind,
    case::{Finding, Subject, Trace},
    signatures::Signatures,
};
use crate::Clusters;

/// Targets that a ring has in common, at the least.
pub const CLUSTER_TARGETS_MIN: usize = 5;
/// Who follows more than this is no part of a ring.
const FOLLOWING_MAX: u64 = 2_000;
/// How many newest follows of each account are compared.
const COMPARED: usize = 64;
/// What this many follow says nothing about anybody.
const POPULAR: u64 = 10_000;
/// Accounts that one run looks at. The next one begins where it ended.
const USERS_MAX: u64 = 1_000_000;
const PAGE: usize = 500;
/// Targets whose number of followers is remembered.
const COUNTS_MAX: usize = 262_144;
/// What this part of a ring follows, it has in common.
const COMMON_PERCENT: usize = 60;
/// A signature has this part of a ring's accounts, or more.
const GROUP_PERCENT: usize = 50;
/// How surprising the targets must be together: each counts the logarithm of how rarely others follow it.
const SURPRISE_MIN: f64 = 20.0;
/// In a store with few others, so many are thought to be there who do not follow the targets.
const OUTSIDE_MIN: u64 = 100;
/// This part of it must have happened within a day.
const BURST_PERCENT: usize = 60;
const BURST_MILLIS: u64 = 24 * 60 * 60 * 1_000;
const TRACES: usize = 16;

/// The outcome of one search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClustersFound {
    /// Accounts that were looked at.
    pub users: u64,
    /// Rings among them, known or new.
    pub clusters: u64,
}

/// Where the last search ended.
#[derive(Default)]
pub(super) struct Progress {
    sweep: Sweep,
}

/// The newest follows of an account, each with when it was made.
type Follows = HashMap<Key, Vec<Edge>>;

/// How often the scheduler looks for rings.
const SEARCHED_EVERY: Duration = Duration::from_secs(6 * 60 * 60);

#[async_trait]
impl Clusters for Abuse {
    fn every(&self) -> Duration {
        SEARCHED_EVERY
    }

    async fn find(&self) -> Result<String> {
        let ClustersFound { users, clusters } = self.find_clusters().await?;
        Ok(format!("{clusters} clusters among {users} users"))
    }
}

impl Abuse {
    /// What the scheduler runs, where this server looks for abuse.
    pub(crate) fn periodic(self: &Arc<Self>) -> Option<Arc<dyn Clusters>> {
        let rules = &self.context.rules.abuse;
        (rules.detect && rules.cluster_size > 0).then(|| Arc::clone(self) as _)
    }

    /// Looks for rings and opens their cases. One search at a time; a large store takes several.
    pub async fn find_clusters(&self) -> Result<ClustersFound> {
        let size = self.context.rules.abuse.cluster_size as usize;
        if size == 0 {
            return Ok(ClustersFound::default());
        }
        self.load().await?;
        let mut progress = self.clusters.lock().await;
        let (mut users, mut signatures, mut counts) = (0, Signatures::default(), HashMap::new());
        while users < USERS_MAX {
            let Some(page) = progress.sweep.next(&*self.context.store, PAGE).await? else {
                progress.sweep = Sweep::default();
                break;
            };
            users += page.len() as u64;
            let accounts = self.telling(&page, &mut counts).await?;
            signatures = off_workers(move || {
                accounts.iter().for_each(|(account, targets)| signatures.add(*account, targets));
                signatures
            })
            .await?;
        }
        drop(progress);
        let least = (size * GROUP_PERCENT / 100).max(2);
        let groups = off_workers(move || signatures.groups(least)).await?;
        let (mut taken, mut clusters) = (HashSet::new(), 0);
        for group in groups.iter() {
            let mut accounts: Vec<Key> = group.iter().filter(|account| !taken.contains(*account)).copied().collect();
            if accounts.len() < least {
                continue;
            }
            // Others of the ring have another signature.
            let related: Vec<&[Key]> = groups.of_these(&accounts, GROUP_PERCENT).collect();
            accounts.extend(related.into_iter().flatten().filter(|account| !taken.contains(*account)));
            accounts.sort_unstable();
            accounts.dedup();
            accounts.truncate(CASE_ACTORS_MAX);
            if let Some(finding) = self.compare(&accounts, users, size).await? {
                clusters += 1;
                taken.extend(finding.actors.iter().copied());
                self.found(finding, true).await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(ClustersFound { users, clusters })
    }

    /// Accounts of a page that may be part of a ring, each with those of its newest targets that say something.
    async fn telling(&self, page: &[User], counts: &mut HashMap<Key, u64>) -> Result<Vec<(Key, Vec<Key>)>> {
        let keys: Vec<Key> = page.iter().map(|user| user.key).collect();
        let following = self.context.store.get_all_counts(&keys).await?;
        let is_looked_at = |following: u64| (CLUSTER_TARGETS_MIN as u64..=FOLLOWING_MAX).contains(&following);
        let accounts = keys.iter().zip(following);
        let accounts = accounts.filter(|(_, counts)| counts.is_some_and(|counts| is_looked_at(counts.following)));
        let accounts: Vec<Key> = accounts.map(|(account, _)| *account).collect();
        let follows = self.follows_of(&accounts).await?;
        let targets = |account: &Key| follows.get(account).into_iter().flatten().map(|edge| edge.target);
        let mut unknown: Vec<Key> =
            accounts.iter().flat_map(targets).filter(|target| !counts.contains_key(target)).collect();
        if counts.len() + unknown.len() > COUNTS_MAX {
            counts.clear();
            unknown = accounts.iter().flat_map(targets).collect();
        }
        unknown.sort_unstable();
        unknown.dedup();
        let found = self.context.store.get_all_counts(&unknown).await?;
        counts.extend(unknown.into_iter().zip(found.into_iter().map(|counts| counts.unwrap_or_default().followers)));
        let is_telling = |target: &Key| counts.get(target).is_some_and(|followers| *followers <= POPULAR);
        let telling = |account: Key| (account, targets(&account).filter(is_telling).collect::<Vec<Key>>());
        let accounts = accounts.into_iter().map(telling);
        Ok(accounts.filter(|(_, targets)| targets.len() >= CLUSTER_TARGETS_MIN).collect())
    }

    /// Without imported ones: those have a version of their own.
    async fn follows_of(&self, accounts: &[Key]) -> Result<Follows> {
        let mut follows = HashMap::with_capacity(accounts.len());
        for account in accounts {
            let mut page = self.context.store.scan(List::following(*account), None, COMPARED).await?;
            page.edges.retain(|edge| edge.value.position == edge.value.version);
            follows.insert(*account, page.edges);
        }
        Ok(follows)
    }

    /// Whether these accounts are a ring, and which of them.
    async fn compare(&self, accounts: &[Key], users: u64, size: usize) -> Result<Option<Finding>> {
        let follows = self.follows_of(accounts).await?;
        // A member follows all of the ring but itself.
        let common = common_targets(&follows, accounts.len());
        let is_member = |account: &&Key| {
            let targets: HashSet<Key> = follows.get(*account).into_iter().flatten().map(|edge| edge.target).collect();
            let shared = common.iter().filter(|target| targets.contains(target)).count();
            shared >= CLUSTER_TARGETS_MIN && shared * 100 >= common.len() * COMMON_PERCENT
        };
        let members: Vec<Key> = accounts.iter().filter(is_member).copied().collect();
        if members.len() < size || common.len() < CLUSTER_TARGETS_MIN {
            return Ok(None);
        }
        let counts = self.context.store.get_all_counts(&common).await?;
        let mut own: HashMap<Key, u64> = HashMap::new();
        for edge in members.iter().filter_map(|member| follows.get(member)).flatten() {
            *own.entry(edge.target).or_default() += 1;
        }
        let outside = users.saturating_sub(members.len() as u64).max(OUTSIDE_MIN);
        let rarity = |(target, counts): (&Key, &Option<Counts>)| {
            let own = own.get(target).copied().unwrap_or_default();
            let others = counts.unwrap_or_default().followers.saturating_sub(own).min(outside);
            ((outside + 1) as f64 / (others + 1) as f64).ln()
        };
        let surprise: f64 = common.iter().zip(&counts).map(rarity).sum();
        if surprise < SURPRISE_MIN {
            return Ok(None);
        }
        let wanted: HashSet<Key> = common.iter().copied().collect();
        let edges = members.iter().filter_map(|member| follows.get(member)).flatten();
        let mut edges: Vec<&Edge> = edges.filter(|edge| wanted.contains(&edge.target)).collect();
        edges.sort_by_key(|edge| edge.value.position);
        let made = edges.iter().map(|edge| edge.value.position.millis()).collect();
        let registered = self.context.users_by_key(&members).await?;
        let registered = registered.values().map(|user| user.registered_at).collect();
        if !is_burst(made) && !is_burst(registered) {
            return Ok(None);
        }
        let newest = edges.iter().rev().take(TRACES).rev();
        let trace = |edge: &&Edge| Trace { version: edge.value.version, follower: edge.follower, target: edge.target };
        let traces: Vec<Trace> = newest.map(trace).collect();
        let at = traces.last().map_or_else(|| self.context.clock.now(), |trace| trace.version.millis());
        let first = members.first().map(|member| Subject::actor(CaseKind::Cluster, *member));
        let Some(subject) = self.index.cluster_of(&members).or(first) else { return Ok(None) };
        let figures = vec![
            ("members", members.len() as f64),
            ("common_targets", common.len() as f64),
            ("surprise", surprise.round()),
        ];
        let targets = common.into_iter().take(CASE_TARGETS_MAX).collect();
        Ok(Some(Finding { subject, actors: members, targets, traces, figures, at }))
    }
}

/// Long work without a wait, where it holds up no request.
async fn off_workers<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal(error.to_string()))
}

/// What most of these accounts follow, the most followed first.
fn common_targets(follows: &Follows, accounts: usize) -> Vec<Key> {
    let mut times: HashMap<Key, usize> = HashMap::new();
    for edge in follows.values().flatten() {
        *times.entry(edge.target).or_default() += 1;
    }
    let mut common: Vec<(usize, Key)> = times
        .into_iter()
        .filter(|(_, count)| count * 100 >= accounts * COMMON_PERCENT)
        .map(|(target, count)| (count, target))
        .collect();
    common.sort_unstable_by_key(|(count, target)| (std::cmp::Reverse(*count), *target));
    common.into_iter().map(|(_, target)| target).collect()
}

/// Whether most of these times lie within one day.
fn is_burst(mut times: Vec<Millis>) -> bool {
    times.sort_unstable();
    let needed = (times.len() * BURST_PERCENT).div_ceil(100).max(1);
    let is_within = |window: &[Millis]| match window {
        [first, .., last] => last.since_2000() - first.since_2000() <= BURST_MILLIS,
        _ => true,
    };
    times.len() >= needed && times.windows(needed).any(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_has_most_of_its_times_within_a_day() {
        let at = |hours: u64| Millis::from_since_2000(hours * 3_600_000);
        assert!(is_burst((0..10).map(at).collect()));
        assert!(is_burst([0, 1, 2, 3, 4, 5, 400, 500, 600, 700].map(at).into()));
        assert!(!is_burst((0..10).map(|day| at(day * 24)).collect()));
        assert!(!is_burst(Vec::new()));
    }
}
