//! A second look at a suspicion, at what the store has: who the accounts are, how long follows lasted, and whether what
//! looks odd is usual here. What stands becomes a finding.

use entourage_model::{Cause, Key, List, Millis, Place, Plane, Result, Side, User, Version};
use entourage_store::Sweep;
use hashbrown::{HashMap, HashSet};

use super::{
    Abuse, AbuseRules, CaseKind,
    case::{Finding, Subject, Trace},
    detector::{CHURN_WINDOW, Detector, Suspicion},
    names,
    window::Window,
};

/// How many ended follows, and how many that stand, one look reads.
const FOLLOWS_READ_MAX: usize = 1_000;
/// Evidence of one finding.
const TRACES: usize = 16;
/// Users of anywhere, to tell what is usual here.
const POPULATION: usize = 256;
/// They are read in at most this many pages.
const POPULATION_PAGES: usize = 4;
/// For so long they serve.
const POPULATION_MILLIS: u64 = 60_000;
/// Fewer say nothing about what is usual.
const USUAL_MIN: usize = 30;
/// What this part of all others have in common, too, is no sign of anything.
const USUAL_PERCENT: usize = 25;
/// By how much fresh accounts must be more frequent among a target's new followers than among everybody's.
const FRESH_ABOVE_USUAL_PERCENT: usize = 20;
/// How many of an actor's last targets must have nearly the same name.
const ALIKE_PERCENT: usize = 80;

/// Some users of the store, taken from all of it in turn.
#[derive(Default)]
pub(super) struct Population {
    sweep: Sweep,
    users: Vec<Resident>,
    taken: Option<Millis>,
}

struct Resident {
    key: Key,
    registered_at: Millis,
    name: Vec<char>,
}

/// In percent; of nothing there is none.
fn share(part: usize, of: usize) -> usize {
    (part * 100).checked_div(of).unwrap_or(0)
}

fn percent(part: usize, of: usize) -> f64 {
    share(part, of) as f64
}

impl Suspicion {
    /// As it was counted: nothing of the store's is needed.
    fn counted(self, actor: Key, figure: &'static str) -> Finding {
        let mut targets: Vec<Key> = self.traces.iter().rev().map(|trace| trace.target).collect();
        let mut known = HashSet::new();
        targets.retain(|target| known.insert(*target));
        let (subject, at, figures) = (self.subject, self.at, vec![(figure, f64::from(self.count))]);
        Finding { subject, actors: vec![actor], targets, traces: self.traces, figures, at }
    }
}

impl Abuse {
    /// `None`: it is nothing.
    pub(super) async fn examine(
        &self,
        suspicion: Suspicion,
        detector: &Detector,
        population: &mut Population,
    ) -> Result<Option<Finding>> {
        let Subject { kind, actor, target } = suspicion.subject;
        match (kind, actor, target) {
            (CaseKind::PairChurn, Some(actor), _) => Ok(Some(suspicion.counted(actor, "flips_in_7d"))),
            (CaseKind::MassFollow, Some(actor), _) => Ok(Some(suspicion.counted(actor, "follows_in_hour"))),
            (CaseKind::RequestFlood, Some(actor), _) => Ok(Some(suspicion.counted(actor, "requests_in_hour"))),
            (CaseKind::FollowChurn, Some(actor), _) => self.examine_churn(&suspicion, actor).await,
            (CaseKind::LookAlikes, Some(actor), _) => self.examine_targets(suspicion, actor, population).await,
            (CaseKind::Surge, _, Some(target)) => self.examine_wave(&suspicion, target, detector).await,
            _ => Ok(None),
        }
    }

