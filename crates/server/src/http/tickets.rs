//! `POST /tickets`: what a browser sends as `?ticket=` where it cannot send a header.

use std::sync::Arc;

use axum::{Extension, http::StatusCode};
use entourage_service::Caller;
use serde::Serialize;

use super::{
    answer::{Answer, json},
    asked::Asked,
    body::Nothing,
};
use crate::front::Front;

#[derive(Serialize)]
struct TicketJson {
    ticket: String,
    expires_at: String,
}

pub(super) async fn issue(
    Extension(front): Extension<Arc<Front>>,
    Extension(caller): Extension<Caller>,
    asked: Asked,
) -> Answer {
    asked.optional_body::<Nothing>()?;
    let ticket = front.access.ticket(caller)?;
    json(StatusCode::CREATED, TicketJson { ticket: ticket.text, expires_at: ticket.expires.to_rfc3339() })
}
