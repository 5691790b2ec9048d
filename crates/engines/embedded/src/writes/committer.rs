//! The second half of a commit: a decided batch is made durable, applied to the state, and answered.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use entourage_model::{Error, Key, Millis, Outcome, Result, Sequence};
use tokio::sync::oneshot;

use crate::{
    engine::Engine,
    fault::Fault,
    log::{self, FrameBuilder, SegmentFile, seals::Seal, segments::Segment},
};

/// The users a write names, with the ordinals they had when it was decided.
pub(crate) type Parties = [(Key, Option<u32>); 2];

/// A batch: what was decided, and from which result on it is not durable yet.
pub(crate) struct Batch {
    pub(crate) results: Vec<Result<Outcome>>,
    parties: Vec<Parties>,
    durable: usize,
    pub(crate) frame: FrameBuilder,
}

impl Batch {
    pub(crate) fn new(writes: usize, last: Sequence) -> Self {
        let (results, parties) = (Vec::with_capacity(writes), Vec::with_capacity(writes));
        Self { results, parties, durable: 0, frame: FrameBuilder::new(last) }
    }

    pub(crate) fn push(&mut self, result: Result<Outcome>, parties: Parties) {
        self.results.push(result);
        self.parties.push(parties);
    }

    /// Begins a part that is decided after everything so far is durable or has failed.
    pub(crate) fn begin_part(&mut self, last: Sequence) {
        self.durable = self.results.len();
        self.frame = FrameBuilder::new(last);
    }

    /// Fails what is not durable yet.
    pub(crate) fn fail(&mut self, fault: &Fault) {
        let error = Error::from(fault.clone());
        self.results.iter_mut().skip(self.durable).for_each(|result| *result = Err(error.clone()));
    }

    fn undurable(&self) -> impl Iterator<Item = (&Outcome, &Parties)> {
        let decided = iter::zip(&self.results, &self.parties).skip(self.durable);
        decided.filter_map(|(result, parties)| Some((result.as_ref().ok()?, parties)))
    }
}

/// The callers of a batch.
pub(crate) enum Replies {
    /// Each gets this many of its results.
    Each(Vec<(oneshot::Sender<Vec<Result<Outcome>>>, usize)>),
    Whole(oneshot::Sender<Vec<Result<Outcome>>>),
}

impl Replies {
    /// A caller that no longer waits has its outcome in the log.
    fn send(self, results: Vec<Result<Outcome>>) {
        let replies = match self {
            Self::Whole(reply) => return drop(reply.send(results)),
            Self::Each(replies) => replies,
        };
        let mut results = results.into_iter();
        for (reply, count) in replies {
            let _ = reply.send(results.by_ref().take(count).collect());
        }
    }
}

/// A batch with everything its commit needs.
pub(crate) struct Flight {
    pub(crate) batch: Batch,
    /// The last sequence before the batch.
    pub(crate) before: Sequence,
    pub(crate) newest: Millis,
    pub(crate) replies: Replies,
}

/// Used by one thread at a time.
pub(crate) struct Committer {
    engine: Arc<Engine>,
    /// Log bytes since the last checkpoint began.
    pub(crate) logged: AtomicU64,
    /// The last frame is not covered by a seal yet.
    pub(crate) unsealed: AtomicBool,
}

impl Committer {
    pub(crate) const fn new(engine: Arc<Engine>) -> Self {
        Self { engine, logged: AtomicU64::new(0), unsealed: AtomicBool::new(false) }
    }

    pub(crate) fn run(&self, mut flight: Flight) -> Result<(), Fault> {
        let result = self.commit(&mut flight.batch, flight.before, flight.newest);
        flight.replies.send(flight.batch.results);
        result
    }

    /// Makes the frame durable and applies its outcomes, or fails all of them.
    pub(crate) fn commit(&self, batch: &mut Batch, before: Sequence, newest: Millis) -> Result<(), Fault> {
        if batch.frame.is_empty() {
            return Ok(());
        }
        let _gate = self.engine.gate.lock();
        entourage_store::fail_point("commit");
        let started = Instant::now();
        self.write(&mut batch.frame, before, newest).inspect_err(|fault| batch.fail(fault))?;
        self.engine.metrics.batch(&self.engine, batch.results.len() - batch.durable, started.elapsed());
        self.engine.state.apply(batch.undurable());
        for (outcome, _) in batch.undurable() {
            if let Some(record) = outcome.idempotency.as_deref().filter(|_| !outcome.replayed) {
                self.engine.idempotency.insert(*record);
            }
        }
        self.engine.state.publish(before.plus(u64::from(batch.frame.changes())));
        Ok(())
    }

    fn write(&self, frame: &mut FrameBuilder, before: Sequence, newest: Millis) -> Result<(), Fault> {
        self.engine.poisoned()?;
        let (segment, offset) = self.room(frame.len(), before)?;
        let changes = frame.changes();
        match log::write_frame(&segment, offset, frame) {
            Ok(end) => {
                if let Some(segment) = self.engine.segments.lock().all.back_mut() {
                    segment.note(before, changes, newest, end);
                }
                self.logged.fetch_add(end - offset, Ordering::Relaxed);
                self.unsealed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                let fault = Fault::from(error);
                self.engine.poison(&fault);
                Err(fault)
            }
        }
    }

    /// The segment for a frame, a new one if necessary, and the offset. On failure nothing was written.
    fn room(&self, bytes: usize, before: Sequence) -> Result<(SegmentFile, u64), Fault> {
        let number = match self.engine.segments.lock().all.back() {
            Some(active) if active.has_room(bytes as u64) => return Ok((SegmentFile::clone(active), active.end)),
            active => active.map_or(1, |segment| segment.number + 1),
        };
        let taken = self.engine.next_segment.take(&self.engine, number);
        let file = taken.inspect_err(|fault| self.engine.has_no_segment(fault))?;
        self.engine.has_segment();
        let segment = Segment::new(file.clone(), before);
        let end = segment.end;
        self.engine.segments.lock().all.push_back(segment);
        self.engine.next_segment.want(number + 1);
        Ok((file, end))
    }

    /// Continues in a new segment, which gets a frame at once: recovery may begin there.
    pub(crate) fn begin_segment(&self, last: Sequence) -> Result<(), Fault> {
        self.engine.poisoned()?;
        let _gate = self.engine.gate.lock();
        let (segment, offset) = self.room(usize::MAX >> 1, last)?;
        let written = log::write_frame(&segment, offset, &mut FrameBuilder::new(last)).map_err(Fault::from);
        let end = written.inspect_err(|fault| self.engine.poison(fault))?;
        if let Some(segment) = self.engine.segments.lock().all.back_mut() {
            segment.end = end;
        }
        self.unsealed.store(true, Ordering::Relaxed);
        self.seal(last);
        self.engine.poisoned()
    }

    /// Records how far the log is durable, should its bytes ever rot.
    pub(crate) fn seal(&self, last: Sequence) {
        let checkpoint = self.engine.checkpoint_number.load(Ordering::Acquire);
        let has_news = self.unsealed.swap(false, Ordering::Relaxed) || self.engine.seals.checkpoint() != checkpoint;
        if !has_news || self.engine.poisoned().is_err() {
            return;
        }
        let end = self.engine.segments.lock().all.back().map(|segment| (segment.number, segment.end));
        let Some((segment, end)) = end else { return };
        if let Err(error) = self.engine.seals.write(&Seal { segment, end, sequence: last, checkpoint }) {
            self.engine.poison(&error.into());
        }
    }
}
