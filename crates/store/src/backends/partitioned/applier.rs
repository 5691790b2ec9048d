//! Applies published halves to the lists and totals of a home's users.

use entourage_model::{Half, Judgement, Kind, Result, User};

use super::{
    bug::Bug,
    engine::Engine,
    home::{Home, Outgoing},
    inbound::Rows,
    pace::Step,
};

/// What some halves come to, judged at one moment.
struct Judged {
    lineage: u64,
    revision: u64,
    from: u64,
    rows: Rows,
    /// Blocks, which have a commit of their own here.
    blocks: Vec<Outgoing>,
    corrections: Vec<(Half, Judgement, Option<User>)>,
}

impl Engine {
    /// Applies some halves. Says whether there were any.
    pub(super) async fn apply(&self, index: usize) -> Result<bool> {
        let (Some(home), Some(log)) = (self.homes.get(index), self.halves.get(index)) else { return Ok(false) };
        let from = home.lock().applied;
        let records = log.lock().read(from, self.batch);
        self.pace.pause(Step::Read).await;
        let Ok(records) = records else { return self.resync(index, from).await };
        if records.is_empty() {
            return Ok(false);
        }
        let to = from + records.len() as u64;
        self.take(index, from, to, &records).await?;
        Ok(true)
    }

    /// Applies these halves and notes that everything below `to` is.
    async fn take(&self, index: usize, from: u64, to: u64, records: &[Outgoing]) -> Result<()> {
        let Some(home) = self.homes.get(index) else { return Ok(()) };
        let judged = {
            let home = home.lock();
            self.judge(&home, from, records)
        };
        for (half, judgement, target) in &judged.corrections {
            self.correct(half, *judgement, target.clone()).await?;
        }
        for block in &judged.blocks {
            // What a home has lost is no block any more.
            let _lost = self.mirror(*block).await;
        }
        self.pace.pause(Step::Apply).await;
        let is_fenced = !self.has(Bug::ZombieApplies);
        let totals = {
            let mut home = home.lock();
            let is_current = (home.applied, home.lineage) == (judged.from, judged.lineage);
            if is_fenced && (!is_current || home.inbound.revision() != judged.revision) {
                return Ok(());
            }
            home.applied = to;
            if !self.has(Bug::TotalApart) {
                home.inbound.apply(judged.rows);
                return Ok(());
            }
            home.inbound.apply_edges(judged.rows.edges);
            judged.rows.totals
        };
        self.pace.pause(Step::Apply).await;
        home.lock().inbound.apply_totals(totals);
        Ok(())
    }

    fn judge(&self, home: &Home, from: u64, records: &[Outgoing]) -> Judged {
        let (lineage, revision) = (home.lineage, home.inbound.revision());
        let mut judged =
            Judged { lineage, revision, from, rows: Rows::default(), blocks: Vec::new(), corrections: Vec::new() };
        for record in records.iter().filter(|record| !self.is_lost(record)) {
            let half = &record.half;
            let link = (half.kind, half.follower, half.target);
            if half.kind == Kind::Block {
                judged.blocks.push(*record);
                continue;
            }
            // The greatest version wins; offsets say progress only.
            let known = home.inbound.known_with(&judged.rows, link);
            let is_old = known.is_some_and(|known| known.version >= half.after.version);
            if is_old && !self.has(Bug::TakesOldFollow) {
                continue;
            }
            let target = home.out.users_above(None).find(|user| user.key == half.target).cloned();
            match half.judge(target.as_ref()) {
                Judgement::TakeBack if self.has(Bug::InheritsFollowers) && target.is_some() => {}
                Judgement::Demote if self.has(Bug::LetsUnaskedIn) => {}
                Judgement::Take => {}
                judgement => {
                    let target = target.filter(|_| judgement != Judgement::TakeBack);
                    judged.corrections.push((*half, judgement, target));
                    continue;
                }
            }
            home.inbound.add(&mut judged.rows, half);
        }
        judged
    }

    /// The log does not go back as far as this home has come: what every home has of the targets is read instead.
    async fn resync(&self, index: usize, from: u64) -> Result<bool> {
        let Some(log) = self.halves.get(index) else { return Ok(false) };
        let end = log.lock().end();
        let lineage = self.lineage();
        for source in 0..self.homes.len() {
            self.pace.pause(Step::Read).await;
            let Some(home) = self.homes.get(source) else { continue };
            let records: Vec<Outgoing> = {
                let home = home.lock();
                let to_here = home.out.known_edges().filter(|((_, _, target), _)| self.is_home(index, *target));
                let outgoing = |half| Outgoing { source, lineage, sequence: home.last(), half };
                to_here.filter_map(|(link, _)| home.half_of(link)).map(outgoing).collect()
            };
            let last_one = source + 1 == self.homes.len();
            for (at, chunk) in records.chunks(self.batch).enumerate() {
                let is_last = last_one && (at + 1) * self.batch >= records.len();
                self.take(index, from, if is_last { end } else { from }, chunk).await?;
            }
            if last_one && records.is_empty() {
                self.take(index, from, end, &[]).await?;
            }
        }
        Ok(true)
    }
}
