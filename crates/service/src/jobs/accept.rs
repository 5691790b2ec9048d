//! Accepting all requests of an account: because it asks for that, or because it is private no longer.

use entourage_model::{
    CHUNK_MAX, Code, Edge, Key, List, Operation, Place, Plane, RecordId, Result, Side, User, UserId, Version, Write,
};
use entourage_store::StoreExt as _;

use super::{
    JobKind, JobStarted,
    stored::{Stored, tally_id},
    work::Step,
};
use crate::{Call, Jobs};

/// How long an account that was to be opened may still be private: the request that opens it is under way.
const OPENING_MILLIS: u64 = 60_000;
/// How many pages of requests one step looks through, so that others come in between.
const PLAN_PAGES: usize = 20;

/// Where the chunks of a list begin, read from its newest row to its oldest; they are taken from the end. It is made
/// anew after a restart.
#[derive(Debug)]
pub(super) struct Plan {
    marks: Vec<Place>,
    /// Where to go on looking; `None` when all of it was looked through.
    open: Option<Place>,
}

impl Plan {
    pub(super) const fn below(before: Version) -> Self {
        Self { marks: Vec::new(), open: Some(Place { position: before, key: Key::MIN }) }
    }

    pub(super) const fn is_unfinished(&self) -> bool {
        self.open.is_some() || !self.marks.is_empty()
    }
}

const fn requests_of(target: Key) -> List {
    List::new(target, Plane::Request, Side::Followers)
}

impl Jobs {
    /// Accepts every request that has been made so far. No quota counts: each follower had room for it when they asked.
    pub async fn accept_all(&self, call: &Call, target: &UserId) -> Result<JobStarted> {
        call.may_change(target)?;
        let user = self.context.stored_user(target).await?;
        let asked = self.above_all(requests_of(user.key)).await?;
        let (id, receipt) = self.start_job(call, JobKind::AcceptAll, &user, Some(asked)).await?;
        self.wake.notify_one();
        Ok(JobStarted { job: self.shown_job(id).await?, receipt })
    }

    /// Before an account is opened: the job that will accept who waits. It looks whether the account was opened, so
    /// that it is no matter where the server stops.
    pub(crate) async fn prepare_opening(&self, id: &UserId, opens: bool) -> Result<Option<Version>> {
        if !opens {
            return Ok(None);
        }
        let Some(user) = self.context.find_user(id).await?.filter(|user| user.private) else { return Ok(None) };
        let (job, _) = self.start_job(&Call::default(), JobKind::GoingPublic, &user, None).await?;
        Ok(Some(job))
    }

    /// After it: `opened` is `None` when nobody knows whether the account was opened. A job that was not needed and
    /// cannot be removed ends by itself.
    pub(crate) async fn settle_opening(&self, job: Option<Version>, opened: Option<bool>) {
        let Some(job) = job else { return };
        if opened == Some(false)
            && let Ok(unneeded) = self.stored_job(job).await
            && self.context.writer.write(&Call::default(), unneeded.removal()).await.is_ok()
        {
            return;
        }
        self.wake.notify_one();
    }

