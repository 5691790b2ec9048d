//! Writes of other servers: the store's events, applied in order, and how stale they are.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use entourage_model::{
    Change as Changed, Code, Error, Event, EventBody, EventPosition, Outcome, Result, Sequence, State, Watermark,
};

use super::{Shared, gate::millis, row::Change, rows::Source};
use crate::{Covered, Progress, Whose};

/// How many moments are kept until the events have caught up with them, spread over twice the permitted lag.
const MOMENTS_MAX: usize = 64;
/// A store that is away fails at once; when it is back that is to be noticed soon.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Enough to reach the longest pause.
const QUIET_MAX: u32 = 1_000;

/// The position of the event reader.
#[derive(Default)]
pub(super) struct Position {
    /// Everything up to here is in memory. `None`: nothing is, and nothing is held.
    pub(super) applied: Option<Sequence>,
    /// When the store was asked, and the newest possible watermark then.
    moments: VecDeque<(u64, Sequence)>,
}

impl Shared {
    /// Until the process or the layer ends.
    pub(super) async fn follow_events(self: Arc<Self>) {
        let (mut failures, mut quiet) = (0u32, 0u32);
        loop {
            let wait = match failures {
                // The longer nothing happens, the rarer the store is asked.
                0 => self.options.interval.saturating_mul(quiet + 1).min(self.idle_interval()),
                _ => self.options.interval.saturating_mul(1 << failures.min(10)).min(RETRY_MAX),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => {}
            }
            crate::fail_point("cache-tail");
            let before = self.gate.covered();
            failures = match self.pass().await {
                Ok(()) => {
                    quiet = if self.gate.covered() == before { quiet.saturating_add(1).min(QUIET_MAX) } else { 0 };
                    0
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::warn!(%error, "the cache hears nothing of the store; reads will ask it instead");
                    }
                    failures.saturating_add(1)
                }
            };
            self.measures.tell(&self.rows, &self.gate);
        }
    }

    /// A third of the permitted lag: two questions may go wrong before memory is too old.
    fn idle_interval(&self) -> Duration {
        (self.options.lag_max / 3).max(self.options.interval)
    }

    /// Applies new events, and learns how fresh that makes memory.
    pub(super) async fn pass(&self) -> Result<()> {
        if !self.has_one_log() {
            return Err(Error::new(
                Code::Unavailable,
                "the cached layer follows one log of events, and this store has several",
            ));
        }
        let mut position = self.position.lock().await;
        self.enter_lineage(&mut position).await?;
        let moment = self.gate.now();
        let progress = self.inner.progress(0).await?;
        match self.catch_up(&mut position, progress).await {
            Ok(()) => {}
            Err(error) if error.code() == Code::EventsExpired => self.begin_anew(&mut position, progress, &error),
            Err(error) => return Err(error),
        }
        self.gate.set_listed(progress.listed);
        self.gate.cover(progress.covered);
        self.rows.passed(progress.covered, &self.gate);
        let spread = millis(self.options.lag_max) * 2 / MOMENTS_MAX as u64;
        if position.moments.back().is_none_or(|(last, _)| moment >= last.saturating_add(spread)) {
            position.moments.push_back((moment, progress.newest));
        }
        if progress.newest <= progress.covered {
            self.gate.refresh(moment);
        }
        while let Some(&(moment, newest)) = position.moments.front() {
            if newest <= progress.covered {
                self.gate.refresh(moment);
            } else if position.moments.len() <= MOMENTS_MAX {
                break;
            }
            position.moments.pop_front();
        }
        Ok(())
    }

    /// A store that was restarted goes on where it was; one that lost its newest events does not.
    async fn enter_lineage(&self, position: &mut Position) -> Result<()> {
        let lineage = self.inner.lineage();
        if lineage == self.gate.lineage() {
            return Ok(());
        }
        if let Some(applied) = position.applied {
            let read = Watermark::new(self.gate.lineage(), [applied]);
            if self.inner.covers(&read, Whose::Everybody).await? != Covered::Yes {
                let progress = self.inner.progress(0).await?;
                let reason = Error::new(Code::EventsExpired, "the store has lost events that were read");
                self.begin_in(position, progress, &reason, true);
            }
        }
        self.gate.set_lineage(lineage);
        Ok(())
    }

    async fn catch_up(&self, position: &mut Position, progress: Progress) -> Result<()> {
        let mut applied = match position.applied {
            Some(applied) if applied <= progress.listed => applied,
            Some(_) => return Err(Error::new(Code::EventsExpired, "the store has fewer events than before")),
            None => {
                // Users erased before the first poll were missed.
                self.rows.ids.clear();
                position.applied = Some(progress.listed);
                progress.listed
            }
        };
        if progress.listed.0 - applied.0 > self.options.replay_max {
            return Err(Error::new(Code::EventsExpired, "more events are waiting than are worth reading"));
        }
        while applied < progress.listed {
            let left = usize::try_from(progress.listed.0 - applied.0).unwrap_or(usize::MAX);
            let after = EventPosition { lineage: self.gate.lineage(), partition: 0, offset: applied };
            let events = self.inner.events(after, left.min(self.options.batch_events)).await?;
            let is_gapless = (applied.0 + 1..).zip(&events).all(|(next, event)| event.sequence == Sequence(next));
            let Some(last) = events.last().filter(|_| is_gapless) else {
                return Err(Error::new(Code::EventsExpired, "events are missing"));
            };
            applied = last.sequence;
            self.take_in(&events, progress.covered);
            position.applied = Some(applied);
        }
        Ok(())
    }

    /// Events were lost: nothing held can be trusted.
    fn begin_anew(&self, position: &mut Position, progress: Progress, reason: &Error) {
        let is_older = position.applied.is_some_and(|applied| applied > progress.listed);
        self.begin_in(position, progress, reason, is_older || self.inner.lineage() != self.gate.lineage());
    }

    /// `has_lost`: the store no longer has all that was read.
    fn begin_in(&self, position: &mut Position, progress: Progress, reason: &Error, has_lost: bool) {
        tracing::warn!(%reason, "the cache begins anew");
        if has_lost {
            // Before the rows go: fills that start from now on read the current store.
            self.gate.go_back(progress.covered);
            position.moments.clear();
            self.rows.begin_anew();
        } else {
            self.rows.clear();
        }
        position.applied = Some(progress.listed);
    }

    fn take_in(&self, events: &[Event], covered: Sequence) {
        let mut changes = Vec::with_capacity(events.len());
        for Event { version, body, .. } in events {
            match *body {
                EventBody::Edge { kind, follower, target, cause, after, .. } => {
                    let state = after.unwrap_or(State::Removed);
                    changes.push(Change { kind, follower, target, state, version: *version, cause });
                }
                EventBody::User { key, after: None, .. } => self.rows.erase(key, *version),
                EventBody::User { key, .. } => self.rows.erased.exists(key, *version),
                EventBody::Record { .. } => {}
            }
        }
        self.rows.apply(&changes, Source::Events(covered));
    }

    /// The changes of a write of this process, before anybody else sees them.
    pub(super) fn committed(&self, outcome: &Outcome) {
        let mut changes = Vec::with_capacity(outcome.changes.len());
        for change in &outcome.changes {
            match change {
                Changed::Edge(edge) => changes.push(Change {
                    kind: edge.kind,
                    follower: edge.follower,
                    target: edge.target,
                    state: edge.after.state,
                    version: edge.after.version,
                    cause: edge.cause,
                }),
                Changed::User(user) if user.after.is_none() => self.rows.erase(user.key, outcome.version),
                Changed::User(user) => self.rows.erased.exists(user.key, outcome.version),
                Changed::Record(_) => {}
            }
        }
        if !outcome.changes.is_empty() {
            self.gate.wrote(outcome.watermark.sequence());
        }
        if !changes.is_empty() {
            self.rows.apply(&changes, Source::Outcome(outcome.watermark.sequence(), &self.gate));
            self.rows.bound_changes(&self.gate);
        }
    }
}
