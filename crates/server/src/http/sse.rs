//! Server-sent events. The next message is read only when the client has taken the last, so a client that does not read
//! holds one message until its write times out.

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

use crate::streams::StreamGuard;

pub(super) const MEDIA: &str = "text/event-stream";
/// A comment line, so that proxies keep the connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After this time a stream ends and the client reconnects.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// Asks proxies not to buffer.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The messages of one call of the service.
pub(super) type Messages = VecDeque<Event>;

pub(super) fn message(id: Option<&str>, name: Option<&str>, data: &impl Serialize) -> Event {
    let event = Event::default();
    let event = id.into_iter().fold(event, |event, id| event.id(id));
    let event = name.into_iter().fold(event, |event, name| event.event(name));
    event.json_data(data).unwrap_or_default()
}

/// Ends when `next` ends or fails, or the credential becomes invalid: a client that reconnects is told why.
pub(super) fn answer<S, N, F>(stream_guard: StreamGuard, source: S, next: N) -> Response
where
    S: Send + 'static,
    N: FnMut(S) -> F + Send + 'static,
    F: Future<Output = (S, Result<Option<Messages>>)> + Send + 'static,
{
    let state = (stream_guard, source, next, Messages::new());
    let end = Instant::now() + LIFE;
    let messages = stream::unfold(state, move |(stream_guard, mut source, mut next, mut waiting)| async move {
        if stream_guard.is_ended() {
            return None;
        }
        while waiting.is_empty() {
            let (kept, found) = tokio::select! {
                () = stream_guard.ended() => return None,
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
        Some((Ok::<_, Infallible>(message), (stream_guard, source, next, waiting)))
    });
    let mut response = Sse::new(messages).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    response
}
