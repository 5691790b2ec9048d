//! What may be abuse, counted in memory as follows are made and end. Every table has a bound; what is found here with
//! little effort is looked at again with the store's help before it becomes a case (`examine.rs`).

use std::collections::VecDeque;

use entourage_model::{Key, Millis, Version};

use super::{
    AbuseRules, CaseKind as Kind,
    buffer::{Act, Seen},
    case::{Subject, Trace},
    rules::PAIR_WINDOW,
    table::{Remembered, Table},
    window::Window,
};

/// Who was seen lately: about 25 MiB.
const ACTORS_MAX: usize = 65_536;
/// Who was followed lately: about 6 MiB.
const TARGETS_MAX: usize = 65_536;
/// Edges that ended lately: about 8 MiB.
const PAIRS_MAX: usize = 65_536;
/// Targets whose newest followers are remembered: about 8 MiB.
const WAVES_MAX: usize = 1_024;
/// How many followers are remembered of each of them.
const WAVE_MAX: usize = 512;
/// Suspicions that wait to be looked at. More are dropped: who goes on is suspected again.
const SUSPICIONS_MAX: usize = 8_192;
/// Follows of anybody, to tell what is usual.
const USUAL_MAX: usize = 256;
const USUAL_EVERY: u32 = 8;
const RECENT: usize = AbuseRules::LOOK_ALIKES_MAX as usize;
const FLIPS_KEPT: usize = 8;
/// In which time follows that end count as churn.
pub(super) const CHURN_WINDOW: u64 = 48 * Window::HOUR;

/// The last few of something, oldest first.
#[derive(Clone, Copy, Debug)]
struct Recent<const N: usize> {
    traces: [(Key, Version); N],
    count: usize,
}

impl<const N: usize> Default for Recent<N> {
    fn default() -> Self {
        Self { traces: [(Key(0), Version::ZERO); N], count: 0 }
    }
}

impl<const N: usize> Recent<N> {
    fn push(&mut self, key: Key, version: Version) {
        if let Some(slot) = self.traces.get_mut(self.count % N) {
            *slot = (key, version);
        }
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (Key, Version)> + '_ {
        let first = self.count.saturating_sub(N);
        (first..self.count).filter_map(|place| self.traces.get(place % N).copied())
    }
}

#[derive(Default)]
struct Actor {
    follows: Window,
    requests: Window,
    ends: Window,
    recent: Recent<RECENT>,
    /// Waits to have its last targets compared.
    is_queued: bool,
}

#[derive(Default)]
struct Target {
    followers: Window,
}

/// The newest followers of a target that has many.
#[derive(Default)]
struct Wave {
    followers: VecDeque<(Key, Version)>,
}

#[derive(Default)]
struct Pair {
    since: Millis,
    ends: u32,
    flips: Recent<FLIPS_KEPT>,
}

impl Remembered for Actor {
    fn clear(&mut self) {
        let Self { follows, requests, ends, recent, is_queued } = self;
        [follows, requests, ends].into_iter().for_each(|window| *window = Window::default());
        recent.count = 0;
        *is_queued = false;
    }
}

impl Remembered for Target {
    fn clear(&mut self) {
        self.followers = Window::default();
    }
}

impl Remembered for Wave {
    fn clear(&mut self) {
        self.followers.clear();
    }
}

impl Remembered for Pair {
    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Suspicion {
    pub(super) subject: Subject,
    pub(super) at: Millis,
    /// What was counted.
    pub(super) count: u32,
    /// The newest last.
    pub(super) traces: Vec<Trace>,
}

pub(super) struct Detector {
    rules: AbuseRules,
    actors: Table<Key, Actor>,
    targets: Table<Key, Target>,
    waves: Table<Key, Wave>,
    pairs: Table<(Key, Key), Pair>,
    suspicions: VecDeque<Suspicion>,
    /// Actors whose last targets are to be compared.
    looks: VecDeque<Key>,
    usual: VecDeque<(Key, Key)>,
    follows: u32,
}

/// Over a threshold, and then again each time a quarter of it more was counted.
const fn is_due(count: u32, threshold: u32) -> bool {
    let step = if threshold < 4 { 1 } else { threshold / 4 };
    threshold > 0 && count >= threshold && (count - threshold).is_multiple_of(step)
}

impl Detector {
    pub(super) fn new(rules: AbuseRules) -> Self {
        Self {
            rules,
            actors: Table::new(ACTORS_MAX),
            targets: Table::new(TARGETS_MAX),
            waves: Table::new(WAVES_MAX),
            pairs: Table::new(PAIRS_MAX),
            suspicions: VecDeque::new(),
            looks: VecDeque::new(),
            usual: VecDeque::new(),
            follows: 0,
        }
    }

