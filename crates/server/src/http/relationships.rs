//! `GET POST /users/{a}/relationships`: how one user stands to up to a hundred others.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{RELATIONSHIPS_MAX, Relationship, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    openapi::{
        Access, Group, Operation, get, post,
        schema::{Id, Time},
    },
    request::ApiRequest,
    response::{Answer, json},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdsBody {
    #[schemars(with = "Vec<Id>", length(max = RELATIONSHIPS_MAX))]
    ids: Vec<UserId>,
}

/// What `query_ids` reads, described.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "described, never made")]
struct IdsQuery {
    #[schemars(with = "Option<Vec<Id>>", length(max = RELATIONSHIPS_MAX))]
    id: Vec<UserId>,
}

#[derive(Serialize, JsonSchema)]
struct RelationshipsJson<'a> {
    data: Vec<RowJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RelationshipTo")]
struct RowJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    /// Nobody has this id.
    unknown: bool,
    #[serde(flatten)]
    relationship: RelationshipJson,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RelationshipJson {
    following: bool,
    followed_by: bool,
    mutual: bool,
    requested: bool,
    blocking: bool,
    blocked_by: bool,
    muting: bool,
    quiet: bool,
    #[schemars(with = "Option<Time>")]
    since: Option<String>,
}

impl RelationshipJson {
    pub(super) fn of(found: &Relationship) -> Self {
        Self {
            following: found.following,
            followed_by: found.followed_by,
            mutual: found.mutual,
            requested: found.requested,
            blocking: found.blocking,
            blocked_by: found.blocked_by,
            muting: found.muting,
            quiet: found.quiet,
            since: found.since.map(|since| since.to_rfc3339()),
        }
    }
}

pub(super) fn group() -> Group {
    const PATH: &str = "/api/v1/users/{id}/relationships";
    let relationships = |operation: Operation| {
        operation
            .about(
                "One object for each asked id. An edge that neither of its lists would show to the viewer is not told.",
            )
            .answers::<RelationshipsJson>(StatusCode::OK, "In the order asked")
            .refuses(&[Code::UserNotFound, Code::ListsHidden])
    };
    let operations = vec![
        relationships(
            get(PATH, Access::Anyone, by_query)
                .named("get_relationships", "How a user stands to others")
                .query::<IdsQuery>(),
        ),
        relationships(
            post(PATH, Access::Anyone, by_body)
                .named("ask_relationships", "The same, when the ids are too long for an address")
                .reads()
                .body::<IdsBody>(),
        ),
    ];
    Group::new("Relationships", "How one user stands to up to a hundred others.", operations)
}

pub(super) async fn by_query(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ids = query_ids(&request)?;
    answer(&service, &request, &ids).await
}

pub(super) async fn by_body(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let IdsBody { ids } = request.body()?;
    answer(&service, &request, &ids).await
}

async fn answer(service: &Service, request: &ApiRequest, ids: &[UserId]) -> Answer {
    let [of] = request.ids()?;
    let found = service.graph.relationships(&request.call, of, ids).await?;
    let row = |(id, found): (_, &Relationship)| {
        let relationship = RelationshipJson::of(found);
        RowJson { id: UserId::as_str(id), unknown: found.unknown, relationship }
    };
    json(StatusCode::OK, RelationshipsJson { data: ids.iter().zip(&found).map(row).collect() })
}

/// `?id=a&id=b`.
fn query_ids(request: &ApiRequest) -> Result<Vec<UserId>> {
    let pairs: Vec<(String, String)> = request.query()?;
    let id = |(name, value): (String, String)| match name.as_str() {
        "id" => UserId::try_from(value)
            .map_err(|error| Error::new(error.code(), error.detail().to_owned()).at("/id", error.detail())),
        _ => Err(Error::invalid("the query is not valid").at(format!("/{name}"), "only id is known here")),
    };
    let ids: Vec<_> = pairs.into_iter().map(id).collect::<Result<_>>()?;
    if ids.len() > RELATIONSHIPS_MAX {
        let most = format!("at most {RELATIONSHIPS_MAX}");
        return Err(Error::invalid("too many ids in one request").at("/id", most));
    }
    Ok(ids)
}
