//! `PUT PATCH GET /users/{id}`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Error, Millis, Result, UserPatch};
use entourage_service::{Service, UserView, UserWritten};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Answer, json, written},
    asked::Asked,
    body::{clearable, present},
    relationships::RelationshipJson,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserBody {
    #[serde(default, deserialize_with = "clearable")]
    name: Option<Option<Box<str>>>,
    #[serde(default, deserialize_with = "clearable")]
    avatar_url: Option<Option<Box<str>>>,
    #[serde(default, deserialize_with = "present")]
    private: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    hide_lists: Option<bool>,
    #[serde(default, deserialize_with = "present")]
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

#[derive(Serialize)]
struct WrittenJson<'a> {
    id: &'a str,
    created: bool,
    changed: bool,
    /// `None` when nothing changed: then there is no new version.
    version: Option<String>,
}

#[derive(Serialize)]
struct UserJson<'a> {
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    private: bool,
    hide_lists: bool,
    registered_at: String,
    created_at: String,
    version: String,
    counts: CountsJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationship: Option<RelationshipJson>,
}

#[derive(Serialize)]
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

pub(super) async fn put(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let patch = asked.optional_body::<UserBody>()?.patch()?;
    answer(&service.put_user(&asked.call, id.clone(), patch).await?)
}

pub(super) async fn patch(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let patch = asked.body::<UserBody>()?.patch()?;
    answer(&service.patch_user(&asked.call, id.clone(), patch).await?)
}

fn answer(done: &UserWritten) -> Answer {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let version = done.changed.then(|| done.receipt.version.to_string());
    let body = WrittenJson { id: done.id.as_str(), created: done.created, changed: done.changed, version };
    written(status, body, &done.receipt)
}

pub(super) async fn get(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let [id] = asked.ids()?;
    let UserView { user, counts, relationship } = service.get_user(&asked.call, id).await?;
    let body = UserJson {
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
        relationship: relationship.as_ref().map(RelationshipJson::of),
    };
    json(StatusCode::OK, body)
}
