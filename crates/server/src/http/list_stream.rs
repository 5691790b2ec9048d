//! A whole list as NDJSON for services: one row per line, read from the store only as fast as the client reads.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use entourage_model::{Code, Error, Result};
use entourage_service::{ListStream, Service, UserRow};
use hyper::body::{Body as HttpBody, Frame};

use super::{
    lists::{ListQuery, row},
    request::ApiRequest,
};
use crate::streams::StreamGuard;

pub(super) const NDJSON: &str = "application/x-ndjson";

/// A whole list has no pages.
pub(super) fn is_asked_for(request: &ApiRequest, query: &ListQuery) -> Result<bool> {
    let is_asked_for = request.accepts(NDJSON);
    if is_asked_for && !query.is_empty() {
        return Err(Error::invalid("a whole list takes neither cursor nor limit"));
    }
    Ok(is_asked_for)
}

pub(super) fn answer(stream_guard: StreamGuard, service: Arc<Service>, list: ListStream) -> Response {
    let next = Some(read(Arc::clone(&service), list));
    let mut response = Response::new(Body::new(Lines { stream_guard, service, next }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}

type Read = Pin<Box<dyn Future<Output = (ListStream, Result<Option<Vec<UserRow>>>)> + Send>>;

/// Holds one chunk of the list at most. A read error or an invalid credential aborts the response, so that no client
/// takes a part for the whole.
struct Lines {
    stream_guard: StreamGuard,
    service: Arc<Service>,
    next: Option<Read>,
}

fn read(service: Arc<Service>, mut list: ListStream) -> Read {
    Box::pin(async move {
        let rows = service.graph.next_rows(&mut list).await;
        (list, rows)
    })
}

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        if self.stream_guard.is_ended() {
            return Poll::Ready(Some(Err(Error::new(Code::Unauthenticated, "the credential is no longer good"))));
        }
        while let Some(next) = self.next.as_mut() {
            let (list, rows) = ready!(next.as_mut().poll(context));
            self.next = None;
            match rows.and_then(|rows| rows.map(|rows| lines(&rows)).transpose()) {
                Err(error) => {
                    tracing::error!(code = error.code().as_str(), "a whole list was cut off: {}", error.detail());
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(None) => {}
                Ok(Some(lines)) => {
                    self.next = Some(read(Arc::clone(&self.service), list));
                    if !lines.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(lines))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

fn lines(rows: &[UserRow]) -> Result<Bytes> {
    let mut text = Vec::with_capacity(rows.len() * 128);
    for found in rows {
        serde_json::to_writer(&mut text, &row(found)).map_err(|error| Error::internal(error.to_string()))?;
        text.push(b'\n');
    }
    Ok(text.into())
}
