//! `/admin/audit`, `/admin/verify`, `/admin/recount` and `/admin/heal`: consistency checks, and repair of counts and
//! directions.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, UserId};
use entourage_service::{AuditReport, Drift, EdgesHealed, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::Nothing,
    openapi::{
        Access, Group, get, post,
        schema::{Id, Time},
    },
    request::ApiRequest,
    response::{Answer, json},
};

#[derive(Serialize, JsonSchema)]
struct AuditJson<'a> {
    /// `null` until everybody was looked at once.
    report: Option<PassJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditReport")]
struct PassJson<'a> {
    #[schemars(with = "Time")]
    started_at: String,
    #[schemars(with = "Time")]
    finished_at: String,
    users: u64,
    edges: u64,
    /// Users of whom something does not agree.
    drifted: u64,
    /// The part of all users that is.
    drift_ratio: f64,
    /// More than 1 % of users drifted.
    alert: bool,
    /// Users whose lists changed during every look.
    unsettled: u64,
    /// The first hundred.
    drifts: Vec<DriftJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Drift")]
struct DriftJson<'a> {
    #[schemars(with = "Id")]
    user: &'a str,
    list: &'a str,
    /// `count`, `quiet_count`, `missing_mirror` or `different_mirror`.
    cause: &'a str,
    detail: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VerifyReport")]
struct VerifyJson {
    clean: bool,
    users: u64,
    edges: u64,
    records: u64,
    events: u64,
    problems: Vec<ProblemJson>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Disagreement")]
struct ProblemJson {
    /// What was compared.
    check: &'static str,
    detail: String,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upkeep")]
struct WhomBody {
    /// Without it everybody.
    #[serde(default)]
    #[schemars(with = "Option<Id>")]
    user: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RecountedJson {
    /// Users whose lists were counted.
    users: u64,
    /// Lists whose count was another one.
    corrected: u64,
}

#[derive(Serialize, JsonSchema)]
struct HealedJson {
    /// Users whose lists were looked at.
    users: u64,
    /// Edges of their own lists.
    edges: u64,
    /// Edges whose target's side was set right from the follower's.
    healed: u64,
    /// Edges that were left as they are: the follower's side does not agree with itself.
    unclear: u64,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/audit", Access::Admin, audit)
            .named("last_audit", "What the last audit found")
            .about("In the background, counts are compared with lists and both directions of edges with each other.")
            .answers::<AuditJson>(StatusCode::OK, "The last whole pass"),
        post("/api/v1/admin/verify", Access::Admin, verify)
            .named("verify", "Compare everything with everything")
            .about("The embedded store takes no writes meanwhile. It has no deadline.")
            .takes_long()
            .reads()
            .answers::<VerifyJson>(StatusCode::OK, "What was found"),
        post("/api/v1/admin/recount", Access::Admin, recount)
            .named("recount", "Set counts right")
            .about("Counts the lists of one user or of everybody. It has no deadline.")
            .takes_long()
            .reads()
            .optional_body::<WhomBody>()
            .answers::<RecountedJson>(StatusCode::OK, "The counts are those of the lists")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/admin/heal", Access::Admin, heal)
            .named("heal", "Set directions of edges right")
            .about(
                "Looks at every edge of one user, in both directions, or of everybody, and sets the target's side right \
                 from the follower's. It has no deadline.",
            )
            .takes_long()
            .reads()
            .optional_body::<WhomBody>()
            .answers::<HealedJson>(StatusCode::OK, "Both directions agree")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Upkeep", "Whether the store agrees with itself.", operations)
}

pub(super) async fn audit(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let report = service.upkeep.last_audit(&request.call)?;
    json(StatusCode::OK, AuditJson { report: report.as_ref().map(pass) })
}

pub(super) async fn verify(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    request.optional_body::<Nothing>()?;
    let report = service.upkeep.verify(&request.call).await?;
    let clean = report.is_clean();
    let problem = |problem: entourage_store::Problem| ProblemJson { check: problem.check, detail: problem.detail };
    let problems = report.problems.into_iter().map(problem).collect();
    let (users, edges, records, events) = (report.users, report.edges, report.records, report.events);
    json(StatusCode::OK, VerifyJson { clean, users, edges, records, events, problems })
}

pub(super) async fn recount(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let WhomBody { user } = request.optional_body()?;
    let user = user.as_deref().map(UserId::try_from).transpose()?;
    let done = service.upkeep.recount(&request.call, user.as_ref()).await?;
    json(StatusCode::OK, RecountedJson { users: done.users, corrected: done.corrected })
}

pub(super) async fn heal(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let WhomBody { user } = request.optional_body()?;
    let user = user.as_deref().map(UserId::try_from).transpose()?;
    let EdgesHealed { users, edges, healed, unclear } = service.upkeep.heal(&request.call, user.as_ref()).await?;
    json(StatusCode::OK, HealedJson { users, edges, healed, unclear })
}

fn pass(report: &AuditReport) -> PassJson<'_> {
    PassJson {
        started_at: report.started_at.to_rfc3339(),
        finished_at: report.finished_at.to_rfc3339(),
        users: report.users,
        edges: report.edges,
        drifted: report.drifted,
        drift_ratio: report.drift_ratio(),
        alert: report.is_alert(),
        unsettled: report.unsettled,
        drifts: report.drifts.iter().map(drift_json).collect(),
    }
}

fn drift_json(drift: &Drift) -> DriftJson<'_> {
    DriftJson { user: drift.user.as_str(), list: drift.list, cause: drift.cause, detail: &drift.detail }
}