    /// Which part of what an actor followed lately was over within 48 hours. Somebody who ends old follows is no case,
    /// and one edge counts once, however often it was made.
    async fn examine_churn(&self, suspicion: &Suspicion, actor: Key) -> Result<Option<Finding>> {
        let rules = self.context.rules.abuse;
        let since = Millis::from_since_2000(suspicion.at.since_2000().saturating_sub(CHURN_WINDOW));
        let ended = self.context.store.scan_history(actor, None, FOLLOWS_READ_MAX).await?;
        let lived = |from: Version, to: Version| {
            to.millis().since_2000().saturating_sub(from.millis().since_2000()) <= CHURN_WINDOW
        };
        let short: Vec<_> = ended
            .into_iter()
            .filter(|end| end.cause == Cause::Follower && end.ended.millis() >= since && lived(end.position, end.ended))
            .collect();
        let ended: HashSet<Key> = short.iter().map(|end| end.target).collect();
        if ended.len() < rules.churn_follows as usize {
            return Ok(None);
        }
        let mut standing = 0;
        for plane in [Plane::Follow, Plane::Request] {
            let list = List::new(actor, plane, Side::Following);
            let page = self.context.store.scan(list, None, FOLLOWS_READ_MAX).await?;
            let places = page.edges.iter().map(|edge| (list.place(edge), edge.target));
            let is_recent =
                |(Place { position, .. }, target): &(Place, Key)| position.millis() >= since && !ended.contains(target);
            standing += places.filter(is_recent).count();
        }
        if share(ended.len(), ended.len() + standing) < rules.churn_percent as usize {
            return Ok(None);
        }
        // History is read newest first.
        let newest = short.iter().take(TRACES).rev();
        let traces: Vec<Trace> =
            newest.map(|end| Trace { version: end.ended, follower: actor, target: end.target }).collect();
        let figures = vec![
            ("ended_within_48h", ended.len() as f64),
            ("share_percent", percent(ended.len(), ended.len() + standing)),
        ];
        let (subject, at, targets) =
            (suspicion.subject, suspicion.at, traces.iter().map(|trace| trace.target).collect());
        Ok(Some(Finding { subject, actors: vec![actor], targets, traces, figures, at }))
    }

    /// Whether an actor's last targets registered together or have nearly the same name, unless half of everybody has.
    async fn examine_targets(
        &self,
        suspicion: Suspicion,
        actor: Key,
        population: &mut Population,
    ) -> Result<Option<Finding>> {
        let rules = self.context.rules.abuse;
        let compared = rules.look_alikes.min(AbuseRules::LOOK_ALIKES_MAX) as usize;
        let mut known = HashSet::new();
        let last: Vec<Trace> =
            suspicion.traces.iter().rev().filter(|trace| known.insert(trace.target)).take(compared).copied().collect();
        let keys: Vec<Key> = last.iter().map(|trace| trace.target).collect();
        let users = self.context.users_by_key(&keys).await?;
        if compared == 0 || users.len() < compared {
            return Ok(None);
        }
        let registered = users.values().map(|user| user.registered_at.since_2000());
        let (first, end) = registered.fold((u64::MAX, 0), |(first, end), at| (first.min(at), end.max(at)));
        let together = u128::from(end - first) <= rules.look_alike_window.as_millis();
        let plain: Vec<Vec<char>> = users.values().filter_map(|user| user.name.as_deref()).map(names::plain).collect();
        let model = names::model(&plain, (compared * ALIKE_PERCENT).div_ceil(100));
        if !together && model.is_none() {
            return Ok(None);
        }
        population.refresh(self, suspicion.at).await?;
        let others = |is_so: &dyn Fn(&Resident) -> bool| {
            let others = population.users.iter().filter(|user| user.key != actor && !users.contains_key(&user.key));
            let (count, so) = others.fold((0, 0), |(count, so), user| (count + 1, so + usize::from(is_so(user))));
            count >= USUAL_MIN && share(so, count) >= USUAL_PERCENT
        };
        // Others may have come a little before or after them.
        let window = rules.look_alike_window.as_millis() as u64;
        let then = end.saturating_sub(window)..=first.saturating_add(window);
        let together = together && !others(&|user| then.contains(&user.registered_at.since_2000()));
        let alike = model.filter(|model| !others(&|user| names::are_alike(model, &user.name)));
        if !together && alike.is_none() {
            return Ok(None);
        }
        let mut figures = vec![("targets", compared as f64)];
        if together {
            figures.push(("registered_within_seconds", ((end - first) / 1_000) as f64));
        }
        if let Some(model) = alike {
            let count = plain.iter().filter(|name| names::are_alike(model, name)).count();
            figures.push(("similar_names", count as f64));
        }
        let traces: Vec<Trace> = last.into_iter().rev().collect();
        let (subject, at) = (suspicion.subject, suspicion.at);
        Ok(Some(Finding { subject, actors: vec![actor], targets: keys, traces, figures, at }))
    }

