//! The one thread that decides: it takes everything queued, decides it against the state and the batch so far,
//! makes the batch durable, brings it into the state, and only then answers.

use std::{sync::Arc, time::Duration};

use entourage_model::{Code, Error, Key, Operation, Outcome, Result, Sequence, Version, VersionClock, Write, resolve};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{
    engine::{Engine, Frozen, Trouble},
    fault::Fault,
    log::{self, End, FrameBuilder, Segment},
    overlay::{Look, Overlay},
};

pub(super) enum Job {
    One {
        write: Write,
        reply: oneshot::Sender<Result<Outcome>>,
    },
    Many {
        writes: Vec<Write>,
        reply: oneshot::Sender<Vec<Result<Outcome>>>,
    },
    /// Set the tails aside for a checkpoint; the answer says whether it was done.
    Freeze {
        reply: oneshot::Sender<bool>,
    },
}

impl Job {
    const fn writes(&self) -> usize {
        match self {
            Self::One { .. } => 1,
            Self::Many { writes, .. } => writes.len(),
            Self::Freeze { .. } => 0,
        }
    }
}

#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    writes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn push(&self, job: Job, limit: usize) -> Result<()> {
        let writes = job.writes();
        let mut waiting = self.inner.lock();
        if waiting.closed {
            return Err(Fault::Closed.into());
        }
        if writes > 0 && waiting.writes > 0 && waiting.writes + writes > limit {
            return Err(Error::new(Code::Overloaded, "too many writes are waiting; slow down and try again"));
        }
        waiting.writes += writes;
        let first = waiting.jobs.is_empty();
        waiting.jobs.push(job);
        drop(waiting);
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake.notify_all();
    }

    /// Everything queued, or nothing after `idle`; `None` when the queue is closed and empty.
    fn take(&self, idle: Option<Duration>, jobs: &mut Vec<Job>) -> Option<()> {
        let mut waiting = self.inner.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return None;
            }
            match idle {
                Some(idle) => {
                    if self.wake.wait_for(&mut waiting, idle).timed_out() {
                        return Some(());
                    }
                }
                None => self.wake.wait(&mut waiting),
            }
        }
        std::mem::swap(&mut waiting.jobs, jobs);
        waiting.writes = 0;
        Some(())
    }
}

pub(super) struct Sequencer {
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    versions: VersionClock,
    last: Sequence,
    overlay: Overlay,
    /// Bytes of log since the last checkpoint began.
    logged: u64,
    /// Looked at once a batch.
    over_budget: bool,
    /// The last frame is not yet proved durable by one after it.
    unsealed: bool,
}

enum Reply {
    One(oneshot::Sender<Result<Outcome>>),
    Many(oneshot::Sender<Vec<Result<Outcome>>>, usize),
}

/// A batch on its way: what was decided, and from where on it is not yet durable.
struct Batch {
    results: Vec<Result<Outcome>>,
    durable: usize,
    frame: FrameBuilder,
}

/// From this many writes on a job is a batch of its own.
const LARGE: usize = 512;

impl Batch {
    fn new(writes: usize, last: Sequence) -> Self {
        Self { results: Vec::with_capacity(writes), durable: 0, frame: FrameBuilder::new(last) }
    }
}

impl Sequencer {
    pub(super) fn new(engine: Arc<Engine>, queue: Arc<Queue>, last: Sequence, version: Version) -> Self {
        let versions = VersionClock::new(0, version);
        Self {
            engine,
            queue,
            versions,
            last,
            overlay: Overlay::default(),
            logged: 0,
            over_budget: false,
            unsealed: false,
        }
    }

    pub(super) fn run(mut self) {
        let mut jobs = Vec::new();
        loop {
            let idle = self.engine.options.seal_after.filter(|_| self.unsealed);
            if self.queue.take(idle, &mut jobs).is_none() {
                break;
            }
            if jobs.is_empty() {
                self.seal();
                continue;
            }
            self.commit(&mut jobs);
            self.maybe_freeze();
        }
        self.seal();
    }

