//! A whole list for services, piece by piece: whoever asks decides when the next one is read.

use entourage_model::{List, Place, Result, UserId};
use entourage_store::Whose;

use crate::{Call, Service, UserRow};

/// Whoever does not read what they asked for holds a few of these.
const CHUNK: usize = 250;

/// Where the reading of a whole list stands.
#[derive(Clone, Debug)]
pub struct WholeList {
    list: List,
    after: Option<Place>,
    ended: bool,
}

impl Service {
    pub async fn whole_followers(&self, call: &Call, id: &UserId) -> Result<WholeList> {
        self.whole(call, id, List::followers).await
    }

    pub async fn whole_following(&self, call: &Call, id: &UserId) -> Result<WholeList> {
        self.whole(call, id, List::following).await
    }

    async fn whole(&self, call: &Call, id: &UserId, list_of: fn(entourage_model::Key) -> List) -> Result<WholeList> {
        call.must_be_service()?;
        self.catch_up(call, Whose::Of(&[self.keys.key(id)])).await?;
        let owner = self.stored_user(id).await?;
        Ok(WholeList { list: list_of(owner.key), after: None, ended: false })
    }

    /// The next rows; `None` when there are no more.
    pub async fn next_rows(&self, whole: &mut WholeList) -> Result<Option<Vec<UserRow>>> {
        if whole.ended {
            return Ok(None);
        }
        let page = self.store.scan(whole.list, whole.after, CHUNK).await?;
        whole.after = page.edges.last().map(|edge| whole.list.place(edge));
        whole.ended = !page.more || whole.after.is_none();
        Ok(Some(self.rows(whole.list, &page.edges).await?))
    }
}
