//! The planted store with a life after `close`: another one is made from its outcomes, or from most of them.

use std::sync::Arc;

use entourage_model::{Event, Outcome, Version, VersionClock};
use parking_lot::Mutex;

use super::{
    Bug,
    store::{Inner, Planted},
};
use crate::conformance::Fixture;
use entourage_store::Store;

pub(super) fn planted_durable(bug: Bug) -> Fixture {
    let first = Arc::new(Planted::new(bug, true, Inner::default()));
    let current = Arc::new(Mutex::new(Arc::clone(&first)));
    Fixture::from(first as Arc<dyn Store>).reopened_by(move |_| {
        let mut current = current.lock();
        let next = Arc::new(Planted::new(bug, true, restored(bug, current.outcomes())));
        *current = Arc::clone(&next);
        async move { next as Arc<dyn Store> }
    })
}

fn restored(bug: Bug, mut outcomes: Vec<Outcome>) -> Inner {
    if bug == Bug::ReopensWithoutTheLast {
        outcomes.pop();
    }
    let mut inner = Inner::default();
    for mut outcome in outcomes {
        if bug == Bug::ReopensWithoutKeys {
            outcome.idempotency = None;
        }
        if bug == Bug::ReopensWithoutQuotas {
            outcome.quota = None;
        }
        inner.graph.apply(&outcome);
        for (sequence, change) in outcome.numbered_changes() {
            inner.events.push(Event::of(sequence, outcome.version, change));
        }
        inner.changes = inner.events.len() as u64;
        let last = inner.versions.as_ref().map_or(Version::ZERO, VersionClock::last);
        if bug != Bug::ReopensWithItsClockBack {
            inner.versions = Some(VersionClock::new(0, last.max(outcome.version)));
        }
        inner.outcomes.push(outcome);
    }
    inner
}
