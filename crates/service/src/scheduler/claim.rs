//! Who runs a task: the process that wrote the record of its claim, for as long as it keeps renewing it. What a process
//! writes that lost its claim is fenced.

use std::time::Duration;

use entourage_model::{Code, Error, Result, Version};

use super::{Scheduler, Task, TaskResult, millis, stored::Document};

/// How long a claim holds without being renewed.
const LEASE: Duration = Duration::from_secs(60);
const RENEW_EVERY: Duration = Duration::from_secs(20);
/// How long the result of a task is, at most.
const DETAIL_MAX_CHARS: usize = 300;

/// A task that this process runs.
pub(super) struct Claim {
    task: Task,
    version: Version,
    document: Document,
}

impl Scheduler {
    /// Claims a task that is due, or that somebody asked for, unless another server runs it.
    pub(super) async fn look(&self, task: Task, every: Duration) -> Result<Option<Claim>> {
        let (known, mut document) = match self.stored(task).await? {
            Some((version, document)) => (Some(version), document),
            None => (None, Document::default()),
        };
        let now = self.context.clock.now();
        if let Some(until) = document.until {
            // Nobody else has this store, or nobody has heard of the holder for long; or a clock was set back.
            let is_lost = self.context.store.guarantees().is_alone() && document.holder != Some(self.holder);
            let is_over = now > until || until > now.plus(millis(LEASE) * 2);
            if !is_lost && !is_over {
                return Ok(None);
            }
            document.result = Some(TaskResult::Interrupted);
            document.detail = Some("the server that ran it is gone".into());
            document.next = document.started;
        }
        if !document.wanted && now < self.due(&document, every) && !self.follows_checkpoint(task) {
            return Ok(None);
        }
        document.epoch += 1;
        document.holder = Some(self.holder);
        document.until = Some(now.plus(millis(LEASE)));
        document.started = Some(now);
        document.wanted = false;
        match self.store(task, known, &document).await {
            Ok(version) => Ok(Some(Claim { task, version, document })),
            // Another server was faster.
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs a claimed task to its end, renewing the claim, and writes what came of it.
    pub(super) async fn work(&self, mut claim: Claim, every: Duration) -> Result<()> {
        let mut closed = self.context.hub.closed();
        let began = claim.document.started.unwrap_or_default();
        let outcome = {
            let performed = self.perform(claim.task);
            tokio::pin!(performed);
            loop {
                let ended = tokio::select! {
                    outcome = &mut performed => Some(Some(outcome)),
                    _ = closed.wait_for(|closed| *closed) => Some(None),
                    () = tokio::time::sleep(RENEW_EVERY) => None,
                };
                match ended {
                    Some(outcome) => break outcome,
                    None if self.renew(&mut claim).await? => {}
                    None => {
                        tracing::warn!(task = claim.task.as_str(), "another server has taken a periodic task over");
                        return Ok(());
                    }
                }
            }
        };
        let now = self.context.clock.now();
        let (result, detail, next) = match outcome {
            Some(Ok(detail)) => (TaskResult::Done, detail, began.plus(millis(every))),
            Some(Err(error)) => (TaskResult::Failed, error.to_string(), began.plus(millis(every))),
            None => (TaskResult::Interrupted, "the server stopped".to_owned(), began),
        };
        let labels = [("task", claim.task.as_str()), ("result", result.as_str())];
        metrics::counter!("entourage_tasks_total", &labels).increment(1);
        if result == TaskResult::Failed {
            tracing::warn!(task = claim.task.as_str(), detail, "a periodic task failed");
        }
        claim.document.result = Some(result);
        claim.document.detail = Some(detail.chars().take(DETAIL_MAX_CHARS).collect());
        claim.document.finished = Some(now);
        claim.document.next = Some(next);
        (claim.document.until, claim.document.holder) = (None, None);
        self.update(&mut claim).await.map(drop)
    }

    /// Whether the claim still stands.
    async fn renew(&self, claim: &mut Claim) -> Result<bool> {
        claim.document.until = Some(self.context.clock.now().plus(millis(LEASE)));
        match self.update(claim).await {
            // It may be reached again before the claim is over.
            Err(error) if error.code().is_retryable() => Ok(true),
            other => other,
        }
    }

    /// Writes the record of a claim; whether it still stands. Somebody may have asked for another run meanwhile.
    async fn update(&self, claim: &mut Claim) -> Result<bool> {
        loop {
            match self.store(claim.task, Some(claim.version), &claim.document).await {
                Ok(version) => {
                    claim.version = version;
                    return Ok(true);
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
            let Some((version, known)) = self.stored(claim.task).await? else { return Ok(false) };
            if known.epoch != claim.document.epoch || version == claim.version {
                return Ok(false);
            }
            claim.version = version;
            claim.document.wanted = known.wanted;
        }
    }
}

/// The record was changed, or the lease has a greater epoch.
fn is_taken(error: &Error) -> bool {
    matches!(error.code(), Code::RequestInProgress | Code::Fenced)
}
