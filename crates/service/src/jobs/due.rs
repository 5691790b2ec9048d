//! What is to be done at a time: mutes that end. A record of the server's says when, ordered by that time; it comes and
//! goes with its mute.

use entourage_model::{
    CHUNK_MAX, Condition, EdgeValue, Expiry, Key, Kind, Operation, Record, RecordId, Result, Space, Write,
};
use entourage_store::StoreExt as _;

use crate::{Call, Jobs};

/// The end of a mute, and the record that tells of it.
type End = (RecordId, (Expiry, Key, Key));

fn removal(owner: Key, id: RecordId) -> Operation {
    let (space, condition) = (Space::Job, Condition::Any);
    Operation::PutRecord { space, owner, id, value: None, condition, cap: None }
}

impl Jobs {
    /// A mute that is over is as good as gone, whenever it goes.
    pub(crate) async fn end_if_over(&self, actor: Key, target: Key) -> Result<()> {
        let edges = self.context.store.get_edges(Kind::Mute, &[(actor, target)]).await?;
        let now = self.context.clock.now();
        if edges.iter().flatten().any(|edge: &EdgeValue| edge.is_over(now)) {
            self.context.writer.write(&Call::default(), Operation::ExpireMute { actor, target, now }).await?;
        }
        Ok(())
    }

    /// Takes mutes away that are over; whether there were any.
    pub(super) async fn end_mutes(&self) -> Result<bool> {
        let now = self.context.clock.now();
        let mut due = self.mute_ends(RecordId::MUTE_ENDS, CHUNK_MAX / 2).await?;
        due.retain(|(_, (at, ..))| at.is_past(now));
        if due.is_empty() {
            return Ok(false);
        }
        let expire = |(_, (_, actor, target)): &End| Operation::ExpireMute { actor: *actor, target: *target, now };
        let writes = due.iter().map(|end| Write::from(expire(end))).collect();
        self.context.writer.write_all(writes).await.into_iter().try_for_each(|outcome| outcome.map(drop))?;
        self.drop_stale_ends(due).await?;
        Ok(true)
    }

    /// Takes away what tells of the end of a mute that is not there, or ends at another time: earlier versions left such
    /// records behind, with the keys of people who were erased since.
    pub(super) async fn drop_all_stale_ends(&self) -> Result<()> {
        let mut after: Box<[u8]> = RecordId::MUTE_ENDS.into();
        loop {
            let page = self.mute_ends(&after, CHUNK_MAX).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.as_bytes().into();
            self.drop_stale_ends(page).await?;
        }
    }

    async fn drop_stale_ends(&self, ends: Vec<End>) -> Result<()> {
        let pairs: Vec<(Key, Key)> = ends.iter().map(|(_, (_, actor, target))| (*actor, *target)).collect();
        let mutes = self.context.store.get_edges(Kind::Mute, &pairs).await?;
        let is_stale =
            |((_, (at, ..)), mute): &(End, Option<EdgeValue>)| mute.and_then(|mute| mute.expires) != Some(*at);
        let stale = ends.into_iter().zip(mutes).filter(is_stale);
        let buckets = self.context.store.guarantees().buckets;
        let ids: Vec<(Key, RecordId)> = stale.map(|((id, (_, actor, _)), _)| (buckets.of(actor), id)).collect();
        // Most went with their mutes.
        let left = self.context.store.get_records(Space::Job, &ids).await?;
        for ((owner, id), _) in ids.into_iter().zip(left).filter(|(_, left)| left.is_some()) {
            self.context.writer.write(&Call::default(), removal(owner, id)).await?;
        }
        Ok(())
    }

    async fn mute_ends(&self, after: &[u8], limit: usize) -> Result<Vec<End>> {
        let found = self.context.store.scan_server_records(Space::Job, Some(after), limit).await?;
        let end = |(_, record): (Key, Record)| Some((record.id.mute_end()?, record.id));
        Ok(found.into_iter().map_while(end).map(|(end, id)| (id, end)).collect())
    }
}
