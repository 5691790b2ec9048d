//! Writes that wait for a writer, and which of them may be in one batch.
//!
//! A lock that a batch of this process has is known here: writes that need it stay in the queue instead of being sent
//! to PostgreSQL only to miss it. Whatever stays keeps its turn: later writes do not overtake it on the same lock.
//!
//! A writer is one of the callers: it commits batches until its own write is done, and then hands over to one who waits.

use std::{collections::VecDeque, sync::Arc};

use entourage_model::{Error, Outcome, Result, Version, Write};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::lock::Wanted;

/// How far behind the front a writer looks for something that it may take.
const LOOK_AHEAD: usize = 1_024;

/// What a caller who waits is told.
pub(super) enum Message {
    Done(Vec<Result<Outcome>>),
    /// It is a writer from now on.
    Write(Writer),
}

pub(super) type Messages = mpsc::UnboundedReceiver<Message>;

/// Writes of one caller, decided in their order and next to each other.
pub(super) struct Chunk {
    pub(super) writes: Vec<Write>,
    /// A write that is tried again keeps its version unless somebody has written above it meanwhile.
    pub(super) versions: Vec<Version>,
    pub(super) locks: Wanted,
    /// It may not share a batch.
    pub(super) is_alone: bool,
    caller: Option<mpsc::UnboundedSender<Message>>,
    held: Option<Held>,
}

impl Chunk {
    pub(super) fn new(writes: Vec<Write>, locks: Wanted, is_alone: bool) -> Self {
        let versions = vec![Version::ZERO; writes.len()];
        Self { writes, versions, locks, is_alone, caller: None, held: None }
    }

    /// Its locks are free from now on.
    pub(super) fn answer(mut self, outcomes: Vec<Result<Outcome>>) {
        self.held = None;
        if let Some(caller) = self.caller.take() {
            // A caller who is gone has been told that nobody knows.
            let _ = caller.send(Message::Done(outcomes));
        }
    }

    fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(mpsc::UnboundedSender::is_closed)
    }
}

