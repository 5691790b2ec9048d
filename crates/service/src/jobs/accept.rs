//! Accepting all requests of an account: because it asks for that, or because it is private no longer.

use entourage_model::{
    CHUNK_MAX, Code, Edge, Key, List, Operation, Place, Plane, Result, Side, User, UserId, Version, Write,
};

use super::{JobKind, JobStarted, stored::Stored, work::Step};
use crate::{Call, Service};

/// How long an account that was to be opened may still be private: the request that opens it is under way.
const OPENING_MILLIS: u64 = 60_000;

impl Service {
    /// Accepts every request that has been made so far. No quota counts, and whoever asked had room for it.
    pub async fn accept_all(&self, call: &Call, target: &UserId) -> Result<JobStarted> {
        call.may_change(target)?;
        let user = self.stored_user(target).await?;
        let (id, receipt) = self.start_job(call, JobKind::AcceptAll, &user).await?;
        self.jobs.wake.notify_one();
        Ok(JobStarted { job: self.shown_job(id).await?, receipt })
    }

    /// Before an account is opened: the job that will accept who waits. It looks whether the account was opened, so
    /// that it is no matter where the server stops.
    pub(crate) async fn prepare_opening(&self, id: &UserId, opens: bool) -> Result<Option<Version>> {
        if !opens {
            return Ok(None);
        }
        let Some(user) = self.find_user(id).await?.filter(|user| user.private) else { return Ok(None) };
        let (job, _) = self.start_job(&Call::default(), JobKind::GoingPublic, &user).await?;
        Ok(Some(job))
    }

    /// After it: `opened` is `None` when nobody knows whether the account was opened. A job that was not needed and
    /// cannot be removed ends by itself.
    pub(crate) async fn settle_opening(&self, job: Option<Version>, opened: Option<bool>) {
        let Some(job) = job else { return };
        if opened == Some(false)
            && let Ok(unneeded) = self.stored_job(job).await
            && self.commit(&Call::default(), unneeded.removal()).await.is_ok()
        {
            return;
        }
        self.jobs.wake.notify_one();
    }

    /// For an account that was opened while it became private and was asked: nobody waits for a public one.
    pub(crate) async fn accept_overtaken(&self, id: &UserId) -> Result<()> {
        let Some(user) = self.find_user(id).await?.filter(|user| !user.private) else { return Ok(()) };
        if self.store.get_counts(user.key).await?.is_some_and(|counts| counts.requests > 0) {
            self.start_job(&Call::default(), JobKind::GoingPublic, &user).await?;
            self.jobs.wake.notify_one();
        }
        Ok(())
    }

    /// Accepts everybody who waits for an account that a file made public. Whoever imports waits for it: nobody else works
    /// on the store, and a run that is cut off comes here again.
    pub(crate) async fn accept_waiting(&self, target: Key) -> Result<()> {
        let list = List::new(target, Plane::Request, Side::Followers);
        loop {
            let page = self.store.scan(list, None, CHUNK_MAX).await?;
            let is_public = self.users_by_key(&[target]).await?.get(&target).is_some_and(|user| !user.private);
            if page.edges.is_empty() || !is_public {
                return Ok(());
            }
            self.accept_edges(target, &page.edges).await?;
        }
    }

    /// How many of these requests were accepted.
    async fn accept_edges(&self, target: Key, edges: &[Edge]) -> Result<u64> {
        let accept = |follower| Write::from(Operation::Accept { target, follower });
        // The oldest first, so that who asked last stands on top.
        let writes: Vec<Write> = edges.iter().rev().map(|edge| accept(edge.follower)).collect();
        let mut accepted = 0;
        for (write, outcome) in writes.iter().zip(self.store.commit_all(writes.clone()).await) {
            match outcome {
                Ok(outcome) => {
                    self.feed.saw(&outcome);
                    self.committed(&write.operation, &outcome);
                    accepted += u64::from(outcome.reply.changed());
                }
                // The request was taken back, or the account is gone.
                Err(error) if matches!(error.code(), Code::NotFound | Code::ActorNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    pub(super) async fn accept_chunk(&self, job: &mut Stored) -> Result<Step> {
        let Some(target) = self.subject_of(job).await? else { return Ok(Step::Done) };
        let before = match (job.before, job.kind) {
            (Some(before), _) => before,
            (None, JobKind::GoingPublic) if target.private => {
                let waited = self.clock.now().since_2000().saturating_sub(job.id.millis().since_2000());
                return Ok(if waited < OPENING_MILLIS { Step::Waits } else { Step::Done });
            }
            // Nobody had to ask since the account was opened.
            (None, JobKind::GoingPublic) => target.version,
            (None, _) => job.id,
        };
        job.before = Some(before);
        let list = List::new(target.key, Plane::Request, Side::Followers);
        let start = Place { position: before, key: Key::MIN };
        let page = self.store.scan(list, Some(start), CHUNK_MAX).await?;
        if page.edges.is_empty() {
            return Ok(Step::Done);
        }
        job.edges += self.accept_edges(target.key, &page.edges).await?;
        Ok(if page.more { Step::More } else { Step::Done })
    }

    pub(super) async fn subject_of(&self, job: &Stored) -> Result<Option<User>> {
        let Some(subject) = job.subject else { return Ok(None) };
        let user = self.store.get_users(&[subject.key]).await?.into_iter().flatten().next();
        Ok(user.filter(|user| user.created == subject.created))
    }
}
