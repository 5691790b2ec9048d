//! The log of edges replayed: the state at every moment.

use std::collections::{BTreeMap, HashMap, HashSet};

use entourage_model::{Cause, Event, EventBody, Key, Kind, Sequence, State, Version};

pub(super) type Link = (Kind, Key, Key);

/// One event of an edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) sequence: Sequence,
    pub(super) version: Version,
    pub(super) state: Option<State>,
    pub(super) quiet: bool,
    pub(super) by_block: bool,
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    links: HashMap<Link, Vec<Moment>>,
    pub(super) last: Sequence,
}

impl Timeline {
    /// Replays the events that concern `users`, and reports what cannot have happened in this order.
    pub(super) fn replay(events: &[Event], mark: Sequence, users: &HashSet<Key>, problems: &mut Vec<String>) -> Self {
        let mut timeline = Self { last: mark, ..Self::default() };
        // The block whose commit is being read: after its last event no follow may be left beside it.
        let mut block: Option<(Version, Key, Key)> = None;
        for event in events {
            if block.is_some_and(|(version, ..)| version != event.version) {
                timeline.end_block(block.take(), problems);
            }
            timeline.last = event.sequence;
            let EventBody::Edge { kind, follower, target, cause, before, after, quiet, .. } = event.body else {
                continue;
            };
            if !users.contains(&follower) || !users.contains(&target) || kind == Kind::Mute {
                continue;
            }
            let (link, sequence) = ((kind, follower, target), event.sequence);
            let known = timeline.end(link);
            if known.is_some_and(|known| known.version >= event.version) {
                problems.push(format!("event {sequence} does not raise the version of {link:?}"));
            }
            if before != known.and_then(|known| known.state) {
                problems.push(format!("event {sequence} on {link:?} begins at {before:?}, not where {known:?} ended"));
            }
            let new_follow = kind == Kind::Follow && before.is_none() && after.is_some();
            if new_follow && (timeline.blocks(follower, target) || timeline.blocks(target, follower)) {
                problems.push(format!("event {sequence} follows {follower} → {target} beside a block"));
            }
            let by_block = cause == Cause::Block;
            let moment = Moment { sequence, version: event.version, state: after, quiet, by_block };
            timeline.links.entry(link).or_default().push(moment);
            if kind == Kind::Block && after.is_some() {
                block = Some((event.version, follower, target));
            }
        }
        timeline.end_block(block, problems);
        timeline
    }

    fn end_block(&self, block: Option<(Version, Key, Key)>, problems: &mut Vec<String>) {
        let Some((version, by, whom)) = block else { return };
        for link in [(Kind::Follow, by, whom), (Kind::Follow, whom, by)] {
            if self.end(link).is_some_and(|moment| moment.state.is_some()) {
                problems.push(format!("{link:?} outlived the block of version {version}"));
            }
        }
    }

    fn blocks(&self, by: Key, whom: Key) -> bool {
        self.end((Kind::Block, by, whom)).is_some_and(|moment| moment.state.is_some())
    }

    /// The final state of the edge.
    pub(super) fn end(&self, link: Link) -> Option<Moment> {
        self.moments(link).last().copied()
    }

    pub(super) fn moments(&self, link: Link) -> &[Moment] {
        self.links.get(&link).map_or(&[], Vec::as_slice)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = (Link, &[Moment])> {
        self.links.iter().map(|(link, moments)| (*link, moments.as_slice()))
    }

    /// Whether the edge was (or was not) there at some moment from `low` to `high`.
    pub(super) fn was(&self, link: Link, there: bool, low: Sequence, high: Sequence) -> bool {
        let moments = self.moments(link);
        let at_low = moments.iter().rev().find(|moment| moment.sequence <= low).and_then(|moment| moment.state);
        let between = moments.iter().filter(|moment| moment.sequence > low && moment.sequence <= high);
        at_low.is_some() == there || between.into_iter().any(|moment| moment.state.is_some() == there)
    }
}

/// For any tick, the extreme watermark on one side of it.
#[derive(Debug, Default)]
pub(super) struct Bounds(BTreeMap<u64, Sequence>);

impl Bounds {
    /// The greatest watermark acked before each tick.
    pub(super) fn acked(mut points: Vec<(u64, Sequence)>) -> Self {
        points.sort_unstable();
        let mut greatest = Sequence::ZERO;
        Self(
            points
                .into_iter()
                .map(|(tick, watermark)| {
                    greatest = greatest.max(watermark);
                    (tick, greatest)
                })
                .collect(),
        )
    }

    /// The least sequence of what was requested after each tick.
    pub(super) fn asked(mut points: Vec<(u64, Sequence)>) -> Self {
        points.sort_unstable();
        let mut least = Sequence(u64::MAX);
        let backwards = points.into_iter().rev().map(|(tick, sequence)| {
            least = least.min(sequence);
            (tick, least)
        });
        Self(backwards.collect())
    }

    pub(super) fn before(&self, tick: u64) -> Option<Sequence> {
        self.0.range(..tick).next_back().map(|(_, sequence)| *sequence)
    }

    pub(super) fn after(&self, tick: u64) -> Option<Sequence> {
        self.0.range(tick + 1..).next().map(|(_, sequence)| *sequence)
    }
}
