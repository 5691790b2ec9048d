//! Periodic work: the one place that says what runs when. Each task has a record of the server's: when it ran last, how
//! that ended, when it runs next. Where several servers share a store, the one that has the lease runs the task. What a
//! server holds in its own memory every server saves itself: such a task is known to its process alone.

mod claim;
mod stored;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Code, Error, Key, Millis, Result, Space, Version};
use entourage_store::Snapshots;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::stored::Document;
use crate::{Call, Context, Duty, Jobs, Leases, Signals, Upkeep};

/// How often ids of the erased that no event needs are released.
const RETENTION_EVERY: Duration = Duration::from_secs(10 * 60);
/// How often counters of signals are saved, and rows of the cache. Signals also follow each checkpoint of the store.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(5 * 60);
/// How often to look whether a task is due, or was asked for on another server.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// What is overdue when a server starts runs after this part of its interval, so that not everything runs at once.
const FIRST_AFTER: u32 = 60;
/// But not before this, where the interval is longer.
const FIRST_AFTER_MIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    /// Compares everybody's lists with their counts, and both directions with each other.
    CountAudit,
    /// Releases what is kept only as long as events are.
    Retention,
    /// Looks for accounts that follow the same people.
    CoFollowClusters,
    /// Saves the counters of signals.
    SignalSnapshot,
    /// Saves what the cached layer holds.
    CacheSnapshot,
}

impl Task {
    pub const ALL: [Self; 5] =
        [Self::CountAudit, Self::Retention, Self::CoFollowClusters, Self::SignalSnapshot, Self::CacheSnapshot];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CountAudit => "count_audit",
            Self::Retention => "retention",
            Self::CoFollowClusters => "co_follow_clusters",
            Self::SignalSnapshot => "signal_snapshot",
            Self::CacheSnapshot => "cache_snapshot",
        }
    }

    /// The lease under which it runs.
    const fn duty(self) -> Duty {
        match self {
            Self::CountAudit => Duty::Audit,
            Self::Retention | Self::CoFollowClusters | Self::SignalSnapshot | Self::CacheSnapshot => Duty::Scheduler,
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.as_str() == name)
    }
}

/// How the last run of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskResult {
    Done,
    Failed,
    /// The server stopped, or lost its claim.
    Interrupted,
}

impl TaskResult {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A task as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub task: Task,
    pub every: Duration,
    pub is_running: bool,
    /// When it ran last, or began to run.
    pub last_started: Option<Millis>,
    pub last_finished: Option<Millis>,
    pub result: Option<TaskResult>,
    /// What came of it, or why it failed.
    pub detail: Option<Box<str>>,
    pub next: Millis,
}

/// Looks for accounts that follow the same people.
#[async_trait]
pub trait Clusters: Send + Sync + 'static {
    /// How often.
    fn every(&self) -> Duration;

    /// What was found, in a few words.
    async fn find(&self) -> Result<String>;
}

/// Runs tasks when they are due, or when somebody asks.
pub struct Scheduler {
    context: Arc<Context>,
    leases: Arc<Leases>,
    jobs: Arc<Jobs>,
    upkeep: Arc<Upkeep>,
    signals: Arc<Signals>,
    clusters: Option<Arc<dyn Clusters>>,
    cache: Option<Arc<dyn Snapshots>>,
    /// Tasks of this process alone.
    own: Mutex<HashMap<Task, (Version, Document)>>,
    /// The checkpoint that the last snapshot of signals followed.
    checkpoint: AtomicU64,
    /// What this process runs at the moment.
    running: Mutex<Vec<Task>>,
    /// When this process began to run tasks, in milliseconds since 2000.
    began: AtomicU64,
    /// A task was asked for.
    wake: Notify,
}

impl Scheduler {
    pub(crate) fn new(
        context: Arc<Context>,
        leases: Arc<Leases>,
        jobs: Arc<Jobs>,
        upkeep: Arc<Upkeep>,
        signals: Arc<Signals>,
        clusters: Option<Arc<dyn Clusters>>,
        cache: Option<Arc<dyn Snapshots>>,
    ) -> Self {
        let began = AtomicU64::new(context.clock.now().since_2000());
        let checkpoint = AtomicU64::new(upkeep.checkpoints());
        let (own, running, wake) = (Mutex::default(), Mutex::default(), Notify::new());
        Self { context, leases, jobs, upkeep, signals, clusters, cache, own, checkpoint, running, began, wake }
    }

    /// Whether every server runs it for itself.
    fn is_own(&self, task: Task) -> bool {
        match task {
            Task::CacheSnapshot => true,
            // Those of one process are in no other one's memory.
            Task::SignalSnapshot => !self.context.store.guarantees().is_alone(),
            Task::CountAudit | Task::Retention | Task::CoFollowClusters => false,
        }
    }

    /// The store made a checkpoint since the last snapshot of signals, and signals have come.
    fn follows_checkpoint(&self, task: Task) -> bool {
        task == Task::SignalSnapshot
            && self.upkeep.checkpoints() != self.checkpoint.load(Ordering::Relaxed)
            && self.signals.has_changed()
    }

