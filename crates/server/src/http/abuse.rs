//! `/admin/abuse`: cases of suspected abuse and what is decided about them; `/admin/users/{id}/follow-quota`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{
    Case, CaseClosed, CaseEvidence, CaseFilter, CaseKind, CaseState, CaseUser, Limit, Service, TargetQuota,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::{Nothing, Whole},
    jobs::version,
    lists::{MoreJson, linked_by},
    openapi::{
        Access, Group, delete, get, post, put,
        schema::{Cursor, Id, PageLimit, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

const CASE: &str = "/api/v1/admin/abuse/{case}";
const QUOTA: &str = "/api/v1/admin/users/{id}/follow-quota";
/// How many accounts and targets the list shows of each case.
const LISTED_USERS: usize = 5;

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaseKind")]
#[allow(dead_code, reason = "described, never made")]
pub(super) enum CaseKindName {
    PairChurn,
    MassFollow,
    FollowChurn,
    RequestFlood,
    LookAlikes,
    Surge,
    Cluster,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaseState")]
#[allow(dead_code, reason = "described, never made")]
pub(super) enum CaseStateName {
    Open,
    Dismissed,
    Confirmed,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CasesQuery {
    #[schemars(with = "Option<CaseStateName>")]
    state: Option<String>,
    #[schemars(with = "Option<CaseKindName>")]
    kind: Option<String>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<String>,
}

impl CasesQuery {
    fn filter(&self) -> Result<CaseFilter> {
        let state = self.state.as_deref().map(|text| {
            CaseState::parse(text).ok_or_else(|| not_one_of("state", CaseState::ALL.map(CaseState::as_str).as_slice()))
        });
        let kind = self.kind.as_deref().map(|text| {
            CaseKind::parse(text).ok_or_else(|| not_one_of("kind", CaseKind::ALL.map(CaseKind::as_str).as_slice()))
        });
        Ok(CaseFilter { state: state.transpose()?, kind: kind.transpose()? })
    }
}

fn not_one_of(parameter: &str, words: &[&str]) -> Error {
    let detail = format!("one of {}", words.join(", "));
    Error::invalid(format!("the {parameter} is {detail}")).at(format!("/{parameter}"), detail)
}

#[derive(Serialize, JsonSchema)]
struct CaseJson<'a> {
    #[schemars(with = "Version")]
    id: String,
    #[schemars(with = "CaseKindName")]
    kind: &'static str,
    #[schemars(with = "CaseStateName")]
    state: &'static str,
    /// The accounts that are suspected; a list shows the first few.
    actors: Vec<CaseUserJson<'a>>,
    actor_count: usize,
    /// Whom they follow; a list shows the first few.
    targets: Vec<CaseUserJson<'a>>,
    /// What was counted, at its greatest.
    figures: BTreeMap<&'a str, f64>,
    /// How often it was found.
    count: u64,
    #[schemars(with = "Time")]
    first_seen: String,
    #[schemars(with = "Time")]
    last_seen: String,
    #[schemars(with = "Time")]
    updated_at: String,
    #[schemars(with = "Option<Time>")]
    closed_at: Option<String>,
    /// The newest events that speak for it; a list leaves them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Vec<EvidenceJson<'a>>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CaseUser")]
struct CaseUserJson<'a> {
    /// `null` once they are erased.
    #[schemars(with = "Option<Id>")]
    id: Option<&'a str>,
    /// Whether this case pauses their right to follow.
    paused: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CaseEvidence")]
struct EvidenceJson<'a> {
    /// That of the event.
    #[schemars(with = "Version")]
    version: String,
    #[schemars(with = "Time")]
    time: String,
    #[schemars(with = "Option<Id>")]
    follower: Option<&'a str>,
    #[schemars(with = "Option<Id>")]
    target: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CasePage")]
struct CasesJson<'a> {
    data: Vec<CaseJson<'a>>,
    #[serde(flatten)]
    more: MoreJson<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClosedCase")]
struct ClosedJson<'a> {
    case: CaseJson<'a>,
    changed: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FollowQuota")]
struct QuotaBody {
    /// New follows of this user a minute, by anybody; 0 is no limit.
    #[schemars(with = "u32", range(max = 1_000_000))]
    per_minute: Whole,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FollowQuotaOfUser")]
struct QuotaJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    /// What was set for this user; 0 is no limit, `null` is that of everybody.
    per_minute: Option<u32>,
    /// What holds for users without their own; 0 is no limit.
    default_per_minute: u32,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/admin/abuse", Access::Admin, list)
            .named("list_cases", "Cases of suspected abuse, newest first")
            .pages::<CasesQuery>()
            .answers::<CasesJson>(StatusCode::OK, "A page")
            .refuses(&[Code::InvalidRequest]),
        get(CASE, Access::Admin, one)
            .named("get_case", "One case, with its evidence")
            .answers::<CaseJson>(StatusCode::OK, "The case")
            .refuses(&[Code::NotFound]),
        post("/api/v1/admin/abuse/{case}/dismiss", Access::Admin, dismiss)
            .named("dismiss_case", "Say that a case is no abuse")
            .about("Pauses that it made end. The same is not reported again for `abuse.cool_down`.")
            .audited("abuse.dismiss")
            .answers::<ClosedJson>(StatusCode::OK, "Dismissed, now or before")
            .refuses(&[Code::NotFound]),
        post("/api/v1/admin/abuse/{case}/confirm", Access::Admin, confirm)
            .named("confirm_case", "Say that a case is abuse")
            .about("Pauses that it made end as well; what is done about its actors is another request.")
            .audited("abuse.confirm")
            .answers::<ClosedJson>(StatusCode::OK, "Confirmed, now or before")
            .refuses(&[Code::NotFound]),
        put(QUOTA, Access::Admin, set_quota)
            .named("set_follow_quota", "Limit how fast one user is followed")
            .about("In place of `limits.follows_per_target_per_minute`, at once, and after a restart.")
            .audited("follow_quota.set")
            .body::<QuotaBody>()
            .answers::<QuotaJson>(StatusCode::OK, "Set")
            .refuses(&[Code::UserNotFound]),
        get(QUOTA, Access::Admin, quota)
            .named("get_follow_quota", "How fast one user may be followed")
            .answers::<QuotaJson>(StatusCode::OK, "What was set, and what holds for everybody")
            .refuses(&[Code::UserNotFound]),
        delete(QUOTA, Access::Admin, remove_quota)
            .named("remove_follow_quota", "Let everybody's quota hold for one user again")
            .audited("follow_quota.remove")
            .answers::<QuotaJson>(StatusCode::OK, "Removed, now or before")
            .refuses(&[Code::UserNotFound]),
    ];
    let about = "What detectors found, for people to decide about. Nobody is banned automatically.";
    Group::new("Abuse", about, operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: CasesQuery = request.query()?;
    let (filter, limit) = (query.filter()?, Limit::parse(query.limit.as_deref())?);
    let page = service.abuse.list(&request.call, filter, query.cursor.as_deref(), limit).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(|case| shown(case, Some(LISTED_USERS))).collect();
    // A cursor belongs to its filter.
    let mut parameter = String::new();
    for (name, value) in [("state", &query.state), ("kind", &query.kind)] {
        if let Some(value) = value {
            parameter.push_str(&format!("{name}={value}&"));
        }
    }
    parameter.push_str("cursor");
    linked_by(&parameter, &request, CasesJson { data, more: next_cursor.into() }, next_cursor, limit)
}

pub(super) async fn one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let case = service.abuse.get(&request.call, case_id(&request)?).await?;
    json(StatusCode::OK, shown(&case, None))
}

pub(super) async fn dismiss(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    close(&service, &request, CaseState::Dismissed).await
}

pub(super) async fn confirm(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    close(&service, &request, CaseState::Confirmed).await
}

async fn close(service: &Service, request: &ApiRequest, state: CaseState) -> Answer {
    request.optional_body::<Nothing>()?;
    let CaseClosed { case, changed, receipt } = service.abuse.close(&request.call, case_id(request)?, state).await?;
    written(StatusCode::OK, ClosedJson { case: shown(&case, None), changed }, &receipt)
}

pub(super) async fn set_quota(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let QuotaBody { per_minute: Whole(per_minute) } = request.body()?;
    let done = service.abuse.set_target_quota(&request.call, id, Some(per_minute)).await?;
    written(StatusCode::OK, quota_json(id, done.quota), &done.receipt)
}

pub(super) async fn quota(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    json(StatusCode::OK, quota_json(id, service.abuse.target_quota(&request.call, id).await?))
}

pub(super) async fn remove_quota(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.abuse.set_target_quota(&request.call, id, None).await?;
    written(StatusCode::OK, quota_json(id, done.quota), &done.receipt)
}

fn case_id(request: &ApiRequest) -> Result<entourage_model::Version> {
    let [id] = request.ids()?;
    version(id, Error::new(Code::NotFound, "there is no such case"))
}

fn quota_json(id: &UserId, quota: TargetQuota) -> QuotaJson<'_> {
    let TargetQuota { per_minute, default_per_minute } = quota;
    QuotaJson { id: id.as_str(), per_minute, default_per_minute }
}

/// With everybody and the evidence, or as a row of a list.
fn shown(case: &Case, listed: Option<usize>) -> CaseJson<'_> {
    let most = listed.unwrap_or(usize::MAX);
    CaseJson {
        id: case.id.to_string(),
        kind: case.kind.as_str(),
        state: case.state.as_str(),
        actors: case.actors.iter().take(most).map(case_user).collect(),
        actor_count: case.actors.len(),
        targets: case.targets.iter().take(most).map(case_user).collect(),
        figures: case.figures.iter().map(|(name, value)| (&**name, *value)).collect(),
        count: case.count,
        first_seen: case.first_seen.to_rfc3339(),
        last_seen: case.last_seen.to_rfc3339(),
        updated_at: case.updated_at.to_rfc3339(),
        closed_at: case.closed_at.map(|at| at.to_rfc3339()),
        evidence: listed.is_none().then(|| case.evidence.iter().map(evidence).collect()),
    }
}

fn case_user(user: &CaseUser) -> CaseUserJson<'_> {
    CaseUserJson { id: user.id.as_ref().map(UserId::as_str), paused: user.paused }
}

fn evidence(evidence: &CaseEvidence) -> EvidenceJson<'_> {
    EvidenceJson {
        version: evidence.version.to_string(),
        time: evidence.version.millis().to_rfc3339(),
        follower: evidence.follower.as_ref().map(UserId::as_str),
        target: evidence.target.as_ref().map(UserId::as_str),
    }
}
