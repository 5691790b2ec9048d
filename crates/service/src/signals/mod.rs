//! Signals: who looked at whose profile, as a service reports it. Hints for suggestions, kept as decaying counters in
//! memory and saved now and then: a crash may lose the newest.

mod counters;
mod snapshot;

use std::{collections::HashMap, sync::Arc, time::Duration};

use entourage_model::{Change, Error, Key, Millis, Outcome, RecordId, Result, UserChange, UserId, Version};
use parking_lot::Mutex;

use self::counters::Counters;
pub use self::counters::VIEWED_MAX;
use crate::{Call, Context};

/// How many signals one request may have.
pub const SIGNALS_MAX: usize = 1_000;
/// How many views one signal may stand for.
pub const SIGNAL_COUNT_MAX: u32 = 1_000;
/// How many counters are kept of everybody together: some 50 MB, or 150 where every viewer has a single one.
pub const COUNTERS_MAX: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRules {
    /// How long a signal counts.
    pub kept: Duration,
    /// Of everybody together; the weakest go first.
    pub counters_max: usize,
}

impl Default for SignalRules {
    fn default() -> Self {
        Self { kept: Duration::from_secs(30 * 24 * 60 * 60), counters_max: COUNTERS_MAX }
    }
}

/// One user looked at another's profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub viewer: UserId,
    pub viewed: UserId,
    /// How often.
    pub count: u32,
    /// When; `None` is now.
    pub at: Option<Millis>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signalled {
    pub accepted: u64,
    /// Of unknown users, of oneself, or too old to count.
    pub ignored: u64,
}

/// What outcomes change: an erased user is forgotten.
pub(crate) type SharedCounters = Arc<SignalCounters>;

pub(crate) struct SignalCounters(Mutex<Counters>);

impl SignalCounters {
    pub(crate) fn new(rules: &SignalRules) -> Self {
        Self(Mutex::new(Counters::new(rules)))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Counters> {
        self.0.lock()
    }

    pub(crate) fn saw(&self, outcome: &Outcome) {
        for change in &outcome.changes {
            if let Change::User(UserChange { key, after: None, .. }) = change {
                self.lock().forget(*key);
            }
        }
    }
}

/// Takes signals, and says whom a user looked at.
pub struct Signals {
    context: Arc<Context>,
    counters: SharedCounters,
    saving: tokio::sync::Mutex<()>,
    /// Which version of a saved chunk was read or written last: what others have not changed since is not read again.
    known: Mutex<HashMap<RecordId, Version>>,
}

impl Signals {
    pub(crate) fn new(context: Arc<Context>, counters: SharedCounters) -> Self {
        Self { context, counters, saving: tokio::sync::Mutex::default(), known: Mutex::default() }
    }

    /// Counts signals. Those of the future count as of now.
    pub async fn signal(&self, call: &Call, signals: &[Signal]) -> Result<Signalled> {
        call.must_be_service()?;
        if signals.len() > SIGNALS_MAX {
            return Err(
                Error::invalid("too many signals in one request").at("/signals", format!("at most {SIGNALS_MAX}"))
            );
        }
        for (index, signal) in signals.iter().enumerate() {
            if signal.count == 0 || signal.count > SIGNAL_COUNT_MAX {
                let path = format!("/signals/{index}/count");
                return Err(Error::invalid("this is no number of views").at(path, format!("1 to {SIGNAL_COUNT_MAX}")));
            }
        }
        let ids = |end: fn(&Signal) -> &UserId| signals.iter().map(end).cloned().collect::<Vec<UserId>>();
        let viewers = self.context.present_keys(&ids(|signal| &signal.viewer)).await?;
        let viewed = self.context.present_keys(&ids(|signal| &signal.viewed)).await?;
        let now = self.context.clock.now();
        let mut done = Signalled::default();
        let mut counters = self.counters.lock();
        for ((signal, viewer), viewed) in signals.iter().zip(viewers).zip(viewed) {
            let at = signal.at.unwrap_or(now).min(now);
            match (viewer, viewed) {
                (Some(viewer), Some(viewed)) if viewer != viewed && counters.counts(at, now) => {
                    counters.add(viewer, viewed, signal.count, at);
                    done.accepted += 1;
                }
                _ => done.ignored += 1,
            }
        }
        counters.show();
        Ok(done)
    }

    /// Whom this user looked at, the most and latest first, then by key; each with a weight that halves as time passes.
    pub(crate) fn viewed(&self, viewer: Key, limit: usize) -> Vec<(Key, f64)> {
        self.counters.lock().viewed(viewer, limit, self.context.clock.now())
    }

    /// The same for an operator and for tests: by ids.
    pub async fn viewed_by(&self, call: &Call, viewer: &UserId) -> Result<Vec<(UserId, f64)>> {
        call.must_be_service()?;
        let viewer = self.context.stored_user(viewer).await?.key;
        let found = self.viewed(viewer, VIEWED_MAX);
        let keys: Vec<Key> = found.iter().map(|(key, _)| *key).collect();
        let users = self.context.users_by_key(&keys).await?;
        Ok(found.into_iter().filter_map(|(key, weight)| Some((users.get(&key)?.id.clone(), weight))).collect())
    }

    /// How many counters there are.
    pub fn counters(&self) -> usize {
        self.counters.lock().len()
    }

    /// Whether something differs from what was saved.
    pub(crate) fn has_changed(&self) -> bool {
        self.counters.lock().has_changed()
    }

    /// Loads what was saved, and saves again when the server stops.
    pub(crate) async fn run(&self) {
        let mut closed = self.context.hub.closed();
        if let Err(error) = self.load().await {
            tracing::warn!(code = error.code().as_str(), "saved signals were not loaded: {}", error.detail());
        }
        let _ = closed.wait_for(|closed| *closed).await;
        if let Err(error) = self.save().await {
            tracing::warn!(code = error.code().as_str(), "signals were not saved: {}", error.detail());
        }
    }
}
