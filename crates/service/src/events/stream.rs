//! The stream of events as they happen. The caller decides when the next ones are read.

use entourage_model::Result;
use entourage_store::{StoreExt as _, Whose};

use super::{Events, Listening, StreamHub};
use crate::{Call, EventPage, EventRow, Limit};

/// Where a reader of the event stream stands.
#[derive(Debug)]
pub struct EventStream {
    call: Call,
    after: Option<String>,
    /// What was read when the stream was opened.
    first: Option<EventPage>,
    listening: Listening,
}

impl Events {
    /// From behind a cursor on, or from now on. What is wrong with the cursor is said here.
    pub async fn event_stream(&self, call: &Call, after: Option<&str>) -> Result<EventStream> {
        call.must_be_service()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let listening = StreamHub::listen(&self.context.hub, None).await;
        let now;
        let after = match after {
            Some(after) => after,
            None => {
                now = self.context.event_cursor(self.context.store.last_events().await?);
                &now
            }
        };
        let first = self.events(call, Some(after), Limit::LARGEST).await?;
        let call = Call { token: None, retry: None, ..call.clone() };
        Ok(EventStream { call, after: first.next_cursor.clone(), first: Some(first), listening })
    }

    /// Waits for the next events; `None` when the server stops.
    pub async fn next_events(&self, stream: &mut EventStream) -> Result<Option<Vec<EventRow>>> {
        loop {
            if *stream.listening.closed.borrow() {
                return Ok(None);
            }
            // Before the look: what is written during it wakes this again.
            stream.listening.read_to.borrow_and_update();
            let page = match stream.first.take() {
                Some(page) => page,
                None => self.events(&stream.call, stream.after.as_deref(), Limit::LARGEST).await?,
            };
            let is_end = page.rows.is_empty() && !page.has_more;
            stream.after = page.next_cursor;
            if !page.rows.is_empty() {
                return Ok(Some(page.rows));
            }
            if is_end {
                let Listening { read_to, closed, .. } = &mut stream.listening;
                tokio::select! {
                    _ = read_to.changed() => {}
                    _ = closed.wait_for(|closed| *closed) => return Ok(None),
                }
            }
        }
    }
}