/// Locks of a chunk that is being committed.
struct Held {
    queue: Arc<Queue>,
    locks: Wanted,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        for &(number, exclusive) in &self.locks {
            if let Some(holders) = state.held.get_mut(&number) {
                holders.count(exclusive, |count| count.saturating_sub(1));
                if holders.is_free() {
                    state.held.remove(&number);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    shared: u32,
    exclusive: u32,
}

impl Holders {
    fn count(&mut self, exclusive: bool, change: impl Fn(u32) -> u32) {
        let count = if exclusive { &mut self.exclusive } else { &mut self.shared };
        *count = change(*count);
    }

    const fn is_free(&self) -> bool {
        self.shared == 0 && self.exclusive == 0
    }

    const fn excludes(&self, exclusive: bool) -> bool {
        self.exclusive > 0 || (exclusive && self.shared > 0)
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Chunk>,
    held: HashMap<i64, Holders>,
    writers: usize,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

/// A place among the writers of a queue. Dropped, it is free.
pub(super) struct Writer {
    queue: Arc<Queue>,
    is_counted: bool,
}

impl Queue {
    /// Where the caller learns its outcomes; and it is a writer, if there are fewer than `most`.
    pub(super) fn push(self: &Arc<Self>, mut chunk: Chunk, most: usize) -> (Messages, Option<Writer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        chunk.caller = Some(sender);
        let mut state = self.state.lock();
        state.waiting.push_back(chunk);
        let writer = self.hire(&mut state, most);
        (receiver, writer)
    }

    /// Locks were freed: whoever waits for them writes, unless there are enough writers, who look for themselves.
    pub(super) fn wake(self: &Arc<Self>, most: usize) {
        let writer = self.hire(&mut self.state.lock(), most);
        drop(writer);
    }

    /// Answers everything that no writer has taken: it will not be written.
    pub(super) fn refuse_waiting(&self, error: &Error) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        for chunk in waiting {
            let outcomes = vec![Err(error.clone()); chunk.writes.len()];
            chunk.answer(outcomes);
        }
    }

    fn hire(self: &Arc<Self>, state: &mut State, most: usize) -> Option<Writer> {
        if state.writers >= most {
            return None;
        }
        state.writers += 1;
        Some(Writer { queue: Arc::clone(self), is_counted: true })
    }
}

impl Writer {
    /// The next batch, of at most this many writes. Without one the writer is free: whoever holds what the rest waits
    /// for looks again afterwards.
    pub(super) fn next(mut self, most: usize) -> Option<(Self, Vec<Chunk>)> {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.state.lock();
        let mut batch = state.pick(most);
        if batch.is_empty() {
            state.writers = state.writers.saturating_sub(1);
            self.is_counted = false;
            return None;
        }
        for chunk in &mut batch {
            for &(number, exclusive) in &chunk.locks {
                state.held.entry(number).or_default().count(exclusive, |count| count + 1);
            }
            chunk.held = Some(Held { queue: Arc::clone(&queue), locks: chunk.locks.clone() });
        }
        Some((self, batch))
    }
}

impl Drop for Writer {
    /// Hands over to the last caller who came: that one has the most time left.
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut state = self.queue.state.lock();
        for chunk in state.waiting.iter().rev() {
            let Some(caller) = chunk.caller.as_ref().filter(|caller| !caller.is_closed()) else { continue };
            let next = Self { queue: Arc::clone(&self.queue), is_counted: true };
            match caller.send(Message::Write(next)) {
                Ok(()) => return,
                // It left at this moment: what was meant for it must not be handed over again here.
                Err(mpsc::error::SendError(message)) => {
                    if let Message::Write(mut unsent) = message {
                        unsent.is_counted = false;
                    }
                }
            }
        }
        state.writers = state.writers.saturating_sub(1);
    }
}

impl State {
    fn pick(&mut self, most: usize) -> Vec<Chunk> {
        let (mut batch, mut writes): (Vec<Chunk>, usize) = (Vec::new(), 0);
        let mut kept: HashMap<i64, Holders> = HashMap::new();
        let (mut place, mut looked) = (0, 0);
        while looked < LOOK_AHEAD
            && let Some(chunk) = self.waiting.get(place)
        {
            looked += 1;
            if chunk.is_abandoned() {
                self.waiting.remove(place);
                continue;
            }
            let excluded = |holders: &HashMap<i64, Holders>| {
                let is_excluded = |&(number, exclusive): &(i64, bool)| {
                    holders.get(&number).is_some_and(|holders| holders.excludes(exclusive))
                };
                !holders.is_empty() && chunk.locks.iter().any(is_excluded)
            };
            let has_room = batch.is_empty() || (!chunk.is_alone && writes + chunk.writes.len() <= most);
            if excluded(&self.held) || excluded(&kept) || !has_room {
                for &(number, exclusive) in &chunk.locks {
                    kept.entry(number).or_default().count(exclusive, |count| count + 1);
                }
                place += 1;
                continue;
            }
            let Some(chunk) = self.waiting.remove(place) else { break };
            writes += chunk.writes.len();
            let is_full = chunk.is_alone || writes >= most;
            batch.push(chunk);
            if is_full {
                break;
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::Operation;

    use super::*;

    fn push(queue: &Arc<Queue>, locks: &[(i64, bool)], is_alone: bool) -> Messages {
        let chunk = Chunk::new(vec![Operation::Nothing.into()], locks.to_vec(), is_alone);
        let (receiver, writer) = queue.push(chunk, 1);
        // Stays counted, so that the test alone decides who writes.
        std::mem::forget(writer);
        receiver
    }

    fn writer(queue: &Arc<Queue>) -> Writer {
        Writer { queue: Arc::clone(queue), is_counted: false }
    }

    fn numbers(batch: &[Chunk]) -> Vec<i64> {
        batch.iter().map(|chunk| chunk.locks[0].0).collect()
    }

    #[test]
    fn what_is_locked_here_stays_and_is_not_overtaken() {
        let queue = Arc::new(Queue::default());
        let _first = push(&queue, &[(1, false), (2, true)], false);
        let (_, first) = writer(&queue).next(64).unwrap();
        // Shares 1; waits for 2; would share 1, but comes after somebody who wants it alone; has nothing to do with it.
        let waiting = [
            push(&queue, &[(1, false), (3, true)], false),
            push(&queue, &[(2, true), (7, true)], false),
            push(&queue, &[(1, true)], false),
            push(&queue, &[(1, false), (4, true)], false),
            push(&queue, &[(5, true)], false),
        ];
        let (_, second) = writer(&queue).next(64).unwrap();
        assert_eq!(numbers(&second), [1, 5]);
        assert!(writer(&queue).next(64).is_none());
        first.into_iter().for_each(|chunk| chunk.answer(Vec::new()));
        let (_, third) = writer(&queue).next(64).unwrap();
        assert_eq!(numbers(&third), [2], "1 is still shared by the second batch");
        drop((second, third));
        assert_eq!(numbers(&writer(&queue).next(64).unwrap().1), [1, 1], "both in one batch, in their order");
        drop(waiting);
    }

    #[test]
    fn batches_are_bounded_and_some_writes_are_alone() {
        let queue = Arc::new(Queue::default());
        let waiting: Vec<_> = (0..5).map(|number| push(&queue, &[(number, true)], number == 2)).collect();
        let mut sizes = Vec::new();
        while let Some((_, batch)) = writer(&queue).next(2) {
            sizes.push(numbers(&batch));
        }
        assert_eq!(sizes, [vec![0, 1], vec![2], vec![3, 4]]);
        assert_eq!(waiting.len(), 5);
    }

    #[test]
    fn a_writer_that_ends_hands_over_to_one_who_waits() {
        let queue = Arc::new(Queue::default());
        let chunk = |number| Chunk::new(vec![Operation::Nothing.into()], vec![(number, true)], false);
        let (_first, writer) = queue.push(chunk(1), 1);
        let (gone, none) = queue.push(chunk(2), 1);
        let (mut third, also_none) = queue.push(chunk(3), 1);
        assert!(none.is_none() && also_none.is_none());
        let (writer, batch) = writer.unwrap().next(1).unwrap();
        drop((gone, batch, writer));
        let Ok(Message::Write(next)) = third.try_recv() else { panic!("nobody writes") };
        let (next, batch) = next.next(64).unwrap();
        assert_eq!(numbers(&batch), [3]);
        drop((next, batch));
        assert!(queue.push(chunk(4), 1).1.is_some(), "with nobody waiting the place is free");
    }

    #[test]
    fn what_waits_is_refused_and_what_was_taken_is_not() {
        let queue = Arc::new(Queue::default());
        let mut taken = push(&queue, &[(1, true)], false);
        let (_, batch) = writer(&queue).next(64).unwrap();
        let mut waiting = [push(&queue, &[(1, true)], false), push(&queue, &[(2, true)], false)];
        queue.refuse_waiting(&Error::unavailable("away"));
        for messages in &mut waiting {
            let Ok(Message::Done(outcomes)) = messages.try_recv() else { panic!("nothing is said") };
            assert!(outcomes.len() == 1 && outcomes[0].is_err());
        }
        assert!(taken.try_recv().is_err(), "its writer answers");
        drop(batch);
        assert!(writer(&queue).next(64).is_none());
    }

    #[test]
    fn whoever_is_gone_is_left_out() {
        let queue = Arc::new(Queue::default());
        drop(push(&queue, &[(1, true)], false));
        let _kept = push(&queue, &[(1, true)], false);
        assert_eq!(writer(&queue).next(64).unwrap().1.len(), 1);
    }
}
