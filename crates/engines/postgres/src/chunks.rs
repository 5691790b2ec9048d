//! Many writes of one caller: cut into chunks that are queued in their order and committed side by side.
//!
//! Chunks that want the same lock keep their order in the queue. Whatever has no lock in common may be committed in any
//! order: no decision depends on it. What fits one chunk is in order altogether.

use std::{collections::VecDeque, sync::Arc};

use entourage_model::{Error, Operation, Outcome, Result, Write};
use hashbrown::HashMap;
use tokio::task::JoinHandle;

use super::{
    Engine,
    lock::{Locks, Wanted, union},
    wants,
};

/// What a caller asked for, in order.
enum Part {
    /// As large as it may be: it goes beside its neighbours.
    Full(Vec<Write>, Wanted),
    /// After everything before it, and before everything after it.
    Single(Vec<Write>, Wanted),
    /// PostgreSQL could not store it.
    Refused(Error),
}

/// A full chunk on its way.
struct UnderWay {
    count: usize,
    task: JoinHandle<Vec<Result<Outcome>>>,
}

impl UnderWay {
    async fn outcomes(self) -> Vec<Result<Outcome>> {
        let ended = |error| Error::internal("a chunk of writes ended early").caused_by(error);
        self.task.await.unwrap_or_else(|error| vec![Err(ended(error)); self.count])
    }
}

impl Engine {
    /// Each by itself, in order.
    pub(super) async fn commit_all(self: &Arc<Self>, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let able = match self.breaker.check() {
            Ok(()) => self.must_be_able_to_write().await,
            Err(away) => Err(away.into()),
        };
        if let Err(error) = able {
            return vec![Err(error); writes.len()];
        }
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        for part in Cutter::new(self.locks, self.options.chunk, self.locks_max).cut(writes) {
            // One more than are written at a time, so that no writer waits for this caller.
            let most = if matches!(part, Part::Full(..)) { self.options.writers } else { 0 };
            while under_way.len() > most
                && let Some(first) = under_way.pop_front()
            {
                outcomes.extend(first.outcomes().await);
            }
            match part {
                Part::Refused(error) => outcomes.push(Err(error)),
                Part::Single(writes, locks) => {
                    outcomes.extend(Arc::clone(self).finish(self.enqueue(writes, locks)).await);
                }
                // Queued here, so that chunks keep their order, and written in a task of its own.
                Part::Full(writes, locks) => {
                    let (count, queued) = (writes.len(), self.enqueue(writes, locks));
                    under_way.push_back(UnderWay { count, task: tokio::spawn(Arc::clone(self).finish(queued)) });
                }
            }
        }
        for left in under_way {
            outcomes.extend(left.outcomes().await);
        }
        self.fold_sometimes().await;
        self.tidy_sometimes().await;
        outcomes
    }
}

/// Chunks of so many writes at most, with so many locks. What is decided alone is one by itself.
struct Cutter {
    names: Locks,
    writes_max: usize,
    locks_max: usize,
    parts: Vec<Part>,
    writes: Vec<Write>,
    locks: HashMap<i64, bool>,
}

impl Cutter {
    fn new(names: Locks, writes_max: usize, locks_max: usize) -> Self {
        let (parts, writes, locks) = (Vec::new(), Vec::new(), HashMap::new());
        Self { names, writes_max, locks_max, parts, writes, locks }
    }

    fn cut(mut self, writes: Vec<Write>) -> Vec<Part> {
        for write in writes {
            if let Err(error) = refuse_nul(&write.operation) {
                self.end(Part::Single);
                self.parts.push(Part::Refused(error));
                continue;
            }
            let is_alone = wants::is_alone(&write.operation);
            let locks = self.names.of(&write);
            if is_alone {
                self.end(Part::Single);
            } else if self.locks.len() + locks.len() > self.locks_max {
                self.end(Part::Full);
            }
            self.writes.push(write);
            for (number, exclusive) in locks {
                *self.locks.entry(number).or_default() |= exclusive;
            }
            if is_alone {
                self.end(Part::Single);
            } else if self.writes.len() >= self.writes_max {
                self.end(Part::Full);
            }
        }
        // The last one of many is as good as full.
        let is_one_of_many = matches!(self.parts.last(), Some(Part::Full(..)));
        self.end(if is_one_of_many { Part::Full } else { Part::Single });
        self.parts
    }

    fn end(&mut self, part: fn(Vec<Write>, Wanted) -> Part) {
        if !self.writes.is_empty() {
            let locks = union(self.locks.drain());
            self.parts.push(part(std::mem::take(&mut self.writes), locks));
        }
    }
}

/// PostgreSQL's text holds every character but this one.
fn refuse_nul(operation: &Operation) -> Result<()> {
    let Operation::PutUser { patch, .. } = operation else { return Ok(()) };
    for (pointer, field) in [("/name", &patch.name), ("/avatar_url", &patch.avatar_url)] {
        if field.iter().flatten().any(|text| text.contains('\0')) {
            return Err(Error::invalid("a text has a NUL character").at(pointer, "must not contain NUL"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use entourage_model::{Key, Millis, Overwrite, UserPatch};

    use super::*;

    #[test]
    fn chunks_are_bounded_and_keep_the_order() {
        let put = |key: i64, name: &str| {
            let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
            Write::from(Operation::PutUser { key: Key(key), id: key.into(), patch, overwrite: Overwrite::Keep })
        };
        let alone = || Write::from(Operation::EraseEdges { key: Key(7), limit: 1 });
        let writes = vec![put(1, "a"), put(2, "b"), put(3, "c"), alone(), put(4, "\0"), put(5, "d"), alone()];
        let sizes = |writes: Vec<Write>, writes_max, locks_max| -> Vec<usize> {
            let parts = Cutter::new(Locks::new(7), writes_max, locks_max).cut(writes);
            let size = |part: &Part| match part {
                Part::Full(writes, locks) | Part::Single(writes, locks) => {
                    assert!(locks.len() <= locks_max || writes.len() == 1);
                    writes.len()
                }
                Part::Refused(_) => 0,
            };
            parts.iter().map(size).collect()
        };
        assert_eq!(sizes(writes, 2, 100), [2, 1, 1, 0, 1, 1]);
        assert!(sizes(Vec::new(), 2, 100).is_empty());
        let import = |target: i64| {
            let (follower, target) = (Key(0), Key(target));
            Write::from(Operation::Import { follower, target, at: Millis::default(), quiet: false })
        };
        // The first one has two users, a pair and a load; the others have a user and a pair more.
        assert_eq!(sizes((1..=7).map(import).collect(), 100, 10), [3, 3, 1]);
        assert_eq!(sizes((1..=3).map(import).collect(), 100, 1), [1, 1, 1]);
    }
}
