//! `GET /users/{id}/suggestions` and `DELETE …/suggestions/{b}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{Person, RankerName, Reason, Service, Suggestion, parse_suggestion_limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::Nothing,
    openapi::{
        Access, Group, delete, get,
        schema::{Id, Ranker, SuggestionLimit, Time},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SuggestionQuery {
    #[schemars(with = "Option<SuggestionLimit>")]
    limit: Option<String>,
    #[schemars(with = "Option<Ranker>")]
    ranker: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SuggestionsJson<'a> {
    data: Vec<SuggestionJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct SuggestionJson<'a> {
    #[serde(flatten)]
    person: PersonJson<'a>,
    /// When this user was created.
    #[schemars(with = "Time")]
    created_at: String,
    reason: ReasonJson<'a>,
}

#[derive(Serialize, JsonSchema)]
struct PersonJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SuggestionReason")]
struct ReasonJson<'a> {
    r#type: ReasonType,
    /// How many of those whom the user follows follow them, as far as the user may see. With `followed_by` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    common: Option<u32>,
    /// Some of those: whom the user followed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_by: Option<Vec<PersonJson<'a>>>,
    /// How many more they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    and_more: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SuggestionReasonType")]
enum ReasonType {
    FollowedBy,
    Imported,
    Signal,
    FollowsYou,
    Popular,
}

#[derive(Serialize, JsonSchema)]
struct DismissedJson {
    dismissed: bool,
    /// Whether they were not dismissed before.
    changed: bool,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/suggestions", Access::Own("id"), list)
            .named("list_suggestions", "Whom a user may want to follow, best first")
            .about(
                "First those whom the people follow whom the user follows: of their 500 newest follows, the 500 newest \
                 that the user may see. Then imported suggestions, those whose profiles the user looks at, followers who are \
                 not followed back and, for those who follow hardly anybody, the leaderboard. Nobody whom the user follows, asked to follow, blocks, mutes or \
                 dismissed, or who blocks them.",
            )
            .query::<SuggestionQuery>()
            .answers::<SuggestionsJson>(StatusCode::OK, "Fifty at most, with reasons")
            .refuses(&[Code::UserNotFound]),
        delete("/api/v1/users/{id}/suggestions/{other}", Access::Own("id"), dismiss)
            .named("dismiss_suggestion", "Never suggest somebody again")
            .about("Whether they were suggested or not.")
            .answers::<DismissedJson>(StatusCode::OK, "Dismissed, now or before")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Suggestions", "Whom to follow, and why.", operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let query: SuggestionQuery = request.query()?;
    let limit = parse_suggestion_limit(query.limit.as_deref())?;
    let ranker = query.ranker.as_deref().map(RankerName::parse).transpose()?;
    let found = service.suggestions.suggestions(&request.call, id, ranker, limit).await?;
    json(StatusCode::OK, SuggestionsJson { data: found.iter().map(suggestion).collect() })
}

pub(super) async fn dismiss(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id, other] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.suggestions.dismiss(&request.call, id, other).await?;
    written(StatusCode::OK, DismissedJson { dismissed: true, changed: done.changed }, &done.receipt)
}

fn suggestion(found: &Suggestion) -> SuggestionJson<'_> {
    let created_at = found.created_at.to_rfc3339();
    SuggestionJson { person: person(&found.person), created_at, reason: reason(&found.reason) }
}

fn person(person: &Person) -> PersonJson<'_> {
    PersonJson { id: person.id.as_str(), name: person.name.as_deref(), avatar_url: person.avatar_url.as_deref() }
}

fn reason(reason: &Reason) -> ReasonJson<'_> {
    let alone = |r#type| ReasonJson { r#type, common: None, followed_by: None, and_more: None };
    match reason {
        Reason::FollowedBy { common, people } => ReasonJson {
            r#type: ReasonType::FollowedBy,
            common: Some(*common),
            followed_by: Some(people.iter().map(person).collect()),
            and_more: Some(common.saturating_sub(people.len() as u32)),
        },
        Reason::Imported => alone(ReasonType::Imported),
        Reason::Signal => alone(ReasonType::Signal),
        Reason::FollowsYou => alone(ReasonType::FollowsYou),
        Reason::Popular => alone(ReasonType::Popular),
    }
}