    /// Which part of a target's newest followers is fresh, and whether that is more than elsewhere.
    async fn examine_wave(&self, suspicion: &Suspicion, target: Key, detector: &Detector) -> Result<Option<Finding>> {
        let rules = self.context.rules.abuse;
        let since = Millis::from_since_2000(suspicion.at.since_2000().saturating_sub(Window::HOUR));
        let mut wave = detector.wave(target);
        wave.retain(|(_, version)| version.millis() >= since);
        let keys: Vec<Key> = wave.iter().map(|(follower, _)| *follower).collect();
        let users = self.context.users_by_key(&keys).await?;
        let is_fresh = |users: &HashMap<Key, User>, key: &Key| {
            users.get(key).is_some_and(|user| rules.is_fresh(user, suspicion.at))
        };
        let mut fresh: Vec<Key> = keys.iter().filter(|key| is_fresh(&users, key)).copied().collect();
        let mut once = HashSet::new();
        fresh.retain(|key| once.insert(*key));
        let fresh_share = share(fresh.len(), users.len());
        if users.is_empty() || fresh_share < rules.surge_fresh_percent as usize {
            return Ok(None);
        }
        let mut elsewhere = detector.others(target);
        elsewhere.sort_unstable();
        elsewhere.dedup();
        elsewhere.retain(|key| !users.contains_key(key));
        let others = self.context.users_by_key(&elsewhere).await?;
        if others.len() >= USUAL_MIN {
            let usual = share(others.keys().filter(|key| is_fresh(&others, key)).count(), others.len());
            if usual + FRESH_ABOVE_USUAL_PERCENT > fresh_share {
                return Ok(None);
            }
        }
        let is_evidence = |(follower, _): &&(Key, Version)| once.contains(follower);
        let newest = wave.iter().filter(is_evidence).take(TRACES);
        let mut traces: Vec<Trace> =
            newest.map(|(follower, version)| Trace { version: *version, follower: *follower, target }).collect();
        traces.reverse();
        let figures = vec![("followers_in_hour", f64::from(suspicion.count)), ("fresh_percent", fresh_share as f64)];
        let (subject, at, targets) = (suspicion.subject, suspicion.at, vec![target]);
        Ok(Some(Finding { subject, actors: fresh, targets, traces, figures, at }))
    }
}

impl Population {
    async fn refresh(&mut self, abuse: &Abuse, now: Millis) -> Result<()> {
        let is_current = |taken: Millis| now.since_2000().abs_diff(taken.since_2000()) < POPULATION_MILLIS;
        if self.taken.is_some_and(is_current) && self.users.len() >= USUAL_MIN {
            return Ok(());
        }
        let store = &*abuse.context.store;
        let mut page = Vec::new();
        for _ in 0..POPULATION_PAGES {
            match self.sweep.next(store, POPULATION).await? {
                Some(users) => page.extend(users),
                // The end of it: from the beginning.
                None => self.sweep = Sweep::default(),
            }
            if page.len() >= POPULATION {
                break;
            }
        }
        let resident = |user: User| Resident {
            key: user.key,
            registered_at: user.registered_at,
            name: user.name.as_deref().map(names::plain).unwrap_or_default(),
        };
        (self.users, self.taken) = (page.into_iter().map(resident).collect(), Some(now));
        Ok(())
    }
}
