//! Server-sent events: a stream of the service as a response. It is asked for its next piece only when the client has
//! taken the last one, so a client that does not read holds one piece, until its connection is given up on.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    http::{HeaderName, HeaderValue},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use entourage_model::Result;
use futures_util::stream;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::streams::Seat;

pub(super) const MEDIA: &str = "text/event-stream";
/// A line that says nothing, so that nobody in between takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After this time a stream ends and its client connects again.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// Asks proxies not to wait for more.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What one call of the service had to say, on its way out.
pub(super) type Messages = VecDeque<Event>;

pub(super) fn message(id: Option<&str>, name: Option<&str>, data: &impl Serialize) -> Event {
    let event = Event::default();
    let event = id.into_iter().fold(event, |event, id| event.id(id));
    let event = name.into_iter().fold(event, |event, name| event.event(name));
    event.json_data(data).unwrap_or_default()
}

/// The stream ends when `next` has no more, or fails, or when what let it in is no longer good: a client that connects
/// again is told why.
pub(super) fn answer<S, N, F>(seat: Seat, source: S, next: N) -> Response
where
    S: Send + 'static,
    N: FnMut(S) -> F + Send + 'static,
    F: Future<Output = (S, Result<Option<Messages>>)> + Send + 'static,
{
    let state = (seat, source, next, Messages::new());
    let end = Instant::now() + LIFE;
    let messages = stream::unfold(state, move |(seat, mut source, mut next, mut waiting)| async move {
        if seat.is_over() {
            return None;
        }
        while waiting.is_empty() {
            let (kept, found) = tokio::select! {
                () = seat.over() => return None,
                found = timeout_at(end, next(source)) => found.ok()?,
            };
            source = kept;
            match found {
                Ok(Some(messages)) => waiting = messages,
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(code = error.code().as_str(), "a stream ended: {}", error.detail());
                    return None;
                }
            }
        }
        let message = waiting.pop_front()?;
        Some((Ok::<_, Infallible>(message), (seat, source, next, waiting)))
    });
    let mut response = Sse::new(messages).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    response
}
