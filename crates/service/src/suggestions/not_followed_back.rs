//! Who follows the viewer without being followed back, newest first. Quiet followers are nobody's to know.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::{List, Result};

use super::source::{Asked, Candidate, Evidence, People, Source};
use crate::Context;

pub(super) struct NotFollowedBack {
    pub(super) context: Arc<Context>,
}

#[async_trait]
impl Source for NotFollowedBack {
    async fn candidates(&self, asked: &Asked, limit: usize, _: &mut People) -> Result<Vec<Candidate>> {
        let list = List::followers(asked.viewer).open();
        let page = self.context.store.scan(list, None, limit).await?;
        let candidate = |edge: &entourage_model::Edge| Candidate {
            key: edge.follower,
            weight: edge.value.position.bits(),
            evidence: Evidence::FollowsYou,
        };
        Ok(page.edges.iter().map(candidate).collect())
    }
}
