//! The calls that changed the disk, for reading when a test has failed.

use std::{fmt, sync::Arc};

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: Arc<str>,
    pub(super) action: Action,
    pub(super) ending: Ending,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Create,
    Write { offset: u64, length: usize },
    Sync,
    SetSize(u64),
    RenameTo(Arc<str>),
    Remove,
    SyncFolder,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Done,
    Failed,
    PowerCut,
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.action {
            Action::Create => write!(out, "create {name}"),
            Action::Write { offset, length } => write!(out, "write {name} at {offset}, {length} bytes"),
            Action::Sync => write!(out, "sync {name}"),
            Action::SetSize(size) => write!(out, "set size of {name} to {size}"),
            Action::RenameTo(to) => write!(out, "rename {name} to {to}"),
            Action::Remove => write!(out, "remove {name}"),
            Action::SyncFolder => write!(out, "sync folder"),
        }?;
        out.write_str(match self.ending {
            Ending::Done => "",
            Ending::Failed => ": failed",
            Ending::PowerCut => ": power cut",
        })
    }
}
