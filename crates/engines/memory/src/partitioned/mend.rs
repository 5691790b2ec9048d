//! After a fork: the current state is republished to the homes that saw lost writes.

use entourage_model::{Cause, Half, Result, View};

use super::{
    engine::{Engine, Sent, unknown},
    fork::Fork,
    home::{Home, Outgoing},
    look::Others,
    pace::Step,
};

impl Engine {
    /// A home continues from an earlier state of itself; what it committed since is lost.
    pub fn fork(&self, earlier: Home) {
        let Some(home) = self.homes.get(earlier.index) else { return };
        let mut home = home.lock();
        let mut forks = self.forks.lock();
        forks.add(Fork { home: earlier.index, last: earlier.last(), commits: earlier.commits });
        home.go_back(earlier, forks.lineage());
    }

    /// Searches the in-halves of all homes for what the home has lost, and its own, which may be older than what others
    /// have lost and mended. Republishes it, at greater versions. Idempotent, and to be repeated if it was interrupted.
    pub async fn mend(&self, index: usize) -> Result<()> {
        let began = self.homes.get(index).map(|home| home.lock().lineage);
        for other in &self.homes {
            self.pace.pause(Step::Look).await;
            let heard: Vec<Half> = {
                let other = other.lock();
                let is_meant = |follower| other.index == index || self.is_home(index, follower);
                let own = other.inbound.all_known().filter(|((_, follower, _), _)| is_meant(*follower));
                own.map(|((kind, follower, target), after)| {
                    let created = other.out.user(target).map(|user| user.created).unwrap_or_default();
                    let cause = Cause::Follower;
                    Half { kind, follower, target, cause, after, created, decided_on: created }
                })
                .collect()
            };
            for half in heard {
                self.restate(self.home_of(half.follower), &half).await?;
            }
        }
        self.publish_again(index).await;
        self.mirror_again(index).await?;
        self.pace.pause(Step::Advance).await;
        for home in &self.homes {
            let mut home = home.lock();
            // It may have gone back once more.
            if home.index == index && began == Some(home.lineage) || home.mended.is_some() {
                home.mended = Some(home.last());
            }
        }
        Ok(())
    }

    /// What the home republishes without a change: its half may have been judged by what is lost.
    async fn publish_again(&self, index: usize) {
        let Some(home) = self.homes.get(index) else { return };
        self.pace.pause(Step::Look).await;
        let lineage = self.lineage().0;
        let halves: Vec<Outgoing> = {
            let home = home.lock();
            let outgoing = |half| Outgoing { source: index, lineage, sequence: home.last(), half };
            home.out.known_edges().filter_map(|(link, _)| home.half_of(link)).map(outgoing).collect()
        };
        for outgoing in halves {
            let half = &outgoing.half;
            let known = self.home(half.target).lock().inbound.known((half.kind, half.follower, half.target));
            let is_behind = known.map_or(half.after.is_live(), |known| known.version < half.after.version);
            if is_behind && let Some(log) = self.halves.get(self.home_of(half.target)) {
                self.pace.pause(Step::Publish).await;
                log.lock().append(outgoing);
            }
        }
    }

    /// Blocks that the home, back in this state, does not know to be mirrored, though their half may be published.
    async fn mirror_again(&self, index: usize) -> Result<()> {
        let Some(home) = self.homes.get(index) else { return Ok(()) };
        let lineage = self.lineage().0;
        let blocks: Vec<Outgoing> = {
            let home = home.lock();
            home.unmirrored.keys().filter_map(|(actor, target)| home.block(*actor, *target, lineage)).collect()
        };
        for block in blocks {
            self.mirror(block, false).await?;
        }
        Ok(())
    }

    /// It means the same person, and is judged by what it was decided on: an account that went private meanwhile gets a
    /// request.
    async fn restate(&self, index: usize, half: &Half) -> Result<()> {
        let Some(home) = self.homes.get(index) else { return Ok(()) };
        loop {
            self.pace.pause(Step::Correct).await;
            let prepared = {
                let mut home = home.lock();
                let known = home.out.known_edge((half.kind, half.follower, half.target));
                if known.is_some_and(|known| known.version >= half.after.version) {
                    return Ok(());
                }
                if known.is_none_or(|known| !known.is_live()) && !half.after.is_live() {
                    return Ok(());
                }
                home.prepare_half(
                    half.follower,
                    self.now(index),
                    half.after.version,
                    Others::default(),
                    |look, version| Ok(Some(half.restate(look, version))),
                )?
            };
            let Some(prepared) = prepared else { return Ok(()) };
            match self.send(prepared).await {
                Sent::Made(..) => return Ok(()),
                Sent::Outrun | Sent::NotMade => {}
                Sent::Unknown => return Err(unknown()),
            }
        }
    }
}
