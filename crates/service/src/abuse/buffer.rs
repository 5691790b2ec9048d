//! Follows that were made and ended, between the commits and the detectors: compact, bounded, and never in the way of a
//! write. Where there are more than fit, the newest are not looked at, and counted as such.

use std::sync::atomic::{AtomicBool, Ordering};

use entourage_model::{Cause, Change, Event, EventBody, Key, Kind, Outcome, Result, State, Version};
use metrics::{Counter, counter};
use parking_lot::Mutex;

/// How many wait at most: about 8 MiB.
const WAITING_MAX: usize = 262_144;

/// What an actor did to an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Followed,
    Requested,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) follower: Key,
    pub(super) target: Key,
    pub(super) version: Version,
    pub(super) act: Act,
}

/// Only what an actor did counts: neither imports nor what others did to the actor's edges.
fn act(cause: Cause, before: Option<State>, after: Option<State>) -> Option<Act> {
    match (cause, before, after) {
        (Cause::Follower, None, Some(State::Active | State::Parked)) => Some(Act::Followed),
        (Cause::Follower, None, Some(State::Pending)) => Some(Act::Requested),
        (Cause::Follower, Some(_), None) => Some(Act::Ended),
        _ => None,
    }
}

impl Seen {
    pub(super) fn of_event(event: &Event) -> Option<Self> {
        let EventBody::Edge { kind: Kind::Follow, follower, target, cause, before, after, .. } = &event.body else {
            return None;
        };
        let act = act(*cause, *before, *after)?;
        Some(Self { follower: *follower, target: *target, version: event.version, act })
    }

    fn of_change(change: &Change, version: Version) -> Option<Self> {
        let Change::Edge(edge) = change else { return None };
        if edge.kind != Kind::Follow {
            return None;
        }
        let after = edge.after.is_live().then_some(edge.after.state);
        let act = act(edge.cause, edge.before.map(|value| value.state), after)?;
        Some(Self { follower: edge.follower, target: edge.target, version, act })
    }
}

pub(crate) struct Buffer {
    /// Somebody takes what is put here.
    is_read: AtomicBool,
    waiting: Mutex<Vec<Seen>>,
    dropped: Counter,
}

impl Default for Buffer {
    fn default() -> Self {
        let dropped = counter!("entourage_abuse_unseen_total");
        Self { is_read: AtomicBool::new(false), waiting: Mutex::default(), dropped }
    }
}

impl Buffer {
    /// Called with every outcome of this process.
    pub(crate) fn saw(&self, outcomes: &[Result<Outcome>]) {
        if !self.is_read.load(Ordering::Relaxed) {
            return;
        }
        let outcomes = outcomes.iter().flatten().filter(|outcome| !outcome.replayed);
        let mut seen = outcomes
            .flat_map(|outcome| outcome.changes.iter().filter_map(|change| Seen::of_change(change, outcome.version)))
            .peekable();
        if seen.peek().is_none() {
            return;
        }
        let mut waiting = self.waiting.lock();
        for seen in seen {
            if waiting.len() < WAITING_MAX {
                waiting.push(seen);
            } else {
                self.dropped.increment(1);
            }
        }
    }

    pub(super) fn start(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Nothing is kept from here on.
    pub(super) fn stop(&self) {
        self.is_read.store(false, Ordering::Relaxed);
        self.waiting.lock().clear();
    }

    /// Everything that waits; `spare` takes its place.
    pub(super) fn take(&self, spare: Vec<Seen>) -> Vec<Seen> {
        std::mem::replace(&mut *self.waiting.lock(), spare)
    }
}
