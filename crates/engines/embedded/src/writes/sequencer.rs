//! The one thread that decides: it takes everything queued and decides it against the state, the batch in flight, and
//! the batch so far. [`Committer`] then makes the batch durable, applies and answers it: on this thread when nobody
//! else waits, beside the next decisions when many do.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use entourage_model::{Code, Error, Key, Operation, Outcome, Result, Sequence, Version, VersionClock, Write, resolve};
use metrics::{Gauge, gauge};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    engine::{Engine, Frozen},
    fault::Fault,
    writes::{
        commit_pipeline::{CommitPipeline, Stops},
        committer::{Batch, Committer, Flight, Replies},
        overlay::{Look, Overlay},
    },
};

/// Under constant load the log is sealed this often, which proves earlier writes durable.
const SEAL_EVERY: Duration = Duration::from_secs(1);
/// From this many writes on, their users are looked up together, table by table.
const MANY: usize = 64;

pub(crate) enum Job {
    Commit {
        writes: Vec<Write>,
        reply: oneshot::Sender<Vec<Result<Outcome>>>,
    },
    /// Freezes the deltas for a checkpoint; the reply says whether that was done. `drop_log`: the log continues in a
    /// new segment, and the checkpoint drops all others.
    Freeze {
        drop_log: bool,
        reply: oneshot::Sender<Result<bool, Fault>>,
    },
}

impl Job {
    const fn writes(&self) -> usize {
        match self {
            Self::Commit { writes, .. } => writes.len(),
            Self::Freeze { .. } => 0,
        }
    }
}

pub(crate) struct Queue {
    inner: Mutex<Waiting>,
    wake: Condvar,
    depth: Gauge,
}

impl Default for Queue {
    fn default() -> Self {
        Self { inner: Mutex::default(), wake: Condvar::new(), depth: gauge!("entourage_queue_writes") }
    }
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    writes: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, job: Job, limit: usize) -> Result<()> {
        let writes = job.writes();
        let mut waiting = self.inner.lock();
        if waiting.closed {
            return Err(Fault::Closed.into());
        }
        if writes > 0 && waiting.writes > 0 && waiting.writes + writes > limit {
            return Err(Error::new(Code::Overloaded, "too many writes are waiting; slow down and try again"));
        }
        waiting.writes += writes;
        self.depth.set(waiting.writes as f64);
        let first = waiting.jobs.is_empty();
        waiting.jobs.push(job);
        drop(waiting);
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake.notify_all();
    }

    /// Nobody will take the jobs: their callers get an error.
    pub(crate) fn abandon(&self) {
        let jobs = {
            let mut waiting = self.inner.lock();
            (waiting.closed, waiting.writes) = (true, 0);
            std::mem::take(&mut waiting.jobs)
        };
        self.wake.notify_all();
        drop(jobs);
    }

    /// Writes that wait to be decided.
    fn waiting(&self) -> usize {
        self.inner.lock().writes
    }

    /// Takes everything queued, or nothing after `idle`; `None` when the queue is closed and empty.
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
        self.depth.set(0.0);
        Some(())
    }
}

pub(crate) struct Sequencer {
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    versions: VersionClock,
    /// The last sequence assigned, durable or in flight.
    last: Sequence,
    overlay: Overlay,
    pipeline: Arc<CommitPipeline>,
    /// Updated once a batch.
    over_budget: bool,
    /// When the log was last sealed.
    sealed: Instant,
}

impl Sequencer {
    pub(crate) fn new(engine: Arc<Engine>, queue: Arc<Queue>, last: Sequence, version: Version) -> Self {
        let versions = VersionClock::new(0, version);
        let pipeline = Arc::new(CommitPipeline::new(Committer::new(Arc::clone(&engine))));
        Self {
            engine,
            queue,
            versions,
            last,
            overlay: Overlay::default(),
            pipeline,
            over_budget: false,
            sealed: Instant::now(),
        }
    }

    /// For the commit thread.
    pub(crate) fn pipeline(&self) -> Arc<CommitPipeline> {
        Arc::clone(&self.pipeline)
    }

