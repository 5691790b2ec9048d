//! `PUT PATCH GET DELETE /users/{id}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Millis, Result, UserPatch};
use entourage_service::{Service, UserView, UserWritten};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::{Nothing, clearable, present},
    jobs::{StartedJson, started},
    openapi::{
        Access, Group, delete, get, patch, put,
        schema::{AvatarUrl, Id, Name, Time, Version},
    },
    relationships::RelationshipJson,
    request::ApiRequest,
    response::{Answer, json, written},
};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserBody {
    #[serde(default, deserialize_with = "clearable")]
    #[schemars(with = "Option<Name>")]
    name: Option<Option<Box<str>>>,
    #[serde(default, deserialize_with = "clearable")]
    #[schemars(with = "Option<AvatarUrl>")]
    avatar_url: Option<Option<Box<str>>>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool")]
    private: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool")]
    hide_lists: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    /// Service or import only.
    #[schemars(with = "Time")]
    registered_at: Option<String>,
}

impl UserBody {
    fn patch(self) -> Result<UserPatch> {
        let registered_at = self.registered_at.as_deref().map(Millis::parse_rfc3339).transpose();
        Ok(UserPatch {
            name: self.name,
            avatar_url: self.avatar_url,
            private: self.private,
            hide_lists: self.hide_lists,
            registered_at: registered_at.map_err(|error| {
                Error::invalid("a field of the body is not valid").at("/registered_at", error.detail())
            })?,
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WrittenUser")]
struct WrittenJson<'a> {
    /// As they are now.
    #[serde(flatten)]
    user: UserJson<'a>,
    created: bool,
    changed: bool,
}

#[derive(Serialize, JsonSchema)]
struct UserJson<'a> {
    #[schemars(with = "Id")]
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    private: bool,
    hide_lists: bool,
    #[schemars(with = "Time")]
    registered_at: String,
    #[schemars(with = "Time")]
    created_at: String,
    #[schemars(with = "Version")]
    version: String,
    counts: CountsJson,
    /// There when an admin has taken the right to follow, for the user and services.
    #[serde(skip_serializing_if = "is_false")]
    follow_suspended: bool,
    /// Of the viewer to this user; where there is a viewer, and it is somebody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    relationship: Option<RelationshipJson>,
}

#[derive(Serialize, JsonSchema)]
struct CountsJson {
    followers: u64,
    following: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    followers_quiet: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    following_quiet: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

const USER: &str = "/api/v1/users/{id}";

pub(super) fn group() -> Group {
    let operations = vec![
        put(USER, Access::Own("id"), put_one)
            .named("put_user", "Create or replace a user")
            .about(
                "Without `private`, `hide_lists` or `registered_at` they keep their value; without `name` or \
                 `avatar_url` they are cleared. `\"private\": false` lets everybody follow who has asked to: a job.",
            )
            .optional_body::<UserBody>()
            .answers::<WrittenJson>(StatusCode::CREATED, "Created")
            .answers::<WrittenJson>(StatusCode::OK, "Replaced, or as it was")
            .refuses(&[Code::IdTaken]),
        patch(USER, Access::Own("id"), patch_one)
            .named("patch_user", "Change some fields of a user")
            .body::<UserBody>()
            .answers::<WrittenJson>(StatusCode::OK, "Changed, or as it was")
            .refuses(&[Code::UserNotFound]),
        get(USER, Access::Anyone, get_one)
            .named("get_user", "A user with counts")
            .answers::<UserJson>(StatusCode::OK, "The user")
            .refuses(&[Code::UserNotFound]),
        delete(USER, Access::Own("id"), erase)
            .named("erase_user", "Erase a person")
            .about(
                "Reads forget them at once; a job takes their edges away. Until it is done the id cannot be created \
                 again (409 `request_in_progress`); who is created then is a new person.",
            )
            .answers::<StartedJson>(StatusCode::ACCEPTED, "Erased; their edges go")
            .refuses(&[Code::UserNotFound]),
    ];
    Group::new("Users", "Ids are the application's own.", operations)
}

pub(super) async fn put_one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let patch = request.optional_body::<UserBody>()?.patch()?;
    answer(&service.graph.put_user(&request.call, id.clone(), patch).await?)
}

pub(super) async fn patch_one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let patch = request.body::<UserBody>()?.patch()?;
    answer(&service.graph.patch_user(&request.call, id.clone(), patch).await?)
}

fn answer(done: &UserWritten) -> Answer {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = WrittenJson { user: user(&done.view), created: done.created, changed: done.changed };
    written(status, body, &done.receipt)
}

pub(super) async fn get_one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    json(StatusCode::OK, user(&service.graph.get_user(&request.call, id).await?))
}

fn user(view: &UserView) -> UserJson<'_> {
    let UserView { user, counts, follow_suspended, relationship } = view;
    UserJson {
        id: user.id.as_str(),
        name: user.name.as_deref(),
        avatar_url: user.avatar_url.as_deref(),
        private: user.private,
        hide_lists: user.hide_lists,
        registered_at: user.registered_at.to_rfc3339(),
        created_at: user.created.millis().to_rfc3339(),
        version: user.version.to_string(),
        counts: CountsJson {
            followers: counts.followers,
            following: counts.following,
            followers_quiet: counts.followers_quiet,
            following_quiet: counts.following_quiet,
            requests: counts.requests,
            requested: counts.requested,
        },
        follow_suspended: *follow_suspended,
        relationship: relationship.as_ref().map(RelationshipJson::of),
    }
}

pub(super) async fn erase(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    started(&service.jobs.erase(&request.call, id).await?)
}
