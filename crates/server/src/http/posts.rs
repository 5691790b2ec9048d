//! `POST /posts`, `GET PATCH DELETE /posts/{post}` and `GET /users/{id}/posts`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{Limit, NewPost, PostView, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    body::Nothing,
    jobs::version,
    lists::linked,
    openapi::{
        Access, Group, delete, get, patch, post,
        schema::{Cursor, ExternalId, Id, PageLimit, PostBody, Time, Version},
    },
    request::ApiRequest,
    response::{Answer, json, written},
};

/// The raw text of the value: it is stored exactly as sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewPost")]
struct PostedBody {
    #[schemars(with = "PostBody")]
    body: Box<RawValue>,
    #[serde(default)]
    #[schemars(with = "Option<ExternalId>")]
    external_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PostChange")]
struct ReplacedBody {
    #[schemars(with = "PostBody")]
    body: Box<RawValue>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PostsQuery {
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<String>,
    /// Only the post with this external id.
    #[schemars(with = "Option<ExternalId>")]
    external_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PostJson<'a> {
    #[schemars(with = "Version")]
    id: String,
    #[schemars(with = "Id")]
    author: &'a str,
    #[schemars(with = "Time")]
    created_at: String,
    /// When the body was replaced last; `null`: never.
    #[schemars(with = "Option<Time>")]
    edited_at: Option<String>,
    #[schemars(with = "PostBody")]
    body: &'a RawValue,
    /// The application's own name of it; `null`: it has none.
    #[schemars(with = "Option<ExternalId>")]
    external_id: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PostPage")]
struct PostsJson<'a> {
    data: Vec<PostJson<'a>>,
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
    /// Posts on all pages.
    total: u64,
}

#[derive(Serialize, JsonSchema)]
struct PostGoneJson {
    /// Whether this request deleted it.
    changed: bool,
}

const POST: &str = "/api/v1/posts/{post}";

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/posts", Access::Actor, create)
            .named("create_post", "Write a post, as the actor")
            .about(
                "The body is any JSON object of at most 10,240 bytes, at most 32 deep; it is kept as it was sent. \
                 An `external_id` is the application's own and unique for the author: repeated, it is the post that is there.",
            )
            .body::<PostedBody>()
            .located()
            .answers::<PostJson>(StatusCode::CREATED, "Written")
            .answers::<PostJson>(StatusCode::OK, "There already, by its external id"),
        get(POST, Access::Anyone, one)
            .named("get_post", "One post")
            .about("A private account's posts are for those who follow it; to others they are not there.")
            .answers::<PostJson>(StatusCode::OK, "The post")
            .refuses(&[Code::PostNotFound]),
        patch(POST, Access::Anyone, replace)
            .named("replace_post", "Replace a post's body")
            .about("For its author. Id, external id and place in feeds stay.")
            .body::<ReplacedBody>()
            .answers::<PostJson>(StatusCode::OK, "Replaced, or as it was")
            .refuses(&[Code::PostNotFound]),
        delete(POST, Access::Anyone, remove)
            .named("delete_post", "Delete a post")
            .about("For its author. It is gone from every feed at once.")
            .answers::<PostGoneJson>(StatusCode::OK, "Deleted")
            .refuses(&[Code::PostNotFound]),
        get("/api/v1/users/{id}/posts", Access::Anyone, list)
            .named("list_posts", "What a user wrote, newest first")
            .about("With `external_id` the one post that has it, or none.")
            .pages::<PostsQuery>()
            .answers::<PostsJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound, Code::ListsHidden]),
    ];
    Group::new("Posts", "What people have to say.", operations)
}

pub(super) async fn create(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let PostedBody { body, external_id } = request.body()?;
    let external_id = external_id.as_deref().map(entourage_model::ExternalId::new).transpose()?;
    let done = service.feeds.create_post(&request.call, NewPost { body: body.get(), external_id }).await?;
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = written(status, shown(&done.post)?, &done.receipt)?;
    let place = HeaderValue::from_str(&POST.replace("{post}", &done.post.id.to_string())).ok();
    response.headers_mut().extend(place.map(|place| (header::LOCATION, place)));
    Ok(response)
}

pub(super) async fn one(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let found = service.feeds.post(&request.call, post_id(id)?).await?;
    json(StatusCode::OK, shown(&found)?)
}

pub(super) async fn replace(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let ReplacedBody { body } = request.body()?;
    let done = service.feeds.replace_post(&request.call, post_id(id)?, body.get()).await?;
    written(StatusCode::OK, shown(&done.post)?, &done.receipt)
}

pub(super) async fn remove(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    request.optional_body::<Nothing>()?;
    let done = service.feeds.delete_post(&request.call, post_id(id)?).await?;
    written(StatusCode::OK, PostGoneJson { changed: done.changed }, &done.receipt)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let query: PostsQuery = request.query()?;
    let limit = Limit::parse(query.limit.as_deref())?;
    let page = match query.external_id.as_deref().map(entourage_model::ExternalId::new).transpose() {
        Ok(Some(name)) => service.feeds.posts_named(&request.call, id, &name).await?,
        Ok(None) => service.feeds.posts(&request.call, id, query.cursor.as_deref(), limit).await?,
        Err(_) => {
            let right = format!("1 to {} bytes without control characters", entourage_model::ExternalId::MAX_BYTES);
            return Err(Error::invalid("external_id is not valid").at("/external_id", right).into());
        }
    };
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(shown).collect::<Result<_>>()?;
    let body = PostsJson { data, next_cursor, has_more: next_cursor.is_some(), total: page.total };
    linked(&request, body, next_cursor, limit)
}

pub(super) fn post_id(id: &UserId) -> Result<entourage_model::Version> {
    version(id, Error::new(Code::PostNotFound, "there is no post with this id"))
}

pub(super) fn shown(post: &PostView) -> Result<PostJson<'_>> {
    let body = serde_json::from_str(&post.body)
        .map_err(|error| Error::internal("a post's body is no JSON").caused_by(error))?;
    Ok(PostJson {
        id: post.id.to_string(),
        author: post.author.as_str(),
        created_at: post.created_at().to_rfc3339(),
        edited_at: post.edited_at.map(|at| at.to_rfc3339()),
        body,
        external_id: post.external_id.as_ref().map(entourage_model::ExternalId::as_str),
    })
}
