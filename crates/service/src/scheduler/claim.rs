//! Who runs a task: the server that has its lease, in one task at a time. What a server writes that lost the lease is
//! fenced.

use std::time::Duration;

use entourage_model::{Code, Result, Version};
use parking_lot::Mutex;

use super::{
    Scheduler, Task, TaskResult, millis,
    stored::{Document, TRIES},
};
use crate::leases::{Held, is_taken};

/// How long the result of a task is, at most.
const DETAIL_MAX_CHARS: usize = 300;

/// A task that this process runs.
pub(super) struct Claim<'a> {
    task: Task,
    held: Held,
    version: Version,
    document: Document,
    _running: Running<'a>,
}

/// Of this process: one run of a task at a time, until this is dropped.
struct Running<'a> {
    all: &'a Mutex<Vec<Task>>,
    task: Task,
}

impl<'a> Running<'a> {
    fn begin(all: &'a Mutex<Vec<Task>>, task: Task) -> Option<Self> {
        let mut running = all.lock();
        let is_free = !running.contains(&task);
        if is_free {
            running.push(task);
        }
        drop(running);
        is_free.then_some(Self { all, task })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.all.lock().retain(|task| *task != self.task);
    }
}

impl Scheduler {
    /// Claims a task that is due, or that somebody asked for, unless it runs.
    pub(super) async fn look(&self, task: Task, every: Duration) -> Result<Option<Claim<'_>>> {
        let held = match self.is_own(task) {
            true => Some(Held::alone(task.duty())),
            false => self.leases.hold(task.duty()).await?,
        };
        let Some(held) = held else { return Ok(None) };
        let Some(running) = Running::begin(&self.running, task) else { return Ok(None) };
        for _ in 0..TRIES {
            let (known, mut document) = match self.stored(task).await? {
                Some((version, document)) => (Some(version), document),
                None => (None, Document::default()),
            };
            if document.holder.is_some() {
                // Nobody else has the lease, and nothing of this process runs it.
                document.result = Some(TaskResult::Interrupted);
                document.detail = Some("the server that ran it is gone".into());
                document.next = document.started;
            }
            let now = self.context.clock.now();
            if !document.wanted && now < self.due(&document, every) && !self.follows_checkpoint(task) {
                return Ok(None);
            }
            document.holder = Some(self.leases.id());
            document.started = Some(now);
            document.wanted = false;
            match held.run(self.put(task, known, &document)).await {
                Ok(version) => return Ok(Some(Claim { task, held, version, document, _running: running })),
                Err(error) if error.code() == Code::Fenced => {
                    self.leases.lost(&held);
                    return Ok(None);
                }
                // Somebody asked for a run meanwhile.
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Runs a claimed task to its end, and writes what came of it.
    pub(super) async fn work(&self, mut claim: Claim<'_>, every: Duration) -> Result<()> {
        let mut closed = self.context.hub.closed();
        let began = claim.document.started.unwrap_or_default();
        let outcome = tokio::select! {
            outcome = claim.held.run(self.perform(claim.task)) => Some(outcome),
            _ = closed.wait_for(|closed| *closed) => None,
        };
        let now = self.context.clock.now();
        let (result, detail, next) = match outcome {
            Some(Ok(detail)) => (TaskResult::Done, detail, began.plus(millis(every))),
            Some(Err(error)) => (TaskResult::Failed, error.to_string(), began.plus(millis(every))),
            None => (TaskResult::Interrupted, "the server stopped".to_owned(), began),
        };
        claim.document.result = Some(result);
        claim.document.detail = Some(detail.chars().take(DETAIL_MAX_CHARS).collect());
        claim.document.finished = Some(now);
        claim.document.next = Some(next);
        claim.document.holder = None;
        if !self.update(&mut claim).await? {
            self.leases.lost(&claim.held);
            tracing::warn!(task = claim.task.as_str(), "another server has taken a periodic task over");
            return Ok(());
        }
        let labels = [("task", claim.task.as_str()), ("result", result.as_str())];
        metrics::counter!("entourage_tasks_total", &labels).increment(1);
        if result == TaskResult::Failed {
            tracing::warn!(task = claim.task.as_str(), detail, "a periodic task failed");
        }
        Ok(())
    }

    /// Writes the record of a claim; whether it still stands. Somebody may have asked for another run meanwhile.
    async fn update(&self, claim: &mut Claim<'_>) -> Result<bool> {
        loop {
            match claim.held.run(self.put(claim.task, Some(claim.version), &claim.document)).await {
                Ok(version) => {
                    claim.version = version;
                    return Ok(true);
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
            let Some((version, known)) = self.stored(claim.task).await? else { return Ok(false) };
            if known.holder != Some(self.leases.id()) || version == claim.version {
                return Ok(false);
            }
            claim.version = version;
            claim.document.wanted = known.wanted;
        }
    }
}
