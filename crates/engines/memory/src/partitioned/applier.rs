//! Applies published halves to the lists and totals of a home's users.

use entourage_model::{Cause, EdgeValue, Half, Judgement, Kind, Result, State, User, View};

use super::{
    bug::Bug,
    engine::Engine,
    home::{Home, Outgoing},
    inbound::Rows,
    pace::Step,
};

/// The effect of some halves, judged at one moment.
struct Judged {
    /// What another home has lost since no longer counts.
    forks: u64,
    revision: u64,
    rows: Rows,
    corrections: Vec<(Half, Judgement, Option<User>)>,
}

/// The progress of a home. A fork in between loses what was applied, and the blocks, which have commits of their own: a
/// step that began before it must not continue, though the offset may be the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    applied: u64,
    lineage: u64,
}

impl Standing {
    const fn of(home: &Home) -> Self {
        Self { applied: home.applied, lineage: home.lineage }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Applied,
    /// Something has changed since they were judged.
    Outrun,
    /// Another applier has come further.
    Fenced,
}

impl Engine {
    /// Applies some halves. Returns whether there were any.
    pub async fn apply(&self, index: usize) -> Result<bool> {
        let (Some(home), Some(log)) = (self.homes.get(index), self.halves.get(index)) else { return Ok(false) };
        let from = Standing::of(&home.lock());
        let records = log.lock().read(from.applied, self.batch);
        self.pace.pause(Step::Read).await;
        let Ok(records) = records else { return self.resync(index, from).await };
        if records.is_empty() {
            return Ok(false);
        }
        let to = from.applied + records.len() as u64;
        self.take(index, from, to, &records).await?;
        Ok(true)
    }

    /// Applies these halves and notes that everything below `to` is applied. Halves judged by something that has
    /// changed since are not.
    async fn take(&self, index: usize, from: Standing, to: u64, records: &[Outgoing]) -> Result<Taken> {
        let Some(home) = self.homes.get(index) else { return Ok(Taken::Fenced) };
        for block in records.iter().filter(|record| record.half.kind == Kind::Block && !self.is_lost(record)) {
            let is_mirrored = self.mirror(*block, self.has(Bug::TakesLateBlock)).await;
            if is_mirrored.is_err() && !self.is_lost(block) {
                return Ok(Taken::Outrun);
            }
        }
        let judged = {
            let home = home.lock();
            self.judge(&home, records)
        };
        for (half, judgement, target) in &judged.corrections {
            self.correct(half, *judgement, target.clone()).await?;
        }
        self.pace.pause(Step::Apply).await;
        let is_fenced = !self.has(Bug::ZombieApplies);
        let totals = {
            let mut home = home.lock();
            if is_fenced && Standing::of(&home) != from {
                return Ok(Taken::Fenced);
            }
            if is_fenced && (home.inbound.revision(), self.lineage().0) != (judged.revision, judged.forks) {
                return Ok(Taken::Outrun);
            }
            home.applied = to;
            if !self.has(Bug::TotalApart) {
                home.inbound.apply(judged.rows);
                return Ok(Taken::Applied);
            }
            home.inbound.apply_edges(judged.rows.edges);
            judged.rows.totals
        };
        self.pace.pause(Step::Apply).await;
        home.lock().inbound.apply_totals(totals);
        Ok(Taken::Applied)
    }

    fn judge(&self, home: &Home, records: &[Outgoing]) -> Judged {
        let (forks, revision) = (self.lineage().0, home.inbound.revision());
        let (rows, corrections) = (Rows::default(), Vec::new());
        let mut judged = Judged { forks, revision, rows, corrections };
        let others = records.iter().filter(|record| record.half.kind != Kind::Block && !self.is_lost(record));
        for half in others.map(|record| &record.half) {
            let link = (half.kind, half.follower, half.target);
            // The greatest version wins; offsets are only progress.
            let known = home.inbound.known_with(&judged.rows, link);
            let is_old = known.is_some_and(|known| known.version >= half.after.version);
            if is_old && !self.has(Bug::TakesOldFollow) {
                continue;
            }
            let target = home.out.user(half.target);
            match half.judge(target.as_ref()) {
                Judgement::TakeBack if self.has(Bug::InheritsFollowers) && target.is_some() => {}
                Judgement::Demote if self.has(Bug::LetsUnaskedIn) => {}
                // A request that was accepted is not demoted: what the target's side made active was parked.
                Judgement::Demote if self.has(Bug::ReleasesUnasked) && half.cause == Cause::Target => {}
                Judgement::Take => {}
                judgement => {
                    let target = target.filter(|_| judgement != Judgement::TakeBack);
                    judged.corrections.push((*half, judgement, target));
                    continue;
                }
            }
            match half.after.state {
                State::Parked if self.has(Bug::ShowsParked) => {
                    let after = EdgeValue { state: State::Active, ..half.after };
                    home.inbound.add(&mut judged.rows, &Half { after, ..*half });
                }
                _ => home.inbound.add(&mut judged.rows, half),
            }
        }
        judged
    }

