//! A task as its record has it, or as this process knows it where every server runs its own.

use entourage_model::{Code, Condition, Error, Millis, Operation, RecordId, Reply, Result, Version};
use serde::{Deserialize, Serialize};

use super::{OWNER, SPACE, Scheduler, Task, TaskResult};
use crate::writer::unexpected;

/// How often a write is tried that others keep overtaking.
pub(super) const TRIES: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Document {
    /// The process that runs it; `None` while it does not run.
    pub(super) holder: Option<u64>,
    pub(super) started: Option<Millis>,
    pub(super) finished: Option<Millis>,
    pub(super) result: Option<TaskResult>,
    pub(super) detail: Option<Box<str>>,
    /// `None` before its first run.
    pub(super) next: Option<Millis>,
    /// Somebody asked for a run.
    #[serde(default)]
    pub(super) wanted: bool,
}

fn record_id(task: Task) -> Result<RecordId> {
    RecordId::new(task.as_str().as_bytes())
}

impl Scheduler {
    pub(super) async fn stored(&self, task: Task) -> Result<Option<(Version, Document)>> {
        if self.is_own(task) {
            return Ok(self.own.lock().get(&task).cloned());
        }
        let found = self.context.store.get_records(SPACE, &[(OWNER, record_id(task)?)]).await?;
        let Some(record) = found.into_iter().flatten().next() else { return Ok(None) };
        // A record of a later version is as good as none: the task runs, and writes its own.
        let document = serde_json::from_slice(&record.value).unwrap_or_default();
        Ok(Some((record.version, document)))
    }

    /// Writes the record, unless somebody has written it meanwhile; its new version.
    pub(super) async fn put(&self, task: Task, known: Option<Version>, document: &Document) -> Result<Version> {
        if self.is_own(task) {
            return self.put_own(task, known, document);
        }
        let bytes = serde_json::to_vec(document).map_err(|_| Error::internal("a task cannot be written"))?;
        let (value, condition) = (Some(bytes.into_boxed_slice()), known.map_or(Condition::Absent, Condition::Version));
        let operation =
            Operation::PutRecord { space: SPACE, owner: OWNER, id: record_id(task)?, value, condition, cap: None };
        match self.context.writer.write_one(operation).await?.reply {
            Reply::Record { version, .. } => Ok(version),
            other => Err(unexpected(&other)),
        }
    }

    fn put_own(&self, task: Task, known: Option<Version>, document: &Document) -> Result<Version> {
        let mut own = self.own.lock();
        let current = own.get(&task).map(|(version, _)| *version);
        if current != known {
            return Err(Error::new(Code::RequestInProgress, "the task was changed meanwhile"));
        }
        let version = Version::from_bits(current.map_or(1, |version| version.bits() + 1));
        own.insert(task, (version, document.clone()));
        Ok(version)
    }

    /// Notes that somebody asks for a run.
    pub(super) async fn want(&self, task: Task) -> Result<Document> {
        let mut last = Error::internal("nobody tried");
        for _ in 0..TRIES {
            let (known, document) = self
                .stored(task)
                .await?
                .map_or((None, Document::default()), |(version, document)| (Some(version), document));
            let document = Document { wanted: true, ..document };
            match self.put(task, known, &document).await {
                Ok(_) => return Ok(document),
                Err(error) if error.code() == Code::RequestInProgress => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}