    pub(super) fn saw(&mut self, seen: Seen) {
        match seen.act {
            Act::Followed | Act::Requested => {
                self.saw_follow(seen);
                self.saw_follower(seen);
            }
            Act::Ended => self.saw_end(seen),
        }
    }

    fn saw_follow(&mut self, Seen { follower, target, version, act }: Seen) {
        let (at, rules) = (version.millis(), self.rules);
        let Some(actor) = self.actors.entry(follower, at) else { return };
        actor.recent.push(target, version);
        let (kind, count, threshold) = match act {
            Act::Requested => (Kind::RequestFlood, actor.requests.add(at, Window::HOUR), rules.requests_per_hour),
            _ => (Kind::MassFollow, actor.follows.add(at, Window::HOUR), rules.follows_per_hour),
        };
        let compared = rules.look_alikes as usize;
        if compared > 0 && actor.recent.count >= compared && !actor.is_queued && self.looks.len() < SUSPICIONS_MAX {
            actor.is_queued = true;
            self.looks.push_back(follower);
        }
        if is_due(count, threshold) {
            let traces = traces_of(follower, actor);
            self.suspect(Suspicion { subject: Subject::actor(kind, follower), at, count, traces });
        }
    }

    fn saw_follower(&mut self, Seen { follower, target, version, .. }: Seen) {
        let (at, threshold) = (version.millis(), self.rules.surge_followers);
        self.follows = self.follows.wrapping_add(1);
        if self.usual.len() < USUAL_MAX || self.follows.is_multiple_of(USUAL_EVERY) {
            self.usual.truncate(USUAL_MAX - 1);
            self.usual.push_front((follower, target));
        }
        if threshold == 0 {
            return;
        }
        let Some(known) = self.targets.entry(target, at) else { return };
        let count = known.followers.add(at, Window::HOUR);
        if count < threshold.div_ceil(2) {
            return;
        }
        let Some(wave) = self.waves.entry(target, at) else { return };
        wave.followers.truncate(WAVE_MAX - 1);
        wave.followers.push_front((follower, version));
        if is_due(count, threshold) {
            self.suspect(Suspicion { subject: Subject::target(Kind::Surge, target), at, count, traces: Vec::new() });
        }
    }

    fn saw_end(&mut self, Seen { follower, target, version, .. }: Seen) {
        let at = version.millis();
        if let Some(actor) = self.actors.entry(follower, at) {
            let count = actor.ends.add(at, CHURN_WINDOW);
            if is_due(count, self.rules.churn_follows) {
                let subject = Subject::actor(Kind::FollowChurn, follower);
                self.suspect(Suspicion { subject, at, count, traces: Vec::new() });
            }
        }
        if self.rules.pair_flips == 0 {
            return;
        }
        let Some(pair) = self.pairs.entry((follower, target), at) else { return };
        let is_over = at.since_2000().saturating_sub(pair.since.since_2000()) > PAIR_WINDOW.as_millis() as u64;
        if pair.ends == 0 || is_over {
            *pair = Pair { since: at, ..Pair::default() };
        }
        pair.ends += 1;
        pair.flips.push(target, version);
        if is_due(pair.ends, self.rules.pair_flips) {
            let traces = pair.flips.iter().map(|(target, version)| Trace { version, follower, target }).collect();
            let subject = Subject { kind: Kind::PairChurn, actor: Some(follower), target: Some(target) };
            let count = pair.ends;
            self.suspect(Suspicion { subject, at, count, traces });
        }
    }

    /// The newer suspicion of one subject takes the place of the older one.
    fn suspect(&mut self, suspicion: Suspicion) {
        if let Some(known) = self.suspicions.iter_mut().rev().take(16).find(|known| known.subject == suspicion.subject)
        {
            *known = suspicion;
        } else if self.suspicions.len() < SUSPICIONS_MAX {
            self.suspicions.push_back(suspicion);
        }
    }

    pub(super) fn next_suspicion(&mut self) -> Option<Suspicion> {
        self.suspicions.pop_front()
    }