    /// How often a task runs; `None` is never.
    fn every(&self, task: Task) -> Option<Duration> {
        match task {
            Task::CountAudit => self.context.rules.audit_interval,
            Task::Retention => Some(RETENTION_EVERY),
            Task::CoFollowClusters => self.clusters.as_ref().map(|clusters| clusters.every()),
            Task::SignalSnapshot => Some(SNAPSHOT_EVERY),
            Task::CacheSnapshot => self.cache.is_some().then_some(SNAPSHOT_EVERY),
        }
    }

    /// Every task that runs on this server, with its last run and its next.
    pub async fn list(&self, call: &Call) -> Result<Vec<Scheduled>> {
        call.must_be_admin()?;
        let mut tasks = Vec::new();
        for task in Task::ALL {
            if let Some(every) = self.every(task) {
                let document = self.stored(task).await?.map(|(_, document)| document).unwrap_or_default();
                tasks.push(self.shown(task, every, document));
            }
        }
        Ok(tasks)
    }

    /// Asks for a run as soon as a server of this store can: at once, unless it runs already.
    pub async fn run_now(&self, call: &Call, task: Task) -> Result<Scheduled> {
        call.must_be_admin()?;
        let every = self.every(task).ok_or_else(not_scheduled)?;
        let document = self.want(task).await?;
        self.wake.notify_waiters();
        Ok(self.shown(task, every, document))
    }

    /// Runs a task to its end, if no other server does.
    pub async fn run_to_end(&self, call: &Call, task: Task) -> Result<Scheduled> {
        let asked = self.run_now(call, task).await?;
        if let Some(claim) = self.look(task, asked.every).await? {
            self.work(claim, asked.every).await?;
        }
        let document = self.stored(task).await?.map(|(_, document)| document).unwrap_or_default();
        Ok(self.shown(task, asked.every, document))
    }

    fn shown(&self, task: Task, every: Duration, document: Document) -> Scheduled {
        let next = if document.wanted { self.context.clock.now() } else { self.due(&document, every) };
        let Document { holder, started, finished, result, detail, .. } = document;
        let is_running = holder.is_some();
        Scheduled { task, every, is_running, last_started: started, last_finished: finished, result, detail, next }
    }

    /// When a task runs next: not before its time, and not at once where this server has just begun.
    fn due(&self, document: &Document, every: Duration) -> Millis {
        let first =
            if every < FIRST_AFTER_MIN * 2 { every / FIRST_AFTER } else { FIRST_AFTER_MIN.max(every / FIRST_AFTER) };
        let first = Millis::from_since_2000(self.began.load(Ordering::Relaxed)).plus(millis(first));
        // A clock that was set back must not stop it until it has caught up.
        let latest = self.context.clock.now().plus(millis(every));
        document.next.map_or(first, |next| next.min(latest).max(first))
    }

    /// Runs tasks until streams end.
    pub(crate) async fn run(&self) {
        self.began.store(self.context.clock.now().since_2000(), Ordering::Relaxed);
        let [audit, retention, clusters, signals, cache] = Task::ALL.map(|task| self.run_task(task));
        tokio::join!(audit, retention, clusters, signals, cache);
    }

    async fn run_task(&self, task: Task) {
        let Some(every) = self.every(task) else { return };
        let mut closed = self.context.hub.closed();
        let mut said = None;
        loop {
            let looked = async {
                match self.look(task, every).await? {
                    Some(claim) => self.work(claim, every).await,
                    None => Ok(()),
                }
            };
            match looked.await {
                Ok(()) => said = None,
                // A store that is unreachable for long is reported once.
                Err(error) if said == Some(error.code()) => {}
                Err(error) => {
                    tracing::warn!(task = task.as_str(), %error, "a periodic task cannot run; it is tried again");
                    said = Some(error.code());
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY.min(every / FIRST_AFTER)) => {}
                () = self.wake.notified() => {}
                _ = closed.wait_for(|closed| *closed) => return,
            }
        }
    }

    /// The work itself, and what came of it.
    async fn perform(&self, task: Task) -> Result<String> {
        entourage_store::fail_point("scheduler");
        match task {
            Task::CountAudit => {
                let report = self.upkeep.audit_within_interval().await?;
                Ok(format!("{} users, {} edges, {} drifted", report.users, report.edges, report.drifted))
            }
            Task::Retention => {
                let released = self.jobs.release_old_ids().await?;
                Ok(format!("{released} ids of erased users released"))
            }
            Task::CoFollowClusters => match &self.clusters {
                Some(clusters) => clusters.find().await,
                None => Err(not_scheduled()),
            },
            Task::SignalSnapshot => {
                let checkpoint = self.upkeep.checkpoints();
                let saved = self.signals.exchange().await?;
                self.checkpoint.store(checkpoint, Ordering::Relaxed);
                Ok(format!("{saved} chunks of counters saved"))
            }
            Task::CacheSnapshot => match &self.cache {
                Some(cache) => Ok(format!("{} rows saved", cache.save_snapshot().await?)),
                None => Err(not_scheduled()),
            },
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn not_scheduled() -> Error {
    Error::new(Code::NotFound, "there is no such task on this server; GET /api/v1/admin/jobs lists them")
}

const SPACE: Space = Space::Schedule;
const OWNER: Key = Key::SERVER;
