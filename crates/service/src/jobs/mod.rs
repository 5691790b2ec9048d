//! Jobs: what touches more edges than one request should wait for. A job is a record of the server's own, so that
//! the next server to start takes up what is not finished.

mod accept;
mod due;
mod erase;
mod erased_ids;
mod parked;
mod stored;
mod work;

use std::{collections::HashMap, sync::Arc};

use entourage_model::{Code, Cursor};
use entourage_model::{
    CursorScope, Error, Key, List, Millis, Operation, Place, RecordId, Reply, Result, Selection, Space, User, UserId,
    Version,
};
use entourage_store::{Maintenance, StoreExt as _, Whose};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::{accept::Plan, stored::Stored};
use crate::{Call, Context, Leases, Limit, Receipt, ids::shown_id, writer::unexpected};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    AcceptAll,
    /// An account is private no longer: who asked to follow it does.
    GoingPublic,
    Erase,
    /// Parked follows of an account become active, or requests if it is private.
    AcceptParked,
    DropParked,
}

impl JobKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AcceptAll => "accept_all",
            Self::GoingPublic => "going_public",
            Self::Erase => "erase",
            Self::AcceptParked => "accept_parked",
            Self::DropParked => "drop_parked",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Running,
    Done,
    Failed,
}

impl JobState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The version of the commit that made it.
    pub id: Version,
    pub kind: JobKind,
    pub state: JobState,
    /// Whom it is about; nobody is named once they are erased.
    pub subject: Option<UserId>,
    /// How many edges it has changed so far.
    pub edges: u64,
    pub updated_at: Millis,
    /// Why it failed.
    pub error: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStarted {
    pub job: Job,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    pub rows: Vec<Job>,
    pub next_cursor: Option<String>,
}

/// Starts jobs, shows them, and does the work.
pub struct Jobs {
    context: Arc<Context>,
    leases: Arc<Leases>,
    maintenance: Option<Arc<dyn Maintenance>>,
    /// There may be something to do.
    wake: Notify,
    /// In which order jobs go through requests and parked follows.
    plans: Mutex<HashMap<Version, Plan>>,
}

const SCOPE: CursorScope = CursorScope { list: List::following(Key::SERVER), selection: Selection::Jobs, viewer: None };

impl Jobs {
    pub(crate) fn new(context: Arc<Context>, leases: Arc<Leases>, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        Self { context, leases, maintenance, wake: Notify::new(), plans: Mutex::default() }
    }

    /// Jobs that run and jobs that ended lately, newest first.
    pub async fn list(&self, call: &Call, cursor: Option<&str>, limit: Limit) -> Result<JobPage> {
        call.must_be_admin()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &SCOPE)).transpose()?;
        let after = after.map(|Cursor(place)| RecordId::of_version(place.position));
        let mut jobs = self.scan_jobs(after.as_ref(), limit.get() + 1).await?;
        let more = jobs.len() > limit.get();
        jobs.truncate(limit.get());
        let last = jobs.last().filter(|_| more).map(|job| Place { position: job.id, key: Key::SERVER });
        let next_cursor = last.map(|place| Cursor(place).encode(&self.context.sealer, &SCOPE));
        let keys: Vec<Key> = jobs.iter().filter_map(|job| job.subject).map(|subject| subject.key).collect();
        let users = self.context.users_by_key(&keys).await?;
        let mut rows = Vec::with_capacity(jobs.len());
        for job in jobs {
            let user = job.subject.and_then(|subject| users.get(&subject.key));
            rows.push(self.counted(job).await?.shown(user));
        }
        Ok(JobPage { rows, next_cursor })
    }

    pub async fn get(&self, call: &Call, id: Version) -> Result<Job> {
        call.must_be_admin()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        self.shown_job(id).await
    }

    /// With what it has changed so far.
    async fn counted(&self, job: Stored) -> Result<Stored> {
        match job.state {
            JobState::Running => Ok(Stored { edges: job.edges + self.tally_of(job.id).await?, ..job }),
            JobState::Done | JobState::Failed => Ok(job),
        }
    }

    async fn shown_job(&self, id: Version) -> Result<Job> {
        let stored = self.counted(self.stored_job(id).await?).await?;
        let keys: Vec<Key> = stored.subject.map(|subject| subject.key).into_iter().collect();
        let users = self.context.users_by_key(&keys).await?;
        let user = stored.subject.and_then(|subject| users.get(&subject.key));
        Ok(stored.shown(user))
    }

    async fn stored_job(&self, id: Version) -> Result<Stored> {
        let found = self.context.store.get_server_record(Space::Job, &RecordId::of_version(id)).await?;
        let stored = found.map(|(owner, record)| Stored::read(owner, &record)).transpose()?;
        stored.ok_or_else(|| Error::new(Code::NotFound, "there is no such job, or it ended long ago"))
    }

    /// The record is there before anything is done: whatever happens then, somebody goes on with it.
    async fn start_job(
        &self,
        call: &Call,
        kind: JobKind,
        user: &User,
        before: Option<Version>,
    ) -> Result<(Version, Receipt)> {
        let value = stored::fresh(kind, user, before)?;
        let owner = self.context.store.guarantees().buckets.of(user.key);
        let operation = Operation::AddRecord { space: Space::Job, owner, value, cap: None };
        match self.context.writer.write(call, operation).await? {
            (Reply::Record { version, .. }, receipt) => Ok((version, receipt)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Ends when there may be something to do.
    pub async fn wait_for_work(&self) {
        self.wake.notified().await;
    }

    async fn scan_jobs(&self, after: Option<&RecordId>, limit: usize) -> Result<Vec<Stored>> {
        let after = after.map_or(RecordId::BELOW_VERSIONS, RecordId::as_bytes);
        let records = self.context.store.scan_server_records(Space::Job, Some(after), limit).await?;
        records.iter().map(|(owner, record)| Stored::read(*owner, record)).collect()
    }
}

impl Stored {
    fn shown(self, user: Option<&User>) -> Job {
        let subject = self.subject.and_then(|subject| {
            let user = user.filter(|user| user.created == subject.created);
            shown_id(subject.key, user)
        });
        let Self { id, kind, state, edges, updated, error, .. } = self;
        Job { id, kind, state, subject, edges, updated_at: updated.millis(), error }
    }
}