    fn commit(&mut self, jobs: &mut Vec<Job>) {
        let budget = self.engine.options.memory_budget;
        self.over_budget = budget > 0 && self.engine.memory_estimate() >= budget;
        let mut replies = Vec::with_capacity(jobs.len());
        let writes = jobs.iter().map(Job::writes).filter(|writes| *writes < LARGE).sum();
        let mut batch = Batch::new(writes, self.last);
        let engine = Arc::clone(&self.engine);
        let gate = engine.gate.lock();
        for job in jobs.drain(..) {
            match job {
                Job::One { write, reply } => {
                    let parties = parties(&write).map(|key| (key, self.engine.state.ordinal(key)));
                    self.decide(&write, parties, None, &mut batch);
                    replies.push(Reply::One(reply));
                }
                // A batch of its own: its results are handed over as they are, not copied out of others.
                Job::Many { writes, reply } if writes.len() >= LARGE => {
                    self.flush(&mut batch);
                    let mut own = Batch::new(writes.len(), self.last);
                    self.decide_all(&writes, &mut own);
                    self.flush(&mut own);
                    batch.frame = FrameBuilder::new(self.last);
                    let _ = reply.send(own.results);
                }
                Job::Many { writes, reply } => {
                    self.decide_all(&writes, &mut batch);
                    replies.push(Reply::Many(reply, writes.len()));
                }
                Job::Freeze { reply } => {
                    self.flush(&mut batch);
                    let _ = reply.send(self.freeze());
                }
            }
        }
        self.flush(&mut batch);
        drop(gate);
        let mut results = batch.results.into_iter();
        for reply in replies {
            // A caller that no longer waits has its answer in the log.
            match reply {
                Reply::One(reply) => {
                    if let Some(result) = results.next() {
                        let _ = reply.send(result);
                    }
                }
                Reply::Many(reply, count) => drop(reply.send(results.by_ref().take(count).collect())),
            }
        }
    }

    /// The edges of one import share a version: it is one write of many edges.
    fn decide_all(&mut self, writes: &[Write], batch: &mut Batch) {
        let mut import = None;
        let keys: Vec<Key> = writes.iter().flat_map(parties).collect();
        let ordinals = self.engine.state.ordinals_of(&keys);
        for (write, known) in writes.iter().zip(ordinals.chunks_exact(2)) {
            let [one, other] = parties(write);
            import = self.decide(write, [(one, known[0]), (other, known[1])], import, batch);
        }
    }

    fn decide(
        &mut self,
        write: &Write,
        parties: [(Key, Option<u32>); 2],
        import: Option<Version>,
        batch: &mut Batch,
    ) -> Option<Version> {
        let imports = matches!(write.operation, Operation::Import { .. });
        let version = match import.filter(|version| imports && *version > write.floor) {
            Some(version) => version,
            None => self.versions.next(self.engine.clock.now(), write.floor),
        };
        let last = self.last.plus(u64::from(batch.frame.changes()));
        let result = self.resolve(write, parties, version, last);
        if let Ok(outcome) = &result
            && outcome.is_logged()
        {
            batch.frame.push(outcome);
            self.overlay.record(outcome);
        }
        batch.results.push(result);
        if batch.frame.len() >= self.engine.options.frame_bytes {
            self.flush(batch);
        }
        imports.then_some(version)
    }

