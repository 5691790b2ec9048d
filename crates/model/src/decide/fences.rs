//! Fencing: decides whether the holder of a lease may still write, and writes progress with its effect.

use super::{View, records};
use crate::{Change, Fence, Key, RECORD_MAX_BYTES, RecordChange, RecordId, Refusal, Space, WorkProgress, tally};

const SPACE: Space = Space::Job;

/// The change to the record of the write's lease, in the home where its operation is decided: a greater epoch takes
/// over.
pub(super) fn check(view: &impl View, home: Key, fence: &Fence) -> Result<Option<Change>, Refusal> {
    let (owner, id) = (view.buckets().of(home), fence.lease.record_id());
    let known = view.record(SPACE, owner, id);
    match known.as_ref().map(|record| tally(&record.value)) {
        Some(newest) if newest > fence.epoch => Err(Refusal::Fenced),
        Some(newest) if newest == fence.epoch => Ok(None),
        _ => {
            let before = known.map(|record| record.version);
            Ok(Some(change(owner, id, before, Some(fence.epoch.to_be_bytes().as_slice().into()))))
        }
    }
}

pub(super) fn advance(view: &impl View, home: Key, progress: &WorkProgress) -> Result<Option<Change>, Refusal> {
    let WorkProgress { id, value, condition } = progress;
    let owner = view.buckets().of(home);
    let known = view.record(SPACE, owner, id);
    if !records::holds(*condition, known.as_ref().map(|record| record.version)) {
        return Err(Refusal::RecordChanged);
    }
    if value.as_ref().is_some_and(|value| value.len() > RECORD_MAX_BYTES) {
        return Err(Refusal::RecordTooLarge);
    }
    if known.as_ref().map(|record| &record.value) == value.as_ref() {
        return Ok(None);
    }
    Ok(Some(change(owner, id, known.map(|record| record.version), value.clone())))
}

fn change(owner: Key, id: &RecordId, before: Option<crate::Version>, after: Option<Box<[u8]>>) -> Change {
    Change::Record(RecordChange { space: SPACE, owner, id: id.clone(), before, after })
}