    pub(crate) fn run(mut self) {
        let mut jobs = Vec::new();
        let pipeline = self.pipeline();
        let _stops = Stops(&pipeline);
        loop {
            let idle =
                self.engine.options.seal_after.filter(|_| self.pipeline.committer.unsealed.load(Ordering::Relaxed));
            if self.queue.take(idle, &mut jobs).is_none() {
                break;
            }
            if jobs.is_empty() {
                self.seal();
                continue;
            }
            entourage_store::fail_point("sequencer");
            self.commit(&mut jobs);
            self.maybe_freeze();
            if self.engine.options.seal_after.is_some() && self.sealed.elapsed() >= SEAL_EVERY {
                self.seal();
            }
        }
        self.seal();
    }

    fn seal(&mut self) {
        self.sealed = Instant::now();
        self.settle(&mut Batch::new(0, self.last));
        self.pipeline.committer.seal(self.last);
    }

    fn commit(&mut self, jobs: &mut Vec<Job>) {
        self.over_budget = self.engine.is_over_budget();
        let large = self.engine.options.large_batch;
        let mut replies = Vec::with_capacity(jobs.len());
        let writes = jobs.iter().map(Job::writes).filter(|writes| *writes < large).sum();
        let mut batch = Batch::new(writes, self.last);
        for job in jobs.drain(..) {
            match job {
                // A batch of its own: its results are handed over as they are, not copied out of others.
                Job::Commit { writes, reply } if writes.len() >= large => {
                    self.finish(batch, Replies::Each(std::mem::take(&mut replies)));
                    batch = Batch::new(writes.len(), self.last);
                    self.decide_all(&writes, &mut batch);
                    self.finish(batch, Replies::Whole(reply));
                    batch = Batch::new(0, self.last);
                }
                Job::Commit { writes, reply } => {
                    self.decide_all(&writes, &mut batch);
                    replies.push((reply, writes.len()));
                }
                Job::Freeze { drop_log, reply } => {
                    self.flush(&mut batch);
                    let _ = reply.send(self.freeze_for(drop_log));
                }
            }
        }
        self.finish(batch, Replies::Each(replies));
    }

    /// Ends a batch: durable, applied and answered, by the commit thread if enough writes wait to be decided meanwhile.
    fn finish(&mut self, mut batch: Batch, replies: Replies) {
        self.settle(&mut batch);
        let before = self.last;
        self.last = before.plus(u64::from(batch.frame.changes()));
        let large = self.engine.options.large_batch;
        let worthwhile = batch.results.len() >= large && self.queue.waiting() >= large;
        let flight = Flight { batch, before, newest: self.versions.last().millis(), replies };
        if worthwhile {
            self.overlay.take_off();
            self.pipeline.hand_over(flight);
        } else {
            self.overlay.clear();
            if self.pipeline.committer.run(flight).is_err() {
                self.last = before;
            }
        }
    }

    /// Makes the batch so far durable and applies it; replies wait for the rest.
    fn flush(&mut self, batch: &mut Batch) {
        self.settle(batch);
        if self.pipeline.committer.commit(batch, self.last, self.versions.last().millis()).is_ok() {
            self.last = self.last.plus(u64::from(batch.frame.changes()));
        }
        batch.begin_part(self.last);
        self.overlay.clear();
    }

    /// Waits for the batch in flight. If that failed, so has everything decided on top of it.
    fn settle(&mut self, batch: &mut Batch) {
        if let Err(fault) = self.pipeline.settle() {
            self.last = self.engine.state.published();
            batch.fail(&fault);
            batch.begin_part(self.last);
            self.overlay.clear();
        }
        self.overlay.land();
    }

    /// All edges of one import share a version: it is one write of many edges.
    fn decide_all(&mut self, writes: &[Write], batch: &mut Batch) {
        let mut import = None;
        let keys: Vec<Key> = writes.iter().flat_map(parties).collect();
        let ordinals = match writes.len() < MANY {
            true => keys.iter().map(|key| self.engine.state.ordinal(*key)).collect(),
            false => self.engine.state.ordinals_of(&keys),
        };
        let erased = self.engine.state.erased().total();
        for (write, known) in writes.iter().zip(ordinals.chunks_exact(2)) {
            let [one, other] = parties(write);
            // A user erased since the lookup has no ordinal any more, or another one.
            let known = if self.engine.state.erased().total() == erased { [known[0], known[1]] } else { [None; 2] };
            import = self.decide(write, [(one, known[0]), (other, known[1])], import, batch);
        }
    }

