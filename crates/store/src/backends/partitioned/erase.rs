//! Takes away what is left of an erased user: their own edges in their home, those of others each in its own.

use entourage_model::{Change, Error, Judgement, Key, Outcome, Result, Write};
use smallvec::SmallVec;

use super::{
    engine::{Engine, NOT_WRITTEN, Sent, unknown},
    inbound::Link,
    pace::Step,
    write::Written,
};

impl Engine {
    pub(super) async fn erase_edges(&self, write: &Write, key: Key) -> Result<Written> {
        let (index, home) = (self.home_of(key), self.home(key));
        loop {
            let others = self.look(write, index).await;
            self.pace.pause(Step::Decide).await;
            let (mut prepared, last) = {
                let mut home = home.lock();
                (home.prepare(key, self.now(index), write, others)?, home.last())
            };
            let foreign = |change: &Change| match change {
                Change::Edge(edge) if edge.follower != key => Some((edge.kind, edge.follower, edge.target)),
                _ => None,
            };
            let links: Vec<Link> = prepared.outcome.changes.iter().filter_map(foreign).collect();
            let (mut whole, mut ends) = (prepared.outcome.changes.clone(), SmallVec::new());
            for link in links {
                let done = self.take_back(link).await?;
                let is_this = |change: &Change| foreign(change) == Some(link);
                for change in done {
                    match whole.iter_mut().find(|known| is_this(known)) {
                        Some(known) if is_this(&change) => *known = change,
                        // With a mute goes the record of its end.
                        _ => whole.push(change),
                    }
                }
                let home = self.home_of(link.1);
                ends.retain(|(known, _)| *known != home);
                ends.push((home, self.home(link.1).lock().last()));
            }
            prepared.outcome.changes.retain(|change| foreign(change).is_none());
            if !prepared.writes() {
                let outcome = Outcome { changes: whole, ..prepared.outcome };
                ends.push((index, last));
                return Ok(Written { outcome, ends });
            }
            match self.send(prepared).await {
                Sent::Made(mut outcome, last) => {
                    outcome.changes = whole;
                    ends.push((index, last));
                    return Ok(Written { outcome: *outcome, ends });
                }
                Sent::Outrun => {}
                Sent::NotMade => return Err(Error::unavailable(NOT_WRITTEN)),
                Sent::Unknown => return Err(unknown()),
            }
        }
    }

    /// Removes somebody's edge to an erased user in their home, and then its in-half, as it became there. What changed.
    async fn take_back(&self, link: Link) -> Result<SmallVec<[Change; 1]>> {
        let (_, follower, target) = link;
        self.pace.pause(Step::Look).await;
        let half = self.home(follower).lock().half_of(link);
        let done = match half.filter(|half| half.after.is_live()) {
            Some(half) => self.correct(&half, Judgement::TakeBack, None).await?,
            None => None,
        };
        self.pace.pause(Step::Apply).await;
        let half = self.home(follower).lock().half_of(link);
        if let Some(half) = half.filter(|half| !half.after.is_live()) {
            self.home(target).lock().inbound.take(&half, false);
        }
        Ok(done.map(|outcome| outcome.changes).unwrap_or_default())
    }
}
