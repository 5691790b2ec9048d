//! A lease as its record has it: who took it last, at which epoch.

use entourage_model::{Condition, Error, Key, Millis, Operation, Record, RecordId, Reply, Result, Space, Version};
use serde::{Deserialize, Serialize};

use super::{Duty, Held, Leases};
use crate::writer::unexpected;

const SPACE: Space = Space::Schedule;
const OWNER: Key = Key::SERVER;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) epoch: u64,
    pub(super) holder: u64,
    pub(super) since: Millis,
}

/// A lease with the version of its record.
pub(super) type Known = (Version, Document);

fn record_id(duty: Duty) -> Result<RecordId> {
    RecordId::new(format!("lease {}", duty.as_str()).as_bytes())
}

fn read(record: Option<Record>) -> Result<Option<Known>> {
    let Some(record) = record else { return Ok(None) };
    // An epoch that is not known must not be used again.
    let unreadable = |_| Error::internal("the record of a lease cannot be read");
    Ok(Some((record.version, serde_json::from_slice(&record.value).map_err(unreadable)?)))
}

impl Leases {
    pub(super) async fn stored(&self, duties: &[Duty]) -> Result<Vec<Option<Known>>> {
        let ids = duties.iter().map(|duty| Ok((OWNER, record_id(*duty)?))).collect::<Result<Vec<_>>>()?;
        self.context.store.get_records(SPACE, &ids).await?.into_iter().map(read).collect()
    }

    /// Takes an epoch, unless somebody has taken it meanwhile. The same commit fences the holder before.
    pub(super) async fn take(&self, held: &Held, before: Option<Version>, document: Document) -> Result<Version> {
        let bytes = serde_json::to_vec(&document).map_err(|_| Error::internal("a lease cannot be written"))?;
        let (value, condition) = (Some(bytes.into_boxed_slice()), before.map_or(Condition::Absent, Condition::Version));
        let id = record_id(held.duty)?;
        let operation = Operation::PutRecord { space: SPACE, owner: OWNER, id, value, condition, cap: None };
        match held.run(self.context.writer.write_one(operation)).await?.reply {
            Reply::Record { version, .. } => Ok(version),
            other => Err(unexpected(&other)),
        }
    }
}
