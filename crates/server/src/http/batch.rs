//! `POST /follows:batch`: many follows and unfollows, a result for each.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode},
};
use entourage_model::{Code, Error, Result, UserId};
use entourage_service::{BATCH_MAX, BatchDone, BatchOperation, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    body::{Object, present, word},
    follows::{FollowJson, UnfollowJson, follow_reply, unfollow_reply},
    openapi::{Access, Group, post, schema::Id},
    request::ApiRequest,
    response::{self, Answer, REPLAYED, TOKEN},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BatchBody {
    #[schemars(with = "Vec<OperationBody>", length(max = BATCH_MAX))]
    operations: Vec<Object<OperationBody>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = json!({ "properties": { "op": { "const": "unfollow" } }, "required": ["quiet"] })))]
struct OperationBody {
    #[serde(deserialize_with = "word")]
    op: Verb,
    #[schemars(with = "Id")]
    follower: UserId,
    #[schemars(with = "Id")]
    target: UserId,
    /// For a follow only.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool")]
    quiet: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verb {
    Follow,
    Unfollow,
}

#[derive(Serialize, JsonSchema)]
struct BatchJson<'a> {
    results: Vec<ResultJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchResult")]
struct ResultJson<'a> {
    status: u16,
    /// `null` when it was done.
    code: Option<&'static str>,
    body: ReplyJson<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BatchReply")]
enum ReplyJson<'a> {
    Followed(FollowJson<'a>),
    Unfollowed(UnfollowJson),
    Refused {
        r#type: String,
        title: &'static str,
        status: u16,
        detail: &'a str,
        code: &'static str,
        /// Seconds until it may be tried again, as `Retry-After` has them for a request of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
}

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/follows:batch", Access::Service, run)
            .named("batch_follows", "Follow and unfollow many, a result for each")
            .about("Each operation is atomic by itself; one that is refused does not stop the rest.")
            .body::<BatchBody>()
            .large_body()
            .answers::<BatchJson>(StatusCode::OK, "The results, in the order of the operations")
            .refuses(&[Code::InvalidId]),
    ];
    Group::new("Batches", "Many writes in one request.", operations)
}

pub(super) async fn run(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let BatchBody { operations } = request.body()?;
    let operations = operations.into_iter().enumerate().map(operation).collect::<Result<_>>()?;
    let done = service.graph.batch(&request.call, operations).await?;
    let mut response =
        response::json(StatusCode::OK, BatchJson { results: done.results.iter().map(result).collect() })?;
    let token = done.token.and_then(|token| HeaderValue::from_str(&token).ok());
    response.headers_mut().extend(token.map(|token| (TOKEN, token)));
    if done.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn operation((index, Object(body)): (usize, Object<OperationBody>)) -> Result<BatchOperation> {
    let OperationBody { op, follower, target, quiet } = body;
    match (op, quiet) {
        (Verb::Follow, quiet) => Ok(BatchOperation::Follow { follower, target, quiet }),
        (Verb::Unfollow, None) => Ok(BatchOperation::Unfollow { follower, target }),
        (Verb::Unfollow, Some(_)) => Err(Error::invalid("an operation is not valid")
            .at(format!("/operations/{index}/quiet"), "an unfollow has no quiet")),
    }
}

fn result(result: &Result<BatchDone>) -> ResultJson<'_> {
    match result {
        Ok(BatchDone::Followed(done)) => {
            let (status, body) = follow_reply(done);
            ResultJson { status: status.as_u16(), code: None, body: ReplyJson::Followed(body) }
        }
        Ok(BatchDone::Unfollowed(done)) => {
            let body = ReplyJson::Unfollowed(unfollow_reply(done));
            ResultJson { status: StatusCode::OK.as_u16(), code: None, body }
        }
        Err(error) => {
            let (code, status) = (error.code(), error.code().http_status());
            let body = ReplyJson::Refused {
                r#type: code.docs_anchor(),
                title: code.title(),
                status,
                detail: error.detail(),
                code: code.as_str(),
                retry_after: response::retry_seconds(error),
            };
            ResultJson { status, code: Some(code.as_str()), body }
        }
    }
}
