//! `GET /admin/jobs` and `/admin/jobs/{job}`, and the response of requests that start one.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{Job, JobStarted, JobState, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    lists::{ListQuery, MoreJson, linked},
    openapi::{
        Access, Group, get,
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
#[schemars(rename = "JobPage")]
struct JobsJson<'a> {
    data: Vec<JobJson<'a>>,
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
    ];
    Group::new("Jobs", "What touches many edges is done in chunks, also across restarts of the server.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: ListQuery = request.query()?;
    let page = service.jobs.list(&request.call, query.cursor(), query.limit()?).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(shown).collect();
    linked(&request, JobsJson { data, more: next_cursor.into() }, next_cursor, query.limit()?)
}

pub(super) async fn one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let unknown = Error::new(Code::NotFound, "there is no such job, or it ended long ago");
    let job = service.jobs.get(&request.call, version(id, unknown)?).await?;
    json(StatusCode::OK, shown(&job))
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
