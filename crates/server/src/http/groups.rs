//! `POST GET /users/{a}/groups`, `PATCH DELETE …/{g}`, `PUT DELETE …/{g}/members/{b}`, `GET …/{g}/members`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Result, UserId};
use entourage_service::{GroupWritten, Service, UserGroup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::Nothing,
    jobs::version,
    lists::{ListQuery, PageJson, page},
    openapi::{
        Access, Group, delete, get, patch, post, put,
        schema::{GroupName, Id, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupBody {
    #[schemars(with = "GroupName")]
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct GroupJson<'a> {
    #[schemars(with = "Version")]
    id: String,
    name: &'a str,
    #[schemars(with = "Time")]
    created_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Groups")]
struct GroupsJson<'a> {
    data: Vec<GroupJson<'a>>,
    total: usize,
}

#[derive(Serialize, JsonSchema)]
struct GroupGoneJson {
    /// Whether there was such a group.
    changed: bool,
}

#[derive(Serialize, JsonSchema)]
struct MemberJson<'a> {
    #[schemars(with = "Version")]
    group_id: &'a str,
    #[schemars(with = "Id")]
    member_id: &'a str,
    member: bool,
    changed: bool,
}

const GROUPS: &str = "/api/v1/users/{id}/groups";
const GROUP: &str = "/api/v1/users/{id}/groups/{group}";
const MEMBER: &str = "/api/v1/users/{id}/groups/{group}/members/{other}";

pub(super) fn group() -> Group {
    let operations = vec![
        post(GROUPS, Access::Own("id"), create)
            .named("create_group", "Make a group")
            .body::<GroupBody>()
            .answers::<GroupJson>(StatusCode::CREATED, "Made")
            .refuses(&[Code::GroupLimit]),
        get(GROUPS, Access::Own("id"), list)
            .named("list_groups", "The groups of a user, newest first")
            .about("All of them: a user has a hundred at most.")
            .answers::<GroupsJson>(StatusCode::OK, "The groups")
            .refuses(&[Code::UserNotFound]),
        patch(GROUP, Access::Own("id"), rename)
            .named("rename_group", "Rename a group")
            .body::<GroupBody>()
            .answers::<GroupJson>(StatusCode::OK, "Renamed, or as it was")
            .refuses(&[Code::GroupNotFound]),
        delete(GROUP, Access::Own("id"), remove)
            .named("delete_group", "Delete a group")
            .answers::<GroupGoneJson>(StatusCode::OK, "There is no such group, or not any more")
            .refuses(&[Code::GroupNotFound]),
        put(MEMBER, Access::Own("id"), add_member)
            .named("put_member", "Put a user into a group")
            .about("The user follows the group's owner or is followed by them.")
            .answers::<MemberJson>(StatusCode::CREATED, "Is a member now")
            .answers::<MemberJson>(StatusCode::OK, "Was a member already")
            .refuses(&[Code::GroupNotFound, Code::UserNotFound, Code::GroupLimit]),
        delete(MEMBER, Access::Own("id"), remove_member)
            .named("delete_member", "Take a user out of a group")
            .answers::<MemberJson>(StatusCode::OK, "Is no member, or not any more")
            .refuses(&[Code::GroupNotFound, Code::UserNotFound]),
        get("/api/v1/users/{id}/groups/{group}/members", Access::Own("id"), members)
            .named("list_members", "Who is in a group")
            .about(
                "Not shown are those who neither follow the owner nor are followed by them any more. `created_at` is \
                 when somebody was put into the group.",
            )
            .pages::<ListQuery>()
            .answers::<PageJson>(StatusCode::OK, "A page")
            .refuses(&[Code::GroupNotFound, Code::UserNotFound]),
    ];
    Group::new("Groups", "Names that a user gives to some of their own; nobody else sees them.", operations)
}

pub(super) async fn create(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner] = request.ids()?;
    let GroupBody { name } = request.body()?;
    let done = service.graph.create_group(&request.call, owner, &name).await?;
    written(StatusCode::CREATED, shown(&done.group), &done.receipt)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner] = request.ids()?;
    let groups = service.graph.groups(&request.call, owner).await?;
    json(StatusCode::OK, GroupsJson { data: groups.iter().map(shown).collect(), total: groups.len() })
}

pub(super) async fn rename(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner, group] = request.ids()?;
    let GroupBody { name } = request.body()?;
    let GroupWritten { group, receipt, .. } =
        service.graph.rename_group(&request.call, owner, group_id(group)?, &name).await?;
    written(StatusCode::OK, shown(&group), &receipt)
}

pub(super) async fn remove(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner, group] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.graph.delete_group(&request.call, owner, group_id(group)?).await?;
    written(StatusCode::OK, GroupGoneJson { changed: done.changed }, &done.receipt)
}

pub(super) async fn add_member(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner, group, member] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.graph.add_member(&request.call, owner, group_id(group)?, member).await?;
    let body = membership(group, member, true, done.created);
    written(if done.created { StatusCode::CREATED } else { StatusCode::OK }, body, &done.receipt)
}

pub(super) async fn remove_member(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [owner, group, member] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.graph.remove_member(&request.call, owner, group_id(group)?, member).await?;
    written(StatusCode::OK, membership(group, member, false, done.changed), &done.receipt)
}

pub(super) async fn members(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([owner, group], query) = request.list()?;
    let found = service.graph.members(&request.call, owner, group_id(group)?, query.cursor(), query.limit()?).await?;
    page(&request, &query, found)
}

pub(super) fn group_id(id: &UserId) -> Result<entourage_model::Version> {
    version(id, entourage_model::Refusal::GroupNotFound.into())
}

fn shown(group: &UserGroup) -> GroupJson<'_> {
    GroupJson { id: group.id.to_string(), name: &group.name, created_at: group.created_at().to_rfc3339() }
}

fn membership<'a>(group: &'a UserId, member: &'a UserId, is_member: bool, changed: bool) -> MemberJson<'a> {
    MemberJson { group_id: group.as_str(), member_id: member.as_str(), member: is_member, changed }
}
