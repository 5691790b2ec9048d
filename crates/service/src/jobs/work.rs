//! The work itself: one chunk of every job at a time, so that a large one keeps no small one waiting. Every step can
//! be repeated, by the server that starts after a crash or by another one of the same store.

use std::time::Duration;

use entourage_model::{Code, Condition, Error, Key, Operation, Record, RecordId, Result, Space, Version, tally};

use super::{
    JobKind, JobState,
    stored::{Stored, tally_id},
};
use crate::{Call, Duty, Jobs};

const PAGE: usize = 1_000;
/// How often to look for jobs of other servers and for work that is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Where each look asks a remote store.
const REMOTE_LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Jobs that ended are shown for a week.
const KEPT_MILLIS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// The outcome of one chunk of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Done,
    /// There is nothing to do yet.
    Waits,
}

impl Jobs {
    /// How long to wait after [`Self::work`] found nothing. Whoever waits for a lease asks nobody, and looks more often.
    pub fn look_interval(&self) -> Duration {
        if self.leases.has_taken(Duty::Jobs) { REMOTE_LOOK_INTERVAL } else { LOOK_INTERVAL }
    }

    /// Does one chunk of every job, and what else is due; whether there was anything. Called
    /// again and again while it says so, it does all of it. Where servers share a store, the holder of the lease does it.
    pub async fn work(&self) -> Result<bool> {
        let Some(held) = self.leases.hold(Duty::Jobs).await? else { return Ok(false) };
        let worked = held.run(self.work_on_all()).await;
        if worked.as_ref().is_err_and(|error| error.code() == Code::Fenced) {
            self.leases.lost(&held);
            // The lists have changed when this server comes back to them.
            self.plans.lock().clear();
            return Ok(false);
        }
        worked
    }

    async fn work_on_all(&self) -> Result<bool> {
        let mut worked = self.end_mutes().await?;
        let running = self.unfinished_jobs().await?;
        metrics::gauge!("entourage_jobs_running").set(running.len() as f64);
        let mut failed = None;
        // The oldest first.
        for job in running.into_iter().rev() {
            match self.work_on(job).await {
                Ok(moved) => worked |= moved,
                Err(error) if error.code() == Code::Fenced => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(worked), Err)
    }

    async fn work_on(&self, mut job: Stored) -> Result<bool> {
        entourage_store::fail_point("jobs");
        let stepped = match job.kind {
            JobKind::AcceptAll | JobKind::GoingPublic => self.accept_chunk(&mut job).await,
            JobKind::Erase => self.erase_chunk(&mut job).await,
            JobKind::AcceptParked | JobKind::DropParked => self.release_chunk(&mut job).await,
        };
        let mut moved = 0;
        match stepped {
            Ok((Step::Waits, _)) => return Ok(false),
            Ok((Step::More, edges)) => moved = edges,
            Ok((Step::Done, edges)) => (job.state, moved) = (JobState::Done, edges),
            // The store, or somebody else's write, stands in the way: later, or another server does it.
            Err(error) if error.code().is_retryable() || error.code() == Code::Fenced => return Err(error),
            Err(error) => {
                job.state = JobState::Failed;
                job.error = Some(error.to_string().into());
            }
        }
        let kind = job.kind.as_str();
        metrics::counter!("entourage_job_edges_total", "kind" => kind).increment(moved);
        let is_over = job.state != JobState::Running;
        if is_over {
            job.edges += self.tally_of(job.id).await?;
            metrics::counter!("entourage_jobs_finished_total", "kind" => kind, "state" => job.state.as_str())
                .increment(1);
        }
        match self.context.writer.write(&Call::default(), job.update()?).await {
            // Another server of this store has done the same.
            Err(error) if error.code() == Code::RequestInProgress => Ok(true),
            Err(error) => Err(error),
            Ok(_) if is_over => self.drop_tally(job.id).await.map(|()| true),
            Ok(_) => Ok(true),
        }
    }

    /// How many edges a job that runs has changed.
    pub(super) async fn tally_of(&self, job: Version) -> Result<u64> {
        Ok(self.tallies_of(job).await?.iter().map(|(_, record)| tally(&record.value)).sum())
    }

    /// What was counted lies in the buckets of those whose edges were changed.
    async fn tallies_of(&self, job: Version) -> Result<Vec<(Key, Record)>> {
        let id = tally_id(job)?;
        let places: Vec<(Key, RecordId)> =
            self.context.store.guarantees().buckets.all().map(|owner| (owner, id.clone())).collect();
        let found = self.context.store.get_records(Space::Job, &places).await?;
        Ok(places.into_iter().zip(found).filter_map(|((owner, _), record)| Some((owner, record?))).collect())
    }

    async fn drop_tally(&self, job: Version) -> Result<()> {
        for (owner, Record { id, .. }) in self.tallies_of(job).await? {
            let (space, condition) = (Space::Job, Condition::Any);
            let operation = Operation::PutRecord { space, owner, id, value: None, condition, cap: None };
            self.context.writer.write(&Call::default(), operation).await?;
        }
        Ok(())
    }

    /// Jobs that run, newest first. What ended long ago is removed on the way.
    pub(super) async fn unfinished_jobs(&self) -> Result<Vec<Stored>> {
        let now = self.context.clock.now().since_2000();
        let (mut running, mut after): (Vec<Stored>, Option<RecordId>) = (Vec::new(), None);
        loop {
            let page = self.scan_jobs(after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|job| RecordId::of_version(job.id));
            for job in page {
                if job.state == JobState::Running {
                    running.push(job);
                } else if now.saturating_sub(job.updated.millis().since_2000()) > KEPT_MILLIS {
                    self.forget(&job).await?;
                }
            }
            if is_last {
                return Ok(running);
            }
        }
    }

    async fn forget(&self, job: &Stored) -> Result<()> {
        // Left where the server stopped at the very end of the job.
        self.drop_tally(job.id).await?;
        match self.context.writer.write(&Call::default(), job.removal()).await {
            Err(error) if error.code() == Code::RequestInProgress => Ok::<(), Error>(()),
            other => other.map(drop),
        }
    }
}