    fn resolve(
        &self,
        write: &Write,
        parties: [(Key, Option<u32>); 2],
        version: Version,
        last: Sequence,
    ) -> Result<Outcome> {
        let grows =
            matches!(write.operation, Operation::Follow { .. } | Operation::Import { .. } | Operation::PutUser { .. });
        if grows && self.over_budget {
            let detail = "memory.budget is used up; raise it, or move to a cluster";
            return Err(Error::new(Code::MemoryFull, detail).retry_after(Duration::from_secs(60)));
        }
        let look = Look::new(&self.engine, &self.overlay, parties);
        let outcome = resolve(&look, write, version, last);
        match look.into_fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(outcome?),
        }
    }

    /// Makes the frame durable and brings its outcomes into the state, or takes all of them back.
    fn flush(&mut self, batch: &mut Batch) {
        if !batch.frame.is_empty() {
            if let Err(fault) = self.write(batch) {
                let error = Error::from(fault);
                for result in batch.results.iter_mut().skip(batch.durable) {
                    *result = Err(error.clone());
                }
            } else {
                let outcomes = || batch.results.iter().skip(batch.durable).flatten();
                self.engine.state.apply(outcomes());
                for outcome in outcomes() {
                    if let Some(record) = outcome.idempotency.as_deref().filter(|_| !outcome.replayed) {
                        self.engine.idempotency.insert(*record);
                    }
                }
                self.last = self.last.plus(u64::from(batch.frame.changes()));
                self.engine.state.publish(self.last);
            }
        }
        batch.durable = batch.results.len();
        batch.frame = FrameBuilder::new(self.last);
        self.overlay.clear();
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        if let Some(Trouble::Poisoned(fault)) = &*self.engine.trouble.lock() {
            return Err(fault.clone());
        }
        let newest = self.versions.last().millis();
        let place = self.room(batch.frame.len())?;
        let changes = batch.frame.changes();
        match log::write_frame(&place, self.engine.epoch(), &mut batch.frame) {
            Ok(end) => {
                if let Some(segment) = self.engine.segments.lock().all.back_mut() {
                    segment.note(self.last, changes, newest, end);
                }
                self.logged += end - place.offset;
                self.unsealed = true;
                Ok(())
            }
            Err(error) => {
                let fault = Fault::from(error);
                self.engine.poison(&fault);
                Err(fault)
            }
        }
    }

    /// The segment that has room for a frame, a new one if need be. Nothing was written when there is none.
    fn room(&mut self, bytes: usize) -> Result<End, Fault> {
        let (fits, number) = {
            let segments = self.engine.segments.lock();
            let active = segments.all.back();
            // A seal must fit behind it.
            let bytes = (bytes + log::FRAME_HEADER) as u64;
            let fits = active.filter(|segment| segment.end + bytes <= segment.size).map(Segment::end_of_log);
            (fits, active.map_or(1, |segment| segment.number + 1))
        };
        if let Some(end) = fits {
            return Ok(end);
        }
        let file = self.engine.spare.take(&self.engine, number).inspect_err(|fault| {
            if fault.is_full() {
                *self.engine.trouble.lock() = Some(Trouble::Full(fault.clone()));
            }
        })?;
        self.engine.trouble.lock().take_if(|trouble| matches!(trouble, Trouble::Full(_)));
        let size = self.engine.options.segment_bytes;
        let segment = Segment::new(number, file, size, self.last);
        let end = segment.end_of_log();
        self.engine.segments.lock().all.push_back(segment);
        self.engine.spare.want(number + 1);
        Ok(end)
    }

    /// An empty frame: proof that the one before was durable, should its bytes ever rot.
    fn seal(&mut self) {
        let poisoned = matches!(*self.engine.trouble.lock(), Some(Trouble::Poisoned(_)));
        if !self.unsealed || poisoned {
            return;
        }
        let mut frame = FrameBuilder::new(self.last);
        let place = self.engine.segments.lock().all.back().map(Segment::end_of_log);
        if let Some(place) = place {
            match log::write_frame(&place, self.engine.epoch(), &mut frame) {
                Ok(end) => {
                    if let Some(segment) = self.engine.segments.lock().all.back_mut() {
                        segment.end = end;
                    }
                }
                Err(error) => self.engine.poison(&error.into()),
            }
        }
        self.unsealed = false;
    }

    fn maybe_freeze(&mut self) {
        let state = &self.engine.state;
        let threshold = self.engine.options.checkpoint_entries.max(state.edges() / 5);
        let grown = self.logged >= self.engine.options.checkpoint_after_bytes();
        if state.tail_entries() >= threshold || grown || state.is_checkpoint_due() {
            self.freeze();
        }
    }

    /// Sets the tails aside, unless an earlier checkpoint is still at work.
    fn freeze(&mut self) -> bool {
        let mut checkpoint = self.engine.checkpoint.lock();
        if checkpoint.frozen.is_some() {
            return false;
        }
        self.logged = 0;
        let groups = self.engine.state.freeze();
        self.engine.idempotency.freeze();
        let users = self.engine.state.users();
        let segment = self.engine.segments.lock().all.back().map_or(0, |segment| segment.number);
        let (sequence, version) = (self.last, self.versions.last());
        checkpoint.frozen = Some(Frozen { sequence, version, segment, users, groups });
        self.engine.checkpoint_changed.notify_all();
        true
    }
}

fn parties(write: &Write) -> [Key; 2] {
    let (one, other) = write.operation.parties();
    [one, other.unwrap_or(one)]
}
