//! A job as its record has it.

use entourage_model::{Condition, Error, Key, Operation, Record, RecordId, Result, Space, User, Version};
use serde::{Deserialize, Serialize};

use super::{JobKind, JobState};

/// What the ids of these records begin with; those of ends of mutes begin with less.
const TALLY: u8 = b't';

/// A person, not an id: who is created under it later is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) key: Key,
    pub(super) created: Version,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    kind: JobKind,
    state: JobState,
    subject: Option<Subject>,
    /// Requests and parked follows from before this are answered, later ones wait.
    before: Option<Version>,
    edges: u64,
    error: Option<Box<str>>,
}

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) id: Version,
    /// The bucket that it lies in.
    pub(super) owner: Key,
    pub(super) updated: Version,
    pub(super) kind: JobKind,
    pub(super) state: JobState,
    pub(super) subject: Option<Subject>,
    pub(super) before: Option<Version>,
    /// How many edges it had changed when it ended; while it runs they are counted elsewhere.
    pub(super) edges: u64,
    pub(super) error: Option<Box<str>>,
}

pub(super) fn fresh(kind: JobKind, user: &User, before: Option<Version>) -> Result<Box<[u8]>> {
    let subject = Some(Subject { key: user.key, created: user.created });
    write(&Document { kind, state: JobState::Running, subject, before, edges: 0, error: None })
}

impl Stored {
    pub(super) fn read(owner: Key, record: &Record) -> Result<Self> {
        let unreadable = || Error::internal("the record of a job cannot be read");
        let id = record.id.version().ok_or_else(unreadable)?;
        let document: Document = serde_json::from_slice(&record.value).map_err(|_| unreadable())?;
        let Document { kind, state, subject, before, edges, error } = document;
        Ok(Self { id, owner, updated: record.version, kind, state, subject, before, edges, error })
    }

    /// Writes it, unless somebody else has meanwhile.
    pub(super) fn update(&self) -> Result<Operation> {
        let Self { kind, state, subject, before, edges, ref error, .. } = *self;
        let document = Document { kind, state, subject, before, edges, error: error.clone() };
        Ok(self.put(Some(write(&document)?)))
    }

    pub(super) fn removal(&self) -> Operation {
        self.put(None)
    }

    fn put(&self, value: Option<Box<[u8]>>) -> Operation {
        Operation::PutRecord {
            space: Space::Job,
            owner: self.owner,
            id: RecordId::of_version(self.id),
            value,
            condition: Condition::Version(self.updated),
            cap: None,
        }
    }
}

/// Where the edges are counted that a job changes, each in the commit that changes it: what is read there is exact
/// wherever the server stops. Ids of jobs begin with more.
pub(super) fn tally_id(job: Version) -> Result<RecordId> {
    let mut bytes = vec![TALLY];
    bytes.extend_from_slice(&job.bits().to_be_bytes());
    RecordId::new(&bytes)
}

fn write(document: &Document) -> Result<Box<[u8]>> {
    let bytes = serde_json::to_vec(document).map_err(|_| Error::internal("a job cannot be written"))?;
    Ok(bytes.into_boxed_slice())
}
