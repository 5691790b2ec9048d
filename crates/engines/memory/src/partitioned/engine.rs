//! All homes: how a commit reaches one, and what lies outside them.

#[cfg(feature = "planted")]
use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(feature = "planted")]
use entourage_model::Version;
use entourage_model::{Buckets, Clock, Error, Key, Millis, Outcome};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    bug::{Bug, Planted},
    commit::{Known, Prepared},
    fork::Forks,
    home::{End, Home, Outgoing},
    inbound::Inbound,
    log::Log,
    pace::{Fate, Pace, Step},
    route,
};

/// Nothing was written, and nothing ever will be.
pub const NOT_WRITTEN: &str = "the write was not made; try again";

pub struct Engine {
    pub homes: Vec<Mutex<Home>>,
    /// Published halves: one log for the targets of each home.
    pub halves: Vec<Mutex<Log>>,
    pub forks: Mutex<Forks>,
    /// Commits in flight for longer than anybody waits.
    pub late: Mutex<Vec<Prepared>>,
    /// Woken when there is something to publish.
    pub relays: Vec<Notify>,
    /// Woken when there is something to apply.
    pub appliers: Vec<Notify>,
    pub clocks: Vec<Arc<dyn Clock>>,
    pub pace: Arc<dyn Pace>,
    pub planted: Planted,
    /// How many halves are published or applied in one step.
    pub batch: usize,
    /// Commits that were reported as not made, by home and version.
    #[cfg(feature = "planted")]
    pub refused: Mutex<Vec<(usize, Version)>>,
    /// Halves that became something else in their follower's home instead of an in-half.
    #[cfg(feature = "planted")]
    pub corrected: Mutex<BTreeSet<(super::inbound::Link, Version)>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// How many halves are published or applied in one step.
    pub batch: usize,
    /// The most rows in one bucket of a list.
    pub bucket_rows: usize,
}

/// The outcome of a commit that was sent.
#[derive(Debug)]
pub enum Sent {
    Made(Box<Outcome>, End),
    /// Something has changed since it was decided.
    Outrun,
    NotMade,
    Unknown,
}

impl Engine {
    /// One home for each clock.
    pub fn new(clocks: Vec<Arc<dyn Clock>>, pace: Arc<dyn Pace>, planted: Planted, sizes: Sizes) -> Self {
        let buckets = route::buckets(clocks.len());
        let home = |index| Mutex::new(Home::new(index, buckets, Inbound::new(sizes.bucket_rows, planted)));
        Self {
            homes: (0..clocks.len()).map(home).collect(),
            halves: clocks.iter().map(|_| Mutex::default()).collect(),
            forks: Mutex::default(),
            late: Mutex::default(),
            relays: clocks.iter().map(|_| Notify::new()).collect(),
            appliers: clocks.iter().map(|_| Notify::new()).collect(),
            clocks,
            pace,
            planted,
            batch: sizes.batch,
            #[cfg(feature = "planted")]
            refused: Mutex::default(),
            #[cfg(feature = "planted")]
            corrected: Mutex::default(),
        }
    }

    pub fn has(&self, bug: Bug) -> bool {
        self.planted.is(bug)
    }

    /// How many homes there are.
    pub fn count(&self) -> u16 {
        u16::try_from(self.homes.len()).unwrap_or(u16::MAX)
    }

    pub fn buckets(&self) -> Buckets {
        route::buckets(self.homes.len())
    }

    pub fn home_of(&self, key: Key) -> usize {
        route::home_of(key, self.homes.len())
    }

    #[allow(clippy::indexing_slicing, reason = "the hash of a key is taken modulo the number of homes")]
    pub fn home(&self, key: Key) -> &Mutex<Home> {
        &self.homes[self.home_of(key)]
    }

    pub fn now(&self, home: usize) -> Millis {
        self.clocks.get(home).map(|clock| clock.now()).unwrap_or_default()
    }

    pub fn is_lost(&self, from: &Outgoing) -> bool {
        self.forks.lock().lost(from.lineage, from.source, from.sequence).is_some()
    }

    fn make(&self, prepared: &Prepared) -> Option<End> {
        let end =
            self.homes.get(prepared.home)?.lock().commit(prepared, &self.forks.lock(), self.has(Bug::CommitsOutrun))?;
        if let Some(relay) = self.relays.get(prepared.home) {
            relay.notify_one();
        }
        Some(end)
    }

    /// Sends a commit to its home and returns its outcome, with certainty if that can be known.
    pub async fn send(&self, prepared: Prepared) -> Sent {
        self.pace.pause(Step::Commit).await;
        match self.pace.fate() {
            Fate::Answered => {
                return match self.make(&prepared) {
                    Some(end) => Sent::Made(Box::new(prepared.outcome), end),
                    None => Sent::Outrun,
                };
            }
            Fate::Unanswered => {
                self.make(&prepared);
            }
            Fate::Late => self.late.lock().push(prepared.clone()),
            Fate::Lost => {}
        }
        self.pace.pause(Step::Doubt).await;
        let Some(home) = self.homes.get(prepared.home) else { return Sent::Unknown };
        let mut home = home.lock();
        match home.burn(&prepared, self.has(Bug::RefusesSleeping)) {
            Known::Made => Sent::Made(Box::new(prepared.outcome), home.end()),
            Known::NotMade => {
                #[cfg(feature = "planted")]
                self.refused.lock().push((prepared.home, prepared.outcome.version));
                Sent::NotMade
            }
            Known::Unknown => Sent::Unknown,
        }
    }

    /// A commit in flight arrives.
    #[cfg(feature = "planted")]
    pub fn arrive(&self, index: usize) {
        let prepared = self.late.lock().swap_remove(index);
        self.make(&prepared);
    }

    /// Users of other homes are no concern of this one.
    pub fn is_home(&self, home: usize, key: Key) -> bool {
        self.home_of(key) == home
    }
}

pub fn unknown() -> Error {
    Error::unavailable("it is not known whether the write was made; ask again, with the same Idempotency-Key")
}
