//! `GET /events` and `/events/stream`: the event log, oldest first, and live events.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, EventBody, Kind, RecordId, Space, User, UserId};
use entourage_service::{EventRow, Limit, Service, import::Tally};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    abuse::{CaseKindName, CaseStateName},
    lists::linked_by,
    openapi::{
        Access, Group, get,
        schema::{Cursor, ExternalId, Id, PageLimit, PostBody, State as EdgeState, Time, Version},
    },
    request::ApiRequest,
    response::Answer,
    sse,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    #[schemars(with = "Option<Cursor>")]
    after: Option<String>,
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StreamQuery {
    #[schemars(with = "Option<Cursor>")]
    after: Option<String>,
    /// From `POST /tickets`, in place of a credential.
    #[allow(dead_code, reason = "described here, taken before a handler is asked")]
    ticket: Option<String>,
}

const EDGE_TYPES: &[&str] = &[
    "follow.created",
    "follow.removed",
    "follow.requested",
    "follow.cancelled",
    "follow.accepted",
    "follow.rejected",
    "follow.parked",
    "follow.updated",
    "block.created",
    "block.removed",
    "mute.created",
    "mute.updated",
    "mute.removed",
];
const USER_TYPES: &[&str] = &["user.created", "user.updated", "user.suspended", "user.restored", "user.erased"];
const ABUSE_TYPES: &[&str] = &["abuse.opened", "abuse.updated", "abuse.dismissed", "abuse.confirmed", "abuse.removed"];
const GROUP_TYPES: &[&str] =
    &["group.created", "group.updated", "group.removed", "group.member_added", "group.member_removed"];

#[derive(Serialize, JsonSchema)]
struct EventsJson<'a> {
    data: Vec<EventJson<'a>>,
    /// Where to go on, also when nothing more is there yet.
    #[schemars(with = "Option<Cursor>")]
    next_cursor: Option<&'a str>,
    has_more: bool,
}

#[derive(Serialize, JsonSchema)]
struct EventJson<'a> {
    cursor: &'a str,
    r#type: &'static str,
    #[schemars(with = "Version")]
    version: String,
    #[schemars(with = "Time")]
    time: String,
    #[serde(flatten)]
    fields: FieldsJson<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum FieldsJson<'a> {
    #[schemars(title = "EdgeEvent", extend("x-types" = EDGE_TYPES))]
    Edge {
        #[schemars(with = "Option<Id>")]
        follower: Option<&'a str>,
        #[schemars(with = "Option<Id>")]
        target: Option<&'a str>,
        #[schemars(with = "Option<EdgeState>")]
        before: Option<&'static str>,
        #[schemars(with = "Option<EdgeState>")]
        after: Option<&'static str>,
        quiet: bool,
        /// When a mute ends by itself; of mutes alone.
        #[schemars(with = "Option<Time>")]
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Option<String>>,
    },
    #[schemars(title = "UserEvent", extend("x-types" = USER_TYPES))]
    User { user: UserJson<'a> },
    #[schemars(title = "GroupEvent", extend("x-types" = GROUP_TYPES))]
    Group {
        #[schemars(with = "Option<Id>")]
        owner: Option<&'a str>,
        group: String,
        /// As it was given; with a member who comes or goes, as it is now. Nothing of a group that is gone.
        name: Option<&'a str>,
        #[schemars(with = "Option<Id>")]
        member: Option<&'a str>,
    },
    #[schemars(title = "ImportEvent", extend("x-types" = ["import.finished"]))]
    Import { import: ImportJson },
    #[schemars(title = "PostEvent", extend("x-types" = ["post.created", "post.updated", "post.deleted"]))]
    Post {
        #[schemars(with = "Version")]
        post_id: String,
        #[schemars(with = "Option<Id>")]
        author: Option<&'a str>,
        /// As it was sent; nothing of a post that was deleted.
        #[schemars(with = "Option<PostBody>")]
        body: Option<&'a RawValue>,
        /// The application's own; nothing of a post that was deleted.
        #[schemars(with = "Option<ExternalId>")]
        external_id: Option<&'a str>,
    },
    #[schemars(title = "AbuseEvent", extend("x-types" = ABUSE_TYPES))]
    Abuse { case: CaseJson<'a> },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CaseOfEvent")]
struct CaseJson<'a> {
    #[schemars(with = "Version")]
    id: String,
    /// This and what follows is `null` with `abuse.removed`.
    #[schemars(with = "Option<CaseKindName>")]
    kind: Option<&'static str>,
    #[schemars(with = "Option<CaseStateName>")]
    state: Option<&'static str>,
    /// The first of the accounts in it; `null` also once they are erased.
    #[schemars(with = "Option<Id>")]
    actor: Option<&'a str>,
    /// The first of those whom they follow.
    #[schemars(with = "Option<Id>")]
    target: Option<&'a str>,
    /// How many accounts it names.
    actors: Option<usize>,
    /// How often it was found.
    count: Option<u64>,
}

/// Lines of the files and what became of them: all but `users_added` add up to `lines`.
#[derive(Serialize, JsonSchema)]
struct ImportJson {
    lines: u64,
    edges_created: u64,
    edges_unchanged: u64,
    users_created: u64,
    users_updated: u64,
    users_unchanged: u64,
    requests_created: u64,
    requests_unchanged: u64,
    blocks_created: u64,
    blocks_unchanged: u64,
    mutes_created: u64,
    mutes_unchanged: u64,
    groups_created: u64,
    groups_updated: u64,
    groups_unchanged: u64,
    members_created: u64,
    members_unchanged: u64,
    posts_created: u64,
    posts_unchanged: u64,
    suggestions_created: u64,
    suggestions_updated: u64,
    suggestions_unchanged: u64,
    rejected: u64,
    /// Users nobody described, made because a line names them.
    users_added: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UserOfEvent")]
struct UserJson<'a> {
    /// `null` only where an earlier version erased the user and did not keep it.
    #[schemars(with = "Option<Id>")]
    id: Option<&'a str>,
    /// `null` also once the user is erased, as is the picture.
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    /// This and what follows is left out of `user.erased`.
    #[serde(skip_serializing_if = "Option::is_none")]
    private: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hide_lists: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_suspended: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    registered_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    created_at: Option<String>,
}

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/events", Access::Service, list)
            .named("list_events", "What changed, oldest first")
            .about("Without `after` from the oldest event that is kept.")
            .pages::<EventsQuery>()
            .answers::<EventsJson>(StatusCode::OK, "A page")
            .refuses(&[Code::EventsExpired]),
        get("/api/v1/events/stream", Access::Service, stream)
            .named("stream_events", "What changes, as it does")
            .about(
                "Server-sent events: `id` is the event's cursor, `data` the event as the list has it. Begins behind \
                 `Last-Event-ID` or `after`, else with what comes next.",
            )
            .query::<StreamQuery>()
            .streams()
            .refuses(&[Code::EventsExpired, Code::InvalidCursor]),
    ];
    let about = "One event for each change, none for requests that changed nothing. Events name ids; what people said of \
                 themselves is gone from them once they are erased.";
    Group::new("Events", about, operations)
}

