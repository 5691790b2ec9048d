//! Which cases there are, in memory: the open ones, and those closed so lately that the same evidence opens no other one.

use std::collections::HashMap;

use entourage_model::{Key, Millis, Version};
use parking_lot::RwLock;

use super::{
    CaseKind, CaseState,
    case::{Document, Subject},
};
use crate::Surges;

/// A cluster whose members are mostly those of a known case is that case.
const SAME_CLUSTER_PERCENT: usize = 50;

#[derive(Clone, Debug)]
struct Known {
    subject: Subject,
    state: CaseState,
    closed_at: Option<Millis>,
    /// When its record was written last.
    written: Millis,
    /// The newest of its evidence.
    last_seen: Millis,
    /// Of clusters alone.
    members: Vec<Key>,
    /// Whose right to follow it holds.
    holds: Vec<Key>,
}

#[derive(Debug, Default)]
struct Cases {
    known: HashMap<Version, Known>,
    by_subject: HashMap<Subject, Version>,
    open: usize,
    /// Open surges of each target.
    surges: HashMap<Key, usize>,
    /// Open cases that hold each user's right to follow.
    holders: HashMap<Key, Vec<Version>>,
    /// Clusters, open or closed, of each of their members.
    clusters: HashMap<Key, Vec<Version>>,
}

#[derive(Debug, Default)]
pub(crate) struct Index(RwLock<Cases>);

/// What is known of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    None,
    Open {
        case: Version,
        written: Millis,
        last_seen: Millis,
    },
    /// It was closed so lately that it stays so, or what was found had happened before.
    CoolsDown,
}

impl Index {
    /// The case as it was read or written last.
    pub(super) fn learn(&self, id: Version, written: Millis, document: &Document) {
        let Document { subject, state, closed_at, last_seen, ref actors, .. } = *document;
        let members = if subject.kind == CaseKind::Cluster { &actors[..] } else { &[] };
        let members = members.iter().map(|person| person.key).collect();
        let holds = actors.iter().filter(|person| person.paused).map(|person| person.key).collect();
        let known = Known { subject, state, closed_at, written, last_seen, members, holds };
        let mut cases = self.0.write();
        cases.leave(id);
        cases.enter(id, &known);
        cases.known.insert(id, known);
        // Where two servers opened the same case at once, the open one counts, then the newer one.
        let is_open =
            |cases: &Cases, id: &Version| cases.known.get(id).is_some_and(|known| known.state == CaseState::Open);
        let before = cases.by_subject.get(&subject).copied();
        if before.is_none_or(|before| (is_open(&cases, &before), before) < (is_open(&cases, &id), id)) {
            cases.by_subject.insert(subject, id);
        }
    }

    pub(super) fn forget(&self, id: Version) {
        let mut cases = self.0.write();
        cases.leave(id);
        if let Some(known) = cases.known.remove(&id)
            && cases.by_subject.get(&known.subject) == Some(&id)
        {
            cases.by_subject.remove(&known.subject);
        }
    }

    /// For evidence of `seen`.
    pub(super) fn standing(&self, subject: &Subject, seen: Millis, now: Millis, cool_down: u64) -> Standing {
        let cases = self.0.read();
        let known = cases.by_subject.get(subject).and_then(|id| Some((*id, cases.known.get(id)?)));
        match known {
            Some((case, &Known { state: CaseState::Open, written, last_seen, .. })) => {
                Standing::Open { case, written, last_seen }
            }
            Some((_, known))
                if known.closed_at.is_some_and(|closed| closed.plus(cool_down) > now || closed >= seen) =>
            {
                Standing::CoolsDown
            }
            _ => Standing::None,
        }
    }

    pub(super) fn open_cases(&self) -> usize {
        self.0.read().open
    }

    /// Open cases that hold this user's right to follow.
    pub(super) fn holders(&self, user: Key) -> Vec<Version> {
        self.0.read().holders.get(&user).cloned().unwrap_or_default()
    }

    /// Closed cases that still hold somebody: whoever closed them did not come to the end.
    pub(super) fn unreleased(&self) -> Vec<Version> {
        let cases = self.0.read();
        let is_left = |known: &Known| known.state != CaseState::Open && !known.holds.is_empty();
        cases.known.iter().filter(|(_, known)| is_left(known)).map(|(id, _)| *id).collect()
    }

    /// Open cases that hold somebody.
    pub(super) fn holding(&self) -> Vec<Version> {
        let cases = self.0.read();
        let holds = |known: &Known| known.state == CaseState::Open && !known.holds.is_empty();
        cases.known.iter().filter(|(_, known)| holds(known)).map(|(id, _)| *id).collect()
    }

    /// The subject of the known cluster that these accounts are, mostly.
    pub(super) fn cluster_of(&self, members: &[Key]) -> Option<Subject> {
        let cases = self.0.read();
        let mut shared: HashMap<Version, usize> = HashMap::new();
        for case in members.iter().filter_map(|member| cases.clusters.get(member)).flatten() {
            *shared.entry(*case).or_default() += 1;
        }
        let is_same = |known: &Known, shared: usize| {
            shared * 100 >= known.members.len().min(members.len()).max(1) * SAME_CLUSTER_PERCENT
        };
        let clusters = shared.into_iter().filter_map(|(id, shared)| Some((id, cases.known.get(&id)?, shared)));
        let same = clusters.filter(|(_, known, shared)| is_same(known, *shared));
        same.max_by_key(|(id, ..)| *id).map(|(_, known, _)| known.subject)
    }

    /// Cases closed before this.
    pub(super) fn closed_before(&self, time: Millis) -> Vec<Version> {
        let cases = self.0.read();
        let is_old = |known: &Known| known.closed_at.is_some_and(|closed| closed < time);
        cases.known.iter().filter(|(_, known)| is_old(known)).map(|(id, _)| *id).collect()
    }
}

impl Surges for Index {
    fn is_surging(&self, target: Key) -> bool {
        self.0.read().surges.contains_key(&target)
    }
}

impl Known {
    fn surging(&self) -> Option<Key> {
        self.subject.target.filter(|_| self.subject.kind == CaseKind::Surge)
    }
}

/// What is asked for on the way of a follow is kept at hand, case by case: a store may have very many.
impl Cases {
    fn enter(&mut self, id: Version, known: &Known) {
        known.members.iter().for_each(|member| self.clusters.entry(*member).or_default().push(id));
        if known.state != CaseState::Open {
            return;
        }
        self.open += 1;
        known.surging().into_iter().for_each(|target| *self.surges.entry(target).or_default() += 1);
        known.holds.iter().for_each(|user| self.holders.entry(*user).or_default().push(id));
    }

    fn leave(&mut self, id: Version) {
        let Self { known, open, surges, holders, clusters, .. } = self;
        let Some(known) = known.get(&id) else { return };
        known.members.iter().for_each(|member| remove(clusters, member, id));
        if known.state != CaseState::Open {
            return;
        }
        *open = open.saturating_sub(1);
        if let Some(target) = known.surging()
            && let Some(count) = surges.get_mut(&target)
        {
            *count -= 1;
            if *count == 0 {
                surges.remove(&target);
            }
        }
        known.holds.iter().for_each(|user| remove(holders, user, id));
    }
}

fn remove(cases: &mut HashMap<Key, Vec<Version>>, user: &Key, id: Version) {
    if let Some(own) = cases.get_mut(user) {
        own.retain(|case| *case != id);
        if own.is_empty() {
            cases.remove(user);
        }
    }
}
