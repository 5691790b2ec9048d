//! `/users/{id}/notifications`: the list, how far it was seen, and a live stream.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::Code;
use entourage_service::{Notification, NotificationKind, NotificationMessage, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    lists::{ListQuery, RowJson, linked, row},
    openapi::{
        Access, Group, get, post,
        schema::{Cursor, Time},
    },
    request::ApiRequest,
    response::{Answer, written},
    sse,
};

#[derive(Serialize, JsonSchema)]
struct NotificationsJson<'a> {
    data: Vec<NotificationJson<'a>>,
    /// Notifications that have not been seen, on all pages.
    unseen: u64,
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
}

#[derive(Serialize, JsonSchema)]
struct NotificationJson<'a> {
    /// Names everything up to the newest of it; another one when more happens.
    id: String,
    r#type: TypeJson,
    /// The three newest.
    actors: Vec<RowJson<'a>>,
    count: u64,
    /// `false` when the day has more of it than are counted.
    count_is_exact: bool,
    #[schemars(with = "Time")]
    latest_at: String,
    seen: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "NotificationType")]
enum TypeJson {
    Follow,
    FollowRequest,
    RequestAccepted,
}

impl From<NotificationKind> for TypeJson {
    fn from(kind: NotificationKind) -> Self {
        match kind {
            NotificationKind::Follow => Self::Follow,
            NotificationKind::FollowRequest => Self::FollowRequest,
            NotificationKind::RequestAccepted => Self::RequestAccepted,
        }
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SeenBody {
    /// The `id` of a notification; without it everything there is.
    #[serde(default)]
    #[schemars(extend("pattern" = "^[0-9]{1,19}\\.(follow|follow_request|request_accepted)$"))]
    up_to: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SeenJson {
    seen: bool,
    /// Whether the mark moved.
    changed: bool,
}

#[derive(Serialize)]
struct UnseenJson {
    unseen: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StreamQuery {
    /// From `POST /tickets`, in place of a credential.
    #[allow(dead_code, reason = "described here, taken before a handler is asked")]
    ticket: Option<String>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/users/{id}/notifications", Access::Own("id"), list)
            .named("list_notifications", "What a user is told of, newest first")
            .about(
                "Grouped by type and day, in UTC. Nothing of quiet follows, nor of people who are blocked or muted; what \
                 was undone is gone.",
            )
            .pages::<ListQuery>()
            .answers::<NotificationsJson>(StatusCode::OK, "A page")
            .refuses(&[Code::UserNotFound]),
        post("/api/v1/users/{id}/notifications/seen", Access::Own("id"), see)
            .named("see_notifications", "Mark notifications as seen")
            .about("Up to and including a notification as it was shown, or all there is. Nothing becomes unseen again.")
            .optional_body::<SeenBody>()
            .answers::<SeenJson>(StatusCode::OK, "Marked, now or before")
            .refuses(&[Code::UserNotFound]),
        get("/api/v1/users/{id}/notifications/stream", Access::Own("id"), stream)
            .named("stream_notifications", "What a user is told of, as it happens")
            .about(
                "Server-sent events: `unseen` with the number of unseen notifications, first and when it changes; \
                 `notification` with a notification as the list has it, whose id is that of the event. `Last-Event-ID` \
                 begins with what is newer than that.",
            )
            .query::<StreamQuery>()
            .streams()
            .refuses(&[Code::UserNotFound, Code::InvalidCursor]),
    ];
    Group::new(
        "Notifications",
        "What a user is told of: follows, requests, and requests that were accepted.",
        operations,
    )
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let ([id], query) = request.list()?;
    let limit = query.limit()?;
    let page = service.notifications.notifications(&request.call, id, query.cursor(), limit).await?;
    let next = page.next_cursor.as_deref();
    let data = page.rows.iter().map(notification).collect();
    let body = NotificationsJson { data, unseen: page.unseen, next_cursor: next, has_more: next.is_some() };
    linked(&request, body, next, limit)
}

pub(super) async fn see(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let body: SeenBody = request.optional_body()?;
    let done = service.notifications.see_notifications(&request.call, id, body.up_to.as_deref()).await?;
    written(StatusCode::OK, SeenJson { seen: true, changed: done.changed }, &done.receipt)
}

pub(super) async fn stream(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let [id] = request.ids()?;
    let _: StreamQuery = request.query()?;
    let stream_guard = request.stream()?;
    let stream = service.notifications.notification_stream(&request.call, id, request.last_event_id()?).await?;
    Ok(sse::answer(stream_guard, stream, move |mut stream| {
        let service = Arc::clone(&service);
        async move {
            let told = service.notifications.next_notification(&mut stream).await;
            (stream, told.map(|told| told.map(|told| [message(&told)].into())))
        }
    }))
}

fn message(told: &NotificationMessage) -> axum::response::sse::Event {
    match told {
        NotificationMessage::Unseen(unseen) => sse::message(None, Some("unseen"), &UnseenJson { unseen: *unseen }),
        NotificationMessage::New(found) => sse::message(Some(&found.id()), Some("notification"), &notification(found)),
    }
}

fn notification(found: &Notification) -> NotificationJson<'_> {
    NotificationJson {
        id: found.id(),
        r#type: found.kind.into(),
        actors: found.actors.iter().map(row).collect(),
        count: found.count,
        count_is_exact: found.count_is_exact,
        latest_at: found.latest_at().to_rfc3339(),
        seen: found.seen,
    }
}