    /// For an account that was opened while it became private and was asked: nobody waits for a public one.
    pub(crate) async fn accept_overtaken(&self, id: &UserId) -> Result<()> {
        let Some(user) = self.context.find_user(id).await?.filter(|user| !user.private) else { return Ok(()) };
        if self.context.store.get_counts(user.key).await?.is_some_and(|counts| counts.requests > 0) {
            self.start_job(&Call::default(), JobKind::GoingPublic, &user, None).await?;
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Accepts everybody who waits for an account that a file made public. The import waits for it: nobody else works
    /// on the store, and a run that is cut off comes here again.
    pub(crate) async fn accept_waiting(&self, target: Key) -> Result<()> {
        let list = requests_of(target);
        let is_public = self.context.users_by_key(&[target]).await?.get(&target).is_some_and(|user| !user.private);
        let above = self.above_all(list).await?;
        if !is_public || above == Version::ZERO {
            return Ok(());
        }
        let mut plan = Plan::below(above);
        while plan.is_unfinished() {
            if let Some(requests) = self.next_edges(list, &mut plan).await? {
                self.accept_edges(target, &requests, None).await?;
            }
        }
        Ok(())
    }

    /// How many of these requests were accepted, the oldest first, so that who asked last stands on top.
    async fn accept_edges(&self, target: Key, edges: &[Edge], tally: Option<RecordId>) -> Result<u64> {
        let accept = |edge: &Edge| {
            let operation = Operation::Accept { target, follower: edge.follower };
            Write { tally: tally.clone(), ..Write::from(operation) }
        };
        let mut accepted = 0;
        for outcome in self.context.writer.write_all(edges.iter().rev().map(accept).collect()).await {
            match outcome {
                Ok(outcome) => accepted += u64::from(outcome.reply.changed()),
                // The request was taken back, or the account is gone.
                Err(error) if matches!(error.code(), Code::NotFound | Code::ActorNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    /// The oldest requests first, so that the order of the list is the order of asking.
    pub(super) async fn accept_chunk(&self, job: &mut Stored) -> Result<(Step, u64)> {
        let Some(target) = self.subject_of(job).await? else { return Ok((Step::Done, 0)) };
        if job.kind == JobKind::GoingPublic && job.before.is_none() && target.private {
            let waited = self.context.clock.now().since_2000().saturating_sub(job.id.millis().since_2000());
            return Ok((if waited < OPENING_MILLIS { Step::Waits } else { Step::Done }, 0));
        }
        let list = requests_of(target.key);
        // What was asked for when the job began, by whatever clock; of an account that is public all requests.
        let before = match job.before {
            Some(before) => before,
            None => self.above_all(list).await?,
        };
        let before = before.max(job.id);
        job.before = Some(before);
        let mut plan = self.plans.lock().remove(&job.id).unwrap_or_else(|| Plan::below(before));
        let Some(requests) = self.next_edges(list, &mut plan).await? else {
            self.plans.lock().insert(job.id, plan);
            return Ok((Step::More, 0));
        };
        let accepted = self.accept_edges(target.key, &requests, Some(tally_id(job.id)?)).await?;
        if plan.is_unfinished() {
            self.plans.lock().insert(job.id, plan);
            return Ok((Step::More, accepted));
        }
        // Nobody has to ask a public account: who asked meanwhile did so by another server's clock.
        let above = self.above_all(list).await?;
        if job.kind == JobKind::GoingPublic && accepted > 0 && above > Version::ZERO && !target.private {
            job.before = Some(above);
            return Ok((Step::More, accepted));
        }
        Ok((Step::Done, accepted))
    }

    /// A version above everything in the list, by whatever clock it came there; zero where there is nothing.
    pub(super) async fn above_all(&self, list: List) -> Result<Version> {
        let page = self.context.store.scan(list, None, 1).await?;
        let newest = page.edges.first().map(|edge| edge.value.position);
        Ok(newest.map_or(Version::ZERO, |newest| Version::from_bits(newest.bits().saturating_add(1)).min(Version::MAX)))
    }

    /// The oldest edges that are left, newest first; `None` while the list is still being looked through.
    pub(super) async fn next_edges(&self, list: List, plan: &mut Plan) -> Result<Option<Vec<Edge>>> {
        for _ in 0..PLAN_PAGES {
            let Some(from) = plan.open.take() else { break };
            let page = self.context.store.scan(list, Some(from), CHUNK_MAX).await?;
            plan.marks.push(from);
            plan.open = page.edges.last().filter(|_| page.more).map(|edge| list.place(edge));
        }
        if plan.open.is_some() {
            return Ok(None);
        }
        let Some(mark) = plan.marks.pop() else { return Ok(Some(Vec::new())) };
        let page = self.context.store.scan(list, Some(mark), CHUNK_MAX).await?;
        if let Some(last) = page.edges.last().filter(|_| page.more) {
            // More than when it was looked through: those below come first.
            plan.marks.extend([mark, list.place(last)]);
            return Ok(None);
        }
        Ok(Some(page.edges))
    }

    pub(super) async fn subject_of(&self, job: &Stored) -> Result<Option<User>> {
        let Some(subject) = job.subject else { return Ok(None) };
        let user = self.context.store.get_users(&[subject.key]).await?.into_iter().flatten().next();
        Ok(user.filter(|user| user.created == subject.created))
    }
}
