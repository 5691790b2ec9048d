//! Ending a quarantine: every follow of a user that is parked so far is accepted, or dropped.

use entourage_model::{Code, Edge, Key, List, Operation, Plane, Result, Side, UserId, Write};

use super::{
    JobKind, JobStarted,
    accept::Plan,
    stored::{Stored, tally_id},
    work::Step,
};
use crate::{Call, Jobs};

const fn parked_of(target: Key) -> List {
    List::new(target, Plane::Parked, Side::Followers)
}

impl Jobs {
    /// Accepts or drops every follow of this user that has been parked so far. No quota counts: each follower had room
    /// for it when they followed.
    pub async fn release_parked(&self, call: &Call, target: &UserId, accept: bool) -> Result<JobStarted> {
        call.must_be_admin()?;
        let user = self.context.stored_user(target).await?;
        let before = self.above_all(parked_of(user.key)).await?;
        let kind = if accept { JobKind::AcceptParked } else { JobKind::DropParked };
        let (id, receipt) = self.start_job(call, kind, &user, Some(before)).await?;
        self.wake.notify_one();
        Ok(JobStarted { job: self.shown_job(id).await?, receipt })
    }

    /// The oldest first, so that who followed last stands on top.
    pub(super) async fn release_chunk(&self, job: &mut Stored) -> Result<(Step, u64)> {
        let Some(target) = self.subject_of(job).await? else { return Ok((Step::Done, 0)) };
        let list = parked_of(target.key);
        let before = job.before.unwrap_or(job.id).max(job.id);
        let mut plan = self.plans.lock().remove(&job.id).unwrap_or_else(|| Plan::below(before));
        let Some(parked) = self.next_edges(list, &mut plan).await? else {
            self.plans.lock().insert(job.id, plan);
            return Ok((Step::More, 0));
        };
        let accept = job.kind == JobKind::AcceptParked;
        let tally = Some(tally_id(job.id)?);
        let release = |edge: &Edge| {
            let operation = Operation::Release { target: target.key, follower: edge.follower, accept };
            Write { tally: tally.clone(), ..Write::from(operation) }
        };
        let mut released = 0;
        for outcome in self.context.writer.write_all(parked.iter().rev().map(release).collect()).await {
            match outcome {
                Ok(outcome) => released += u64::from(outcome.reply.changed()),
                // It was taken back, or another job was faster, or the account is gone.
                Err(error) if matches!(error.code(), Code::NotFound | Code::UserNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        if plan.is_unfinished() {
            self.plans.lock().insert(job.id, plan);
            return Ok((Step::More, released));
        }
        Ok((Step::Done, released))
    }
}
