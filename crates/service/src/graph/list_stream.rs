//! A whole list for services, as a stream of chunks: the caller decides when the next one is read.

use entourage_model::{List, Place, Result, UserId};
use entourage_store::Whose;

use crate::{Call, Graph, UserRow};

/// A caller that does not read holds a few of these.
const CHUNK: usize = 250;

/// Where the reading of a whole list stands.
#[derive(Clone, Debug)]
pub struct ListStream {
    list: List,
    after: Option<Place>,
    ended: bool,
}

impl Graph {
    pub async fn stream_followers(&self, call: &Call, id: &UserId) -> Result<ListStream> {
        self.list_stream(call, id, List::followers).await
    }

    pub async fn stream_following(&self, call: &Call, id: &UserId) -> Result<ListStream> {
        self.list_stream(call, id, List::following).await
    }

    async fn list_stream(
        &self,
        call: &Call,
        id: &UserId,
        list_of: fn(entourage_model::Key) -> List,
    ) -> Result<ListStream> {
        call.must_be_service()?;
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        let owner = self.context.stored_user(id).await?;
        Ok(ListStream { list: list_of(owner.key), after: None, ended: false })
    }

    /// The next rows; `None` when there are no more.
    pub async fn next_rows(&self, stream: &mut ListStream) -> Result<Option<Vec<UserRow>>> {
        if stream.ended {
            return Ok(None);
        }
        let page = self.context.store.scan(stream.list, stream.after, CHUNK).await?;
        stream.after = page.edges.last().map(|edge| stream.list.place(edge));
        stream.ended = !page.more || stream.after.is_none();
        Ok(Some(self.context.rows(stream.list, &page.edges).await?))
    }
}
