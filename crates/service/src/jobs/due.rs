//! What is to be done at a time: mutes that end. A record of the server's says when, ordered by that time.

use entourage_model::{CHUNK_MAX, Condition, EdgeValue, Expiry, Key, Kind, Operation, RecordId, Result, Space, Write};

use crate::{Call, Service};

/// What the ids of these records begin with. Ids of jobs begin with more.
const MUTE: u8 = b'm';

/// Seconds and keys as they order; a key's sign is turned for that.
fn due_id(at: Expiry, actor: Key, target: Key) -> Result<RecordId> {
    let mut bytes = vec![MUTE];
    bytes.extend_from_slice(&at.seconds().to_be_bytes());
    for key in [actor, target] {
        bytes.extend_from_slice(&key.0.to_be_bytes());
    }
    RecordId::new(&bytes)
}

fn read(id: &RecordId) -> Option<(Expiry, Key, Key)> {
    let (&MUTE, rest) = id.as_bytes().split_first()? else { return None };
    let (seconds, rest) = rest.split_first_chunk::<4>()?;
    let (actor, rest) = rest.split_first_chunk::<8>()?;
    let target = rest.first_chunk::<8>()?;
    let key = |bytes: &[u8; 8]| Key(i64::from_be_bytes(*bytes));
    Some((Expiry::from_seconds(u32::from_be_bytes(*seconds))?, key(actor), key(target)))
}

fn record(id: RecordId, value: Option<Box<[u8]>>) -> Operation {
    Operation::PutRecord { space: Space::Job, owner: Key::SERVER, id, value, condition: Condition::Any, cap: None }
}

impl Service {
    /// Before a mute that ends is made: if the server stops in between, somebody looks for a mute that is not there.
    pub(crate) async fn note_end(&self, actor: Key, target: Key, at: Expiry) -> Result<()> {
        if self.users_by_key(&[actor, target]).await?.len() == 2 {
            self.commit(&Call::default(), record(due_id(at, actor, target)?, Some(Box::default()))).await?;
        }
        Ok(())
    }

    /// After mutes were made by an import, which comes here again for all that it had not noted as done.
    pub(crate) async fn note_ends(&self, mutes: &[(Key, Key, Expiry)]) -> Result<()> {
        let write = |(actor, target, at): &(Key, Key, Expiry)| {
            due_id(*at, *actor, *target).map(|id| Write::from(record(id, Some(Box::default()))))
        };
        let writes: Vec<Write> = mutes.iter().map(write).collect::<Result<_>>()?;
        for chunk in writes.chunks(CHUNK_MAX) {
            self.store.commit_all(chunk.to_vec()).await.into_iter().collect::<Result<Vec<_>>>()?;
        }
        Ok(())
    }

    /// A mute that is over is as good as gone, whenever it goes.
    pub(crate) async fn end_if_over(&self, actor: Key, target: Key) -> Result<()> {
        let edges = self.store.get_edges(Kind::Mute, &[(actor, target)]).await?;
        let now = self.clock.now();
        if edges.iter().flatten().any(|edge: &EdgeValue| edge.is_over(now)) {
            self.commit(&Call::default(), Operation::ExpireMute { actor, target, now }).await?;
        }
        Ok(())
    }

    /// Takes mutes away that are over; whether there were any.
    pub(super) async fn end_mutes(&self) -> Result<bool> {
        let now = self.clock.now();
        let due = self.store.scan_records(Space::Job, Key::SERVER, Some(&[MUTE]), CHUNK_MAX / 2).await?;
        let mut writes = Vec::new();
        for found in due {
            let Some((at, actor, target)) = read(&found.id) else { break };
            if !at.is_past(now) {
                break;
            }
            writes.push(Write::from(Operation::ExpireMute { actor, target, now }));
            writes.push(Write::from(record(found.id, None)));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        for (write, outcome) in writes.iter().zip(self.store.commit_all(writes.clone()).await) {
            let outcome = outcome?;
            self.hearing()(&outcome);
            self.committed(&write.operation, &outcome);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_reads_back_and_comes_before_jobs() {
        let at = |seconds| Expiry::from_seconds(seconds).unwrap();
        let id = due_id(at(7), Key(-3), Key(i64::MAX)).unwrap();
        assert_eq!(read(&id), Some((at(7), Key(-3), Key(i64::MAX))));
        assert!(due_id(at(256), Key(0), Key(0)).unwrap() > id);
        assert!(id.as_bytes() < RecordId::BELOW_VERSIONS && id.as_bytes() > &[MUTE][..]);
        assert_eq!(read(&RecordId::of_version(entourage_model::Version::from_bits(9))), None);
    }
}