    /// Erasing a user, and creating one under an erased key, is decided on the state alone: no overlay has all edges
    /// and records of a user.
    fn is_alone(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Erase { .. } | Operation::EraseEdges { .. } => true,
            Operation::PutUser { key, .. } => self.engine.state.erased().ordinal(*key).is_some(),
            _ => false,
        }
    }

    fn decide(
        &mut self,
        write: &Write,
        parties: [(Key, Option<u32>); 2],
        import: Option<Version>,
        batch: &mut Batch,
    ) -> Option<Version> {
        let alone = self.is_alone(&write.operation);
        if alone {
            self.flush(batch);
        }
        // Imports change no existing edge, so many may share a version.
        let imports = matches!(
            write.operation,
            Operation::Import { .. } | Operation::ImportRequest { .. } | Operation::ImportMute { .. }
        );
        let version = match import.filter(|version| imports && *version > write.floor) {
            Some(version) => version,
            None => self.versions.next(self.engine.clock.now(), write.floor),
        };
        // A count that the batch in flight changes is not known yet.
        if !imports && self.overlay.is_flying(write.operation.parties().0) {
            self.settle(batch);
        }
        let last = self.last.plus(u64::from(batch.frame.changes()));
        let result = self.resolve(write, parties, version, last);
        if let Ok(outcome) = &result
            && outcome.is_logged()
        {
            batch.frame.push(outcome);
            self.overlay.record(outcome);
        }
        batch.push(result, parties);
        if alone || batch.frame.len() >= self.engine.options.frame_bytes {
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
        let grows = matches!(
            write.operation,
            Operation::Follow { .. }
                | Operation::Import { .. }
                | Operation::ImportRequest { .. }
                | Operation::ImportPost { .. }
                | Operation::PutUser { .. }
                | Operation::PutRecord { value: Some(_), .. }
                | Operation::AddRecord { .. }
                | Operation::Post { .. }
                | Operation::GroupMember { present: true, .. }
        );
        if grows && self.over_budget {
            let detail = "memory.budget is used up; raise it, or give the server more memory";
            return Err(Error::new(Code::MemoryFull, detail).retry_after(self.engine.memory_comes_back_in()));
        }
        let look = Look::new(&self.engine, &self.overlay, parties);
        let outcome = resolve(&look, write, version, last);
        match look.into_fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(outcome?),
        }
    }

    fn maybe_freeze(&mut self) {
        let state = &self.engine.state;
        let threshold = self.engine.options.checkpoint_entries.max(state.edges() / 5);
        let grown =
            self.pipeline.committer.logged.load(Ordering::Relaxed) >= self.engine.options.checkpoint_after_bytes();
        if state.delta_entries() >= threshold || grown || state.is_checkpoint_due() || self.engine.wants_memory() {
            self.freeze(false);
        }
    }

    /// Begins a new segment before the freeze, so that the checkpoint covers all others.
    fn freeze_for(&mut self, drop_log: bool) -> Result<bool, Fault> {
        if drop_log && self.engine.checkpoint.lock().frozen.is_none() {
            self.settle(&mut Batch::new(0, self.last));
            self.pipeline.committer.begin_segment(self.last)?;
        }
        Ok(self.freeze(drop_log))
    }

    /// Freezes the deltas, unless an earlier checkpoint is still running.
    fn freeze(&mut self, drop_log: bool) -> bool {
        if self.engine.checkpoint.lock().frozen.is_some() {
            return false;
        }
        self.settle(&mut Batch::new(0, self.last));
        self.pipeline.committer.logged.store(0, Ordering::Relaxed);
        let frees = self.engine.freed_by_checkpoint();
        let groups = self.engine.state.freeze();
        self.engine.idempotency.freeze();
        let users = self.engine.state.users();
        let segment = self.engine.segments.lock().all.back().map_or(0, |segment| segment.number);
        let (sequence, version) = (self.last, self.versions.last());
        let scrub = self.engine.state.erased().take_fresh();
        let frozen = Frozen { sequence, version, segment, users, groups, scrub, drop_log };
        {
            let mut checkpoint = self.engine.checkpoint.lock();
            checkpoint.frozen = Some(frozen);
            checkpoint.pace.began(frees);
        }
        self.engine.checkpoint_changed.notify_all();
        true
    }
}

fn parties(write: &Write) -> [Key; 2] {
    let (one, other) = write.operation.parties();
    [one, other.unwrap_or(one)]
}
