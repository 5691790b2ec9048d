//! What a worker's write carries: the epoch of its lease, and its progress.

use entourage_model::{Code, Condition, RecordId, Space, Write};

use super::{Effect, Reference, records};

impl Reference {
    /// The newest epoch that was written where this write is decided.
    fn epoch(&self, write: &Write, lease: &RecordId) -> Option<u64> {
        let record = self.record(Space::Job, self.server(write.operation.home()), lease)?;
        Some(u64::from_be_bytes((*record.value).try_into().expect("an epoch has eight bytes")))
    }

    pub(super) fn is_fenced(&self, write: &Write) -> bool {
        write
            .fence
            .as_ref()
            .is_some_and(|fence| self.epoch(write, fence.lease.record_id()).is_some_and(|newest| newest > fence.epoch))
    }

    /// What is written with any outcome of the operation: the progress first.
    pub(super) fn work(&self, write: &Write) -> Result<Vec<Effect>, Code> {
        let server = self.server(write.operation.home());
        let mut effects = Vec::new();
        if let Some(progress) = &write.progress {
            let known = self.record(Space::Job, server, &progress.id);
            let holds = match progress.condition {
                Condition::Any => true,
                Condition::Absent => known.is_none(),
                Condition::Version(version) => known.is_some_and(|known| known.version == version),
            };
            if !holds {
                return Err(Code::RequestInProgress);
            }
            let id = || progress.id.clone();
            match (&progress.value, known) {
                (Some(value), Some(known)) if known.value == *value => {}
                (Some(value), _) => effects.extend(records::work(server, id(), Some(value.clone()))),
                (None, Some(_)) => effects.extend(records::work(server, id(), None)),
                (None, None) => {}
            }
        }
        if let Some(fence) = &write.fence
            && self.epoch(write, fence.lease.record_id()) != Some(fence.epoch)
        {
            let epoch = fence.epoch.to_be_bytes().to_vec().into_boxed_slice();
            effects.extend(records::work(server, fence.lease.record_id().clone(), Some(epoch)));
        }
        Ok(effects)
    }
}
