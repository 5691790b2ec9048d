//! `POST /tickets`: what a browser sends as `?ticket=` where it cannot send a header.

use std::sync::Arc;

use axum::{Extension, http::StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    body::Nothing,
    openapi::{Access, Group, post, schema::Time},
    request::ApiRequest,
    response::{Answer, json},
};
use crate::{auth::Authenticated, front::Front};

#[derive(Serialize, JsonSchema)]
struct TicketJson {
    ticket: String,
    #[schemars(with = "Time")]
    expires_at: String,
}

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/tickets", Access::Anyone, issue)
            .named("make_ticket", "A ticket for streams")
            .about("Good once and for a minute, as `?ticket=` of a stream, for browsers, which cannot send a header there.")
            .reads()
            .answers::<TicketJson>(StatusCode::CREATED, "The ticket"),
    ];
    Group::new("Tickets", "Credentials for streams in browsers.", operations)
}

pub(super) async fn issue(
    Extension(front): Extension<Arc<Front>>,
    Extension(known): Extension<Authenticated>,
    request: ApiRequest,
) -> Answer {
    request.optional_body::<Nothing>()?;
    let ticket = front.access.ticket(known)?;
    json(StatusCode::CREATED, TicketJson { ticket: ticket.text, expires_at: ticket.expires.to_rfc3339() })
}
