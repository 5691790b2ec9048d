//! The names of the test disk: which are visible, which are durable, and the changes in between.

use std::{collections::BTreeMap, sync::Arc};

use super::image::{Chance, Image};

/// A file, whatever its name.
pub(super) type FileNumber = u64;
pub(super) type Names = BTreeMap<Arc<str>, FileNumber>;

#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    pub(super) live: Names,
    pub(super) durable: Names,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    kind: Kind,
    /// A folder sync that failed has marked it clean: no later one will write it.
    forgotten: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The file has this name and no other.
    Name(Arc<str>, FileNumber),
    Remove(Arc<str>),
}

impl Folder {
    pub(super) fn at_rest(names: Names) -> Self {
        Self { live: names.clone(), durable: names, pending: Vec::new() }
    }

    pub(super) fn name(&mut self, name: Arc<str>, file: FileNumber) {
        self.change(Kind::Name(name, file));
    }

    pub(super) fn remove(&mut self, name: Arc<str>) {
        self.change(Kind::Remove(name));
    }

    fn change(&mut self, kind: Kind) {
        kind.apply(&mut self.live);
        self.pending.push(Change { kind, forgotten: false });
    }

    pub(super) fn sync(&mut self) {
        let mut left: Vec<Change> = Vec::new();
        for change in std::mem::take(&mut self.pending) {
            if change.forgotten {
                left.push(change);
            } else {
                // A durable change of a name or a file supersedes what was forgotten of them.
                left.retain(|old| !old.kind.is_overtaken_by(&change.kind));
                change.kind.apply(&mut self.durable);
            }
        }
        self.pending = left;
    }

    pub(super) fn forget_pending(&mut self) {
        for change in &mut self.pending {
            change.forgotten = true;
        }
    }

    pub(super) fn after_cut(&self, image: Image, chance: &mut Chance) -> Names {
        match image {
            Image::Nothing => self.durable.clone(),
            Image::Everything => self.live.clone(),
            Image::Random(_) => {
                let mut names = self.durable.clone();
                // A journaling file system keeps a prefix; not every file system does.
                let in_order = chance.coin();
                let prefix = chance.below(self.pending.len() as u64 + 1) as usize;
                for (index, change) in self.pending.iter().enumerate() {
                    if if in_order { index < prefix } else { chance.coin() } {
                        change.kind.apply(&mut names);
                    }
                }
                names
            }
        }
    }
}

impl Kind {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Name(name, file) => {
                names.retain(|_, other| other != file);
                names.insert(name.clone(), *file);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }

    fn is_overtaken_by(&self, later: &Self) -> bool {
        self.changed_name() == later.changed_name() || self.file().is_some_and(|file| later.file() == Some(file))
    }

    fn changed_name(&self) -> &str {
        match self {
            Self::Name(name, _) | Self::Remove(name) => name,
        }
    }

    fn file(&self) -> Option<FileNumber> {
        match self {
            Self::Name(_, file) => Some(*file),
            Self::Remove(_) => None,
        }
    }
}