pub(super) async fn list(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: EventsQuery = request.query()?;
    let limit = Limit::parse(query.limit.as_deref())?;
    let page = service.events.events(&request.call, query.after.as_deref(), limit).await?;
    let next_cursor = page.next_cursor.as_deref();
    let data = page.rows.iter().map(event).collect();
    let body = EventsJson { data, next_cursor, has_more: page.has_more };
    linked_by("after", &request, body, next_cursor.filter(|_| page.has_more), limit)
}

pub(super) async fn stream(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let query: StreamQuery = request.query()?;
    let after = request.last_event_id()?.or(query.after.as_deref());
    let stream_guard = request.stream()?;
    let stream = service.events.event_stream(&request.call, after).await?;
    Ok(sse::answer(stream_guard, stream, move |mut stream| {
        let service = Arc::clone(&service);
        async move {
            let message = |row: &EventRow| sse::message(Some(&row.cursor), None, &event(row));
            let found = service.events.next_events(&mut stream).await;
            (stream, found.map(|rows| rows.map(|rows| rows.iter().map(message).collect())))
        }
    }))
}

fn event(row: &EventRow) -> EventJson<'_> {
    let fields = match (&row.event.body, &row.import) {
        (_, Some(tally)) => FieldsJson::Import { import: import(tally) },
        (EventBody::Edge { kind, before, after, quiet, expires, .. }, None) => FieldsJson::Edge {
            follower: row.follower.as_ref().map(|id| id.as_str()),
            target: row.target.as_ref().map(|id| id.as_str()),
            before: before.map(|state| state.as_str()),
            after: after.map(|state| state.as_str()),
            quiet: *quiet,
            expires_at: (*kind == Kind::Mute).then(|| expires.map(|expires| expires.time().to_rfc3339())),
        },
        (EventBody::User { after, erased, .. }, None) => {
            let id = after.as_ref().map(|user| &user.id).or(erased.as_ref()).or(row.follower.as_ref());
            FieldsJson::User { user: user(id, after.as_deref()) }
        }
        (EventBody::Record { space: Space::Post, id, .. }, None) => FieldsJson::Post {
            post_id: record_name(id),
            author: row.follower.as_ref().map(|id| id.as_str()),
            body: row.post.as_ref().and_then(|post| serde_json::from_str(&post.body).ok()),
            external_id: row.post.as_ref().and_then(|post| post.external_id.as_ref()).map(|id| id.as_str()),
        },
        (EventBody::Record { space: Space::Case, id, .. }, None) => FieldsJson::Abuse {
            case: CaseJson {
                id: record_name(id),
                kind: row.case.as_ref().map(|case| case.kind.as_str()),
                state: row.case.as_ref().map(|case| case.state.as_str()),
                actor: row.follower.as_ref().map(|id| id.as_str()),
                target: row.target.as_ref().map(|id| id.as_str()),
                actors: row.case.as_ref().map(|case| case.actors),
                count: row.case.as_ref().map(|case| case.count),
            },
        },
        (EventBody::Record { id, .. }, None) => FieldsJson::Group {
            owner: row.follower.as_ref().map(|id| id.as_str()),
            group: record_name(&id.member().map_or_else(|| id.clone(), |(group, _)| group)),
            name: row.group.as_deref(),
            member: row.target.as_ref().map(|id| id.as_str()),
        },
    };
    EventJson {
        cursor: &row.cursor,
        r#type: row.event.name(),
        version: row.event.version.to_string(),
        time: row.event.version.millis().to_rfc3339(),
        fields,
    }
}