    /// The last targets of an actor who was not looked at since.
    pub(super) fn next_look(&mut self) -> Option<Suspicion> {
        loop {
            let follower = self.looks.pop_front()?;
            let Some(actor) = self.actors.get_mut(&follower) else { continue };
            actor.is_queued = false;
            let subject = Subject::actor(Kind::LookAlikes, follower);
            let traces = traces_of(follower, actor);
            let count = u32::try_from(traces.len()).unwrap_or(u32::MAX);
            let Some(at) = traces.last().map(|trace| trace.version.millis()) else { continue };
            return Some(Suspicion { subject, at, count, traces });
        }
    }

    /// The newest followers of a target, newest first.
    pub(super) fn wave(&self, target: Key) -> Vec<(Key, Version)> {
        self.waves.get(&target).map(|wave| wave.followers.iter().copied().collect()).unwrap_or_default()
    }

    /// Who else followed lately.
    pub(super) fn others(&self, target: Key) -> Vec<Key> {
        self.usual.iter().filter(|(_, followed)| *followed != target).map(|(follower, _)| *follower).collect()
    }

    /// How many actors, targets and edges are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.actors.len() + self.targets.len() + self.pairs.len() + self.waves.len()
    }
}

fn traces_of(follower: Key, actor: &Actor) -> Vec<Trace> {
    actor.recent.iter().map(|(target, version)| Trace { version, follower, target }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn seen(follower: i64, target: i64, number: u64) -> Seen {
        let version = Version::of_millis(Millis::from_since_2000(800_000_000_000 + number));
        Seen { follower: Key(follower), target: Key(target), version, act: Act::Followed }
    }

    fn drain(detector: &mut Detector) -> Vec<Suspicion> {
        std::iter::from_fn(|| detector.next_suspicion()).collect()
    }

    #[test]
    fn a_threshold_is_crossed_by_the_follow_that_reaches_it() {
        let mut detector = Detector::new(AbuseRules { follows_per_hour: 50, ..AbuseRules::default() });
        (0..49).for_each(|target| detector.saw(seen(1, target, 1)));
        assert_eq!(drain(&mut detector), []);
        detector.saw(seen(1, 49, 2));
        let found = drain(&mut detector);
        assert_eq!((found.len(), found[0].count), (1, 50));
        assert_eq!(found[0].subject, Subject::actor(Kind::MassFollow, Key(1)));
        assert_eq!(found[0].traces.last().map(|trace| trace.target), Some(Key(49)));
    }

    #[test]
    fn a_flood_stays_within_the_bounds_and_does_not_hide_who_goes_on() {
        let mut detector = Detector::new(AbuseRules::default());
        let mut found = Vec::new();
        for number in 0..1_000_000_u64 {
            let stranger = 1_000 + number as i64;
            detector.saw(seen(stranger, -stranger, number / 100));
            if number.is_multiple_of(1_000) {
                detector.saw(seen(7, number as i64, number / 100));
                detector.saw(Seen { act: Act::Ended, ..seen(8, 9, number / 100) });
            }
            if number.is_multiple_of(10_000) {
                found.extend(drain(&mut detector));
            }
        }
        found.extend(drain(&mut detector));
        assert!(detector.remembered() <= ACTORS_MAX + TARGETS_MAX + PAIRS_MAX + WAVES_MAX);
        assert!(detector.suspicions.len() <= SUSPICIONS_MAX && detector.looks.len() <= SUSPICIONS_MAX);
        let has = |subject: Subject| found.iter().any(|suspicion| suspicion.subject == subject);
        assert!(has(Subject::actor(Kind::MassFollow, Key(7))));
        assert!(has(Subject { kind: Kind::PairChurn, actor: Some(Key(8)), target: Some(Key(9)) }));
    }

    /// Printed, not asserted: no test depends on time.
    #[test]
    #[allow(clippy::print_stdout, reason = "a measurement")]
    fn how_many_follows_a_second_one_thread_looks_at() {
        let mut detector = Detector::new(AbuseRules::default());
        let (count, mut state) = (2_000_000_u64, 1_u64);
        let began = Instant::now();
        for number in 0..count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (follower, target) = ((state >> 33) as i64 % 1_000_000, (state >> 17) as i64 % 100_000);
            detector.saw(seen(follower, -target, number / 100));
            while detector.next_suspicion().is_some() {}
        }
        let passed = began.elapsed();
        let a_second = count as f64 / passed.as_secs_f64();
        println!("detectors: {a_second:.0} follows/s a thread, {:.2} % of one core at 100,000/s", 1e7 / a_second);
    }
}