    /// The log is truncated above this home's offset: the edges of every home to its users are read instead.
    async fn resync(&self, index: usize, from: Standing) -> Result<bool> {
        let Some(log) = self.halves.get(index) else { return Ok(false) };
        let end = log.lock().end();
        for source in 0..self.homes.len() {
            self.pace.pause(Step::Read).await;
            let Some(home) = self.homes.get(source) else { continue };
            let records: Vec<Outgoing> = {
                let home = home.lock();
                let lineage = self.lineage().0;
                let to_here = home.out.known_edges().filter(|((_, _, target), _)| self.is_home(index, *target));
                let outgoing = |half| Outgoing { source, lineage, sequence: home.last(), half };
                to_here.filter_map(|(link, _)| home.half_of(link)).map(outgoing).collect()
            };
            for chunk in records.chunks(self.batch) {
                while match self.take(index, from, from.applied, chunk).await? {
                    Taken::Outrun => true,
                    Taken::Applied => false,
                    Taken::Fenced => return Ok(true),
                } {}
            }
        }
        while self.take(index, from, end, &[]).await? == Taken::Outrun {}
        Ok(true)
    }
}

#[cfg(all(test, feature = "planted"))]
mod tests {
    use std::sync::{Arc, OnceLock, Weak};

    use async_trait::async_trait;
    use entourage_model::{
        Clock, Key, List, ManualClock, Millis, Operation, Overwrite, Plane, Side, UserId, UserPatch,
    };
    use parking_lot::Mutex;

    use super::*;
    use crate::partitioned::{
        bug::Planted,
        engine::Sizes,
        pace::{Fate, Pace},
    };
    use entourage_testkit::conformance::block_on;

    /// Loses the next commit, and makes its home go back before anybody can ask for the outcome.
    #[derive(Default)]
    struct Doubtful {
        engine: OnceLock<Weak<Engine>>,
        forks: Mutex<Option<usize>>,
    }

    #[async_trait]
    impl Pace for Doubtful {
        async fn pause(&self, step: Step) {
            let engine = self.engine.get().and_then(Weak::upgrade);
            if step == Step::Doubt
                && let (Some(home), Some(engine)) = (self.forks.lock().take(), engine)
            {
                let now = engine.homes[home].lock().clone();
                engine.fork(now);
            }
        }

        fn fate(&self) -> Fate {
            if self.forks.lock().is_some() { Fate::Lost } else { Fate::Answered }
        }
    }

    fn put(key: Key, private: bool) -> Operation {
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Replace }
    }

    #[test]
    fn nothing_is_skipped_when_it_cannot_be_applied() {
        let pace = Arc::new(Doubtful::default());
        let now = Millis::from_since_2000(850_000_000_000);
        let clocks = (0..4).map(|_| Arc::new(ManualClock::new(now)) as Arc<dyn Clock>).collect();
        let sizes = Sizes { batch: 8, bucket_rows: 4 };
        let engine = Arc::new(Engine::new(clocks, Arc::clone(&pace) as _, Planted::default(), sizes));
        pace.engine.set(Arc::downgrade(&engine)).unwrap();
        block_on(async {
            let target = Key(0);
            let follower = (1..).map(Key).find(|key| engine.home_of(*key) != engine.home_of(target)).unwrap();
            let [home, source] = [target, follower].map(|key| engine.home_of(key));
            let follow = Operation::Follow { follower, target, quiet: None, cap: None, park: false };
            for operation in [put(target, false), put(follower, false), follow, put(target, true)] {
                engine.write(&operation.into()).await.unwrap();
            }
            assert!(engine.relay(source).await);
            let applied = || engine.homes[home].lock().applied;
            let total = |plane| engine.page(List::new(target, plane, Side::Followers), None, 9, false).total;
            // The follow is to become a request in its own home, with an unknown outcome.
            *pace.forks.lock() = Some(source);
            engine.apply(home).await.unwrap_err();
            assert_eq!([applied(), total(Plane::Follow), total(Plane::Request)], [0, 0, 0]);
            assert!(engine.apply(home).await.unwrap(), "it is tried again");
            assert!(engine.relay(source).await);
            assert!(engine.apply(home).await.unwrap());
            assert_eq!([applied(), total(Plane::Follow), total(Plane::Request)], [2, 0, 1]);
        });
    }
}
