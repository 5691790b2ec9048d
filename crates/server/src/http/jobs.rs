//! `GET /admin/jobs` and `/admin/jobs/{job}`, `POST /admin/jobs/{task}/run`, and the response of requests that start a job.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Millis, Result, UserId};
use entourage_service::{Job, JobStarted, JobState, Scheduled, Service, Task, TaskResult};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    body::Nothing,
    lists::{ListQuery, MoreJson, linked},
    openapi::{
        Access, Group, get, post,
        schema::{Id, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

#[derive(Serialize, JsonSchema)]
struct JobJson<'a> {
    #[schemars(with = "Version")]
    id: String,
    #[schemars(with = "JobKindName")]
    kind: &'static str,
    #[schemars(with = "JobStateName")]
    state: &'static str,
    /// Whom it is about; `null` once they are erased.
    #[schemars(with = "Option<Id>")]
    subject: Option<&'a str>,
    /// Edges changed so far.
    edges: u64,
    #[schemars(with = "Time")]
    created_at: String,
    #[schemars(with = "Time")]
    updated_at: String,
    #[schemars(with = "Option<Time>")]
    finished_at: Option<String>,
    /// Why it failed.
    error: Option<&'a str>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "JobKind")]
#[allow(dead_code, reason = "described, never made")]
enum JobKindName {
    AcceptAll,
    GoingPublic,
    Erase,
    AcceptParked,
    DropParked,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "JobState")]
#[allow(dead_code, reason = "described, never made")]
enum JobStateName {
    Running,
    Done,
    Failed,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StartedJob")]
pub(super) struct StartedJson<'a> {
    job: JobJson<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduledTask")]
struct ScheduledJson {
    #[schemars(with = "TaskName")]
    task: &'static str,
    every_seconds: f64,
    running: bool,
    #[schemars(with = "Option<Time>")]
    last_started_at: Option<String>,
    #[schemars(with = "Option<Time>")]
    last_finished_at: Option<String>,
    /// How the last run ended; `null` before the first.
    #[schemars(with = "Option<TaskResultName>")]
    result: Option<&'static str>,
    /// What came of it, or why it failed.
    detail: Option<Box<str>>,
    #[schemars(with = "Time")]
    next_at: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskName")]
#[allow(dead_code, reason = "described, never made")]
enum TaskName {
    CountAudit,
    Retention,
    CoFollowClusters,
    SignalSnapshot,
    CacheSnapshot,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskResult")]
#[allow(dead_code, reason = "described, never made")]
enum TaskResultName {
    Done,
    Failed,
    Interrupted,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WantedTask")]
struct WantedJson {
    scheduled: ScheduledJson,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JobPage")]
struct JobsJson<'a> {
    data: Vec<JobJson<'a>>,
    /// What runs by itself, now and then.
    scheduled: Vec<ScheduledJson>,
    #[serde(flatten)]
    more: MoreJson<'a>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/jobs", Access::Admin, list)
            .named("list_jobs", "Jobs that run or ended within a week, newest first")
            .pages::<ListQuery>()
            .answers::<JobsJson>(StatusCode::OK, "A page"),
        get("/api/v1/admin/jobs/{job}", Access::Admin, one)
            .named("get_job", "One job")
            .answers::<JobJson>(StatusCode::OK, "The job")
            .refuses(&[Code::NotFound]),
        post("/api/v1/admin/jobs/{task}/run", Access::Admin, run)
            .named("run_task", "Run a scheduled task now")
            .about("One server of the store runs it as soon as it can. `GET /admin/jobs` shows what came of it.")
            .audited("task.run")
            .reads()
            .answers::<WantedJson>(StatusCode::ACCEPTED, "It is asked for")
            .refuses(&[Code::NotFound]),
    ];
    Group::new("Jobs", "What touches many edges is done in chunks, also across restarts of the server.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: ListQuery = request.query()?;
    let page = service.jobs.list(&request.call, query.cursor(), query.limit()?).await?;
    let next_cursor = page.next_cursor.as_deref();
    let scheduled = service.scheduler.list(&request.call).await?.into_iter().map(scheduled).collect();
    let data = page.rows.iter().map(shown).collect();
    linked(&request, JobsJson { data, scheduled, more: next_cursor.into() }, next_cursor, query.limit()?)
}

pub(super) async fn one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let unknown = Error::new(Code::NotFound, "there is no such job, or it ended long ago");
    let job = service.jobs.get(&request.call, version(id, unknown)?).await?;
    json(StatusCode::OK, shown(&job))
}

pub(super) async fn run(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [name] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let unknown = || Error::new(Code::NotFound, "there is no such task; GET /api/v1/admin/jobs lists them");
    let task = Task::parse(name.as_str()).ok_or_else(unknown)?;
    let wanted = service.scheduler.run_now(&request.call, task).await?;
    json(StatusCode::ACCEPTED, WantedJson { scheduled: scheduled(wanted) })
}

fn scheduled(task: Scheduled) -> ScheduledJson {
    ScheduledJson {
        task: task.task.as_str(),
        every_seconds: task.every.as_secs_f64(),
        running: task.is_running,
        last_started_at: task.last_started.map(Millis::to_rfc3339),
        last_finished_at: task.last_finished.map(Millis::to_rfc3339),
        result: task.result.map(TaskResult::as_str),
        detail: task.detail,
        next_at: task.next.to_rfc3339(),
    }
}

pub(super) fn started(done: &JobStarted) -> Answer {
    written(StatusCode::ACCEPTED, StartedJson { job: shown(&done.job) }, &done.receipt)
}

fn shown(job: &Job) -> JobJson<'_> {
    let updated_at = job.updated_at.to_rfc3339();
    JobJson {
        id: job.id.to_string(),
        kind: job.kind.as_str(),
        state: job.state.as_str(),
        subject: job.subject.as_ref().map(UserId::as_str),
        edges: job.edges,
        created_at: job.id.millis().to_rfc3339(),
        finished_at: (job.state != JobState::Running).then(|| updated_at.clone()),
        updated_at,
        error: job.error.as_deref(),
    }
}

/// An id in the path that is a version; anything else is `unknown`.
pub(super) fn version(id: &UserId, unknown: Error) -> Result<entourage_model::Version> {
    let bits = id.as_number().and_then(|number| u64::try_from(number).ok()).ok_or(unknown)?;
    Ok(entourage_model::Version::from_bits(bits))
}
