//! Between deciding and committing: one batch at a time is in flight, so that the next can be decided meanwhile.

use parking_lot::{Condvar, Mutex};

use crate::{
    fault::Fault,
    writes::committer::{Committer, Flight},
};

pub(crate) struct CommitPipeline {
    pub(crate) committer: Committer,
    stage: Mutex<Stage>,
    changed: Condvar,
}

enum Stage {
    /// Nothing in flight; the result of the last batch, until it is taken.
    Idle(Result<(), Fault>),
    Waiting(Box<Flight>),
    Running,
    Stopped,
}

impl CommitPipeline {
    pub(crate) const fn new(committer: Committer) -> Self {
        Self { committer, stage: Mutex::new(Stage::Idle(Ok(()))), changed: Condvar::new() }
    }

    /// Waits until nothing is in flight, and returns the last result. Callers of that batch have theirs already.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        let mut stage = self.stage.lock();
        loop {
            match &mut *stage {
                Stage::Idle(result) => return std::mem::replace(result, Ok(())),
                Stage::Stopped => return Err(Fault::Closed),
                Stage::Waiting(_) | Stage::Running => self.changed.wait(&mut stage),
            }
        }
    }

    /// Only after [`CommitPipeline::settle`] returned `Ok`.
    pub(crate) fn hand_over(&self, flight: Flight) {
        let mut stage = self.stage.lock();
        if matches!(*stage, Stage::Idle(_)) {
            *stage = Stage::Waiting(Box::new(flight));
            self.changed.notify_all();
        }
    }

    fn stop(&self) {
        *self.stage.lock() = Stage::Stopped;
        self.changed.notify_all();
    }

    /// The commit thread.
    pub(crate) fn run(&self) {
        let _stops = Stops(self);
        while let Some(flight) = self.next() {
            let result = self.committer.run(*flight);
            let mut stage = self.stage.lock();
            if matches!(*stage, Stage::Running) {
                *stage = Stage::Idle(result);
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Box<Flight>> {
        let mut stage = self.stage.lock();
        loop {
            match std::mem::replace(&mut *stage, Stage::Running) {
                Stage::Waiting(flight) => return Some(flight),
                Stage::Stopped => {
                    *stage = Stage::Stopped;
                    return None;
                }
                other => *stage = other,
            }
            self.changed.wait(&mut stage);
        }
    }
}

/// Stops the pipeline when either of its threads ends, even by a panic.
pub(crate) struct Stops<'a>(pub(crate) &'a CommitPipeline);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