const fn import(tally: &Tally) -> ImportJson {
    ImportJson {
        lines: tally.lines,
        edges_created: tally.edges_created,
        edges_unchanged: tally.edges_unchanged,
        users_created: tally.users_created,
        users_updated: tally.users_updated,
        users_unchanged: tally.users_unchanged,
        requests_created: tally.requests_created,
        requests_unchanged: tally.requests_unchanged,
        blocks_created: tally.blocks_created,
        blocks_unchanged: tally.blocks_unchanged,
        mutes_created: tally.mutes_created,
        mutes_unchanged: tally.mutes_unchanged,
        groups_created: tally.groups_created,
        groups_updated: tally.groups_updated,
        groups_unchanged: tally.groups_unchanged,
        members_created: tally.members_created,
        members_unchanged: tally.members_unchanged,
        posts_created: tally.posts_created,
        posts_unchanged: tally.posts_unchanged,
        suggestions_created: tally.suggestions_created,
        suggestions_updated: tally.suggestions_updated,
        suggestions_unchanged: tally.suggestions_unchanged,
        rejected: tally.rejected,
        users_added: tally.users_added,
    }
}

fn record_name(id: &RecordId) -> String {
    id.version().map_or_else(|| id.as_bytes().escape_ascii().to_string(), |version| version.to_string())
}

fn user<'a>(id: Option<&'a UserId>, after: Option<&'a User>) -> UserJson<'a> {
    UserJson {
        id: id.map(|id| id.as_str()),
        name: after.and_then(|user| user.name.as_deref()),
        avatar_url: after.and_then(|user| user.avatar_url.as_deref()),
        private: after.map(|user| user.private),
        hide_lists: after.map(|user| user.hide_lists),
        follow_suspended: after.map(|user| user.follow_suspended),
        registered_at: after.map(|user| user.registered_at.to_rfc3339()),
        created_at: after.map(|user| user.created.millis().to_rfc3339()),
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{Event, Key, Post, Sequence, Version};

    use super::*;

    #[test]
    fn posts_are_told_with_their_body_as_it_was_sent() {
        let text = r#"{"b": 1.50,  "a": "x"}"#;
        let external_id = entourage_model::ExternalId::new("own-1").ok();
        let post = Post { external_id, ..Post::new(true, text) };
        let told = |existed, after: Option<Box<[u8]>>| {
            let (made, version) = (Version::from_bits(7 << 22), Version::from_bits(8 << 22));
            let id = RecordId::of_version(made);
            let written = after.as_ref().map(|_| post.clone());
            let body = EventBody::Record { space: Space::Post, owner: Key(1), id, existed, after };
            let event = Event { sequence: Sequence(1), version, body };
            let (cursor, follower) = (String::from("here"), Some(1.into()));
            let row = EventRow {
                cursor,
                event,
                follower,
                target: None,
                import: None,
                post: written,
                group: None,
                case: None,
            };
            serde_json::to_string(&super::event(&row)).unwrap()
        };
        let named = |name: &str, body: &str, own: &str| {
            let (made, version) = (Version::from_bits(7 << 22), Version::from_bits(8 << 22));
            let time = version.millis().to_rfc3339();
            let head = format!(r#""cursor":"here","type":"{name}","version":"{version}","time":"{time}""#);
            format!(r#"{{{head},"post_id":"{made}","author":"1","body":{body},"external_id":{own}}}"#)
        };
        assert_eq!(told(false, Some(post.encode())), named("post.created", text, r#""own-1""#));
        assert_eq!(told(true, Some(post.encode())), named("post.updated", text, r#""own-1""#));
        assert_eq!(told(true, None), named("post.deleted", "null", "null"));
    }
}
