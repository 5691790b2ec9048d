//! Removes what is left of an erased user: their own edges in their home, those of others each in its own.

use std::collections::BTreeMap;

use entourage_model::{CHUNK_MAX, Change, Error, Judgement, Key, Outcome, Reply, Result, View, Write};
use smallvec::SmallVec;

use super::{
    engine::{Engine, NOT_WRITTEN, Sent, unknown},
    home::End,
    inbound::Link,
    look::{Look, Others},
    pace::Step,
    write::Written,
};

type Changes = SmallVec<[Change; 1]>;

impl Engine {
    /// The edges of others go first: once they are gone, a repetition has only the user's own left. What is to go is
    /// decided once, so that concurrent commits change nothing.
    pub async fn erase_edges(&self, write: &Write, key: Key) -> Result<Written> {
        let (index, home) = (self.home_of(key), self.home(key));
        let foreign = |change: &Change| match change {
            Change::Edge(edge) if change.owner() != key => Some((edge.kind, edge.follower, edge.target)),
            _ => None,
        };
        let (mut found, mut done) = (None, BTreeMap::<Link, Changes>::new());
        let lineage = self.lineage();
        loop {
            let others = self.look(write, index).await;
            self.pace.pause(Step::Decide).await;
            let (mut prepared, end) = {
                let mut home = home.lock();
                let look = Look { home: &home, at: key, others: &Others::default() };
                let found = found.get_or_insert_with(|| look.edges_of(key, CHUNK_MAX + 1)).clone();
                let others = Others { found: Some(found), ..others };
                (home.prepare(key, self.now(index), write, others)?, home.end())
            };
            let links: Vec<Link> = prepared.outcome.changes.iter().filter_map(foreign).collect();
            for link in &links {
                if !done.contains_key(link) {
                    done.insert(*link, self.take_back(*link).await?);
                }
            }
            // Another worker may have removed some already.
            let missed = links.iter().filter(|link| done.get(link).is_none_or(|done| done.is_empty())).count();
            leave_out(&mut prepared.outcome, missed);
            let whole = with(&prepared.outcome.changes, &links, &done);
            prepared.outcome.changes.retain(|change| foreign(change).is_none());
            let (outcome, end) = match prepared.writes() {
                false => (prepared.outcome, end),
                true => match self.send(prepared).await {
                    Sent::Made(outcome, end) => (*outcome, end),
                    Sent::Outrun => continue,
                    Sent::NotMade => return Err(Error::unavailable(NOT_WRITTEN)),
                    Sent::Unknown => return Err(unknown()),
                },
            };
            // A home that went back meanwhile may have lost what was taken back there: a repetition finds the rest.
            if !done.is_empty() && self.lineage() != lineage {
                return Err(unknown());
            }
            let outcome = Outcome { changes: whole, ..outcome };
            let mut ends: SmallVec<[End; 2]> = SmallVec::new();
            for (owner, _) in outcome.changes_by_owner() {
                let end = self.home(owner).lock().end();
                ends.retain(|known| known.home != end.home);
                ends.push(end);
            }
            ends.push(end);
            return Ok(Written { outcome, ends });
        }
    }

    /// Removes another user's edge to an erased user in their home, and then its in-half, as it became there. Returns
    /// the change.
    async fn take_back(&self, link: Link) -> Result<Changes> {
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

fn leave_out(outcome: &mut Outcome, missed: usize) {
    if let Reply::EdgesErased { removed, .. } = &mut outcome.reply {
        *removed = removed.saturating_sub(u32::try_from(missed).unwrap_or(u32::MAX));
    }
    if let Some(record) = &mut outcome.idempotency {
        record.reply = outcome.reply;
    }
}

/// The changes of all homes: each edge of another user as it became in its own, and last the records removed with it.
fn with(decided: &Changes, links: &[Link], done: &BTreeMap<Link, Changes>) -> Changes {
    let became = |change: &Change| match change {
        Change::Edge(edge) => match done.get(&(edge.kind, edge.follower, edge.target)) {
            Some(done) => done.first().cloned(),
            None => Some(change.clone()),
        },
        _ => Some(change.clone()),
    };
    let edges = decided.iter().filter_map(became);
    let records = links.iter().filter_map(|link| done.get(link)).flat_map(|done| done.iter().skip(1).cloned());
    edges.chain(records).collect()
}
