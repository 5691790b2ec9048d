//! The whole test disk behind its lock: the files, the names, the calls so far and the failures that were ordered.

use std::{collections::BTreeMap, io, sync::Arc};

use super::{
    FailedSync,
    content::Content,
    folder::{FileNumber, Folder},
    image::Image,
    trace::{Action, Call, Ending},
};

/// The code of `EIO`, what a failed `fsync` gives.
const INPUT_OUTPUT_ERROR: i32 = 5;

#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) folder: Folder,
    pub(super) files: BTreeMap<FileNumber, File>,
    pub(super) calls: Vec<Call>,
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    pub(super) capacity: Option<u64>,
    pub(super) failing_syncs: Vec<FailingSync>,
    pub(super) failing_writes: Vec<FailingWrites>,
}

#[derive(Clone)]
pub(super) struct File {
    /// The newest name, for the trace and for failures; a removed file keeps its last one.
    pub(super) name: Arc<str>,
    pub(super) content: Content,
}

#[derive(Clone)]
pub(super) struct FailingSync {
    /// Syncs that go well before it.
    pub(super) passes: u64,
    pub(super) kind: FailedSync,
}

#[derive(Clone)]
pub(super) struct FailingWrites {
    pub(super) kind: io::ErrorKind,
    pub(super) concerns: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(super) left: u64,
}

/// Whether a call completes or the power fails meanwhile.
pub(super) enum Power {
    On,
    Cut,
}

impl State {
    pub(super) fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(crashed()) } else { Ok(()) }
    }

    /// Counts a call that changes the disk.
    fn begin(&mut self, name: &Arc<str>, action: Action) -> io::Result<Power> {
        self.alive()?;
        self.crashed = self.crash_at.is_some_and(|at| self.calls.len() as u64 >= at);
        let (power, ending) = if self.crashed { (Power::Cut, Ending::PowerCut) } else { (Power::On, Ending::Done) };
        self.calls.push(Call { name: name.clone(), action, ending });
        Ok(power)
    }

    fn failed<T>(&mut self, error: io::Error) -> io::Result<T> {
        if let Some(call) = self.calls.last_mut() {
            call.ending = Ending::Failed;
        }
        Err(error)
    }

    pub(super) fn number(&self, name: &str) -> io::Result<FileNumber> {
        self.folder.live.get(name).copied().ok_or_else(|| not_found(name))
    }

    pub(super) fn file(&mut self, number: FileNumber) -> io::Result<&mut File> {
        self.files.get_mut(&number).ok_or_else(|| not_found("an unknown file"))
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<FileNumber> {
        let name: Arc<str> = name.into();
        let power = self.begin(&name, Action::Create)?;
        let number = match self.folder.live.get(&name) {
            Some(number) => {
                let number = *number;
                self.file(number)?.content.set_size(0);
                number
            }
            None => {
                let number = self.files.last_key_value().map_or(0, |(last, _)| last + 1);
                self.files.insert(number, File { name: name.clone(), content: Content::default() });
                self.folder.name(name, number);
                number
            }
        };
        unless_cut(&power)?;
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.alive()?;
        let number = self.number(from)?;
        let to: Arc<str> = to.into();
        let power = self.begin(&from.into(), Action::RenameTo(to.clone()))?;
        self.file(number)?.name = to.clone();
        self.folder.name(to, number);
        unless_cut(&power)
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.alive()?;
        self.number(name)?;
        let name: Arc<str> = name.into();
        let power = self.begin(&name, Action::Remove)?;
        self.folder.remove(name);
        unless_cut(&power)
    }

    pub(super) fn sync_folder(&mut self) -> io::Result<()> {
        let power = self.begin(&"".into(), Action::SyncFolder)?;
        unless_cut(&power)?;
        if self.next_failing_sync().is_some() {
            self.folder.forget_pending();
            return self.failed(io::Error::from_raw_os_error(INPUT_OUTPUT_ERROR));
        }
        self.folder.sync();
        Ok(())
    }

    pub(super) fn write(&mut self, number: FileNumber, bytes: &[u8], offset: u64) -> io::Result<()> {
        let name = self.file(number)?.name.clone();
        let power = self.begin(&name, Action::Write { offset, length: bytes.len() })?;
        if matches!(power, Power::Cut) {
            self.file(number)?.content.write_under_way(bytes, offset);
            return unless_cut(&power);
        }
        if let Some(kind) = self.next_failing_write(&name) {
            self.file(number)?.content.write(&bytes[..bytes.len() / 2], offset);
            return self.failed(kind.into());
        }
        let free = self.free();
        let end = self.file(number)?.content.taken.reach(offset..offset + bytes.len() as u64, free);
        let fitting = (end - offset) as usize;
        self.file(number)?.content.write(&bytes[..fitting], offset);
        if fitting < bytes.len() {
            return self.failed(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn set_size(&mut self, number: FileNumber, size: u64) -> io::Result<()> {
        let name = self.file(number)?.name.clone();
        let power = self.begin(&name, Action::SetSize(size))?;
        self.file(number)?.content.set_size(size);
        unless_cut(&power)
    }

    pub(super) fn sync(&mut self, number: FileNumber, how: fn(&mut Content)) -> io::Result<()> {
        let name = self.file(number)?.name.clone();
        let power = self.begin(&name, Action::Sync)?;
        unless_cut(&power)?;
        match self.next_failing_sync() {
            None => how(&mut self.file(number)?.content),
            Some(kind) => {
                let content = &mut self.file(number)?.content;
                match kind {
                    FailedSync::DropsWrites => content.drop_pending(),
                    FailedSync::ForgetsWrites => content.forget_pending(),
                }
                return self.failed(io::Error::from_raw_os_error(INPUT_OUTPUT_ERROR));
            }
        }
        Ok(())
    }

    fn free(&self) -> u64 {
        let Some(capacity) = self.capacity else { return u64::MAX };
        let named = self.folder.live.values().filter_map(|number| self.files.get(number));
        capacity.saturating_sub(named.map(|file| file.content.taken.total()).sum())
    }

    fn next_failing_sync(&mut self) -> Option<FailedSync> {
        let due = self.failing_syncs.iter().position(|failing| failing.passes == 0);
        for (index, failing) in self.failing_syncs.iter_mut().enumerate() {
            if Some(index) != due {
                failing.passes = failing.passes.saturating_sub(1);
            }
        }
        due.map(|index| self.failing_syncs.remove(index).kind)
    }

    fn next_failing_write(&mut self, name: &str) -> Option<io::ErrorKind> {
        let failing = self.failing_writes.iter_mut().find(|failing| failing.left > 0 && (failing.concerns)(name))?;
        failing.left -= 1;
        Some(failing.kind)
    }

    /// The disk as it could be after a power cut now, at rest and with no failures ordered.
    pub(super) fn after_cut(&self, image: Image) -> Self {
        let mut chance = image.chance();
        let names = self.folder.after_cut(image, &mut chance);
        let mut files = BTreeMap::new();
        for (name, number) in &names {
            if let Some(file) = self.files.get(number) {
                let content = file.content.after_cut(image, &mut chance);
                files.insert(*number, File { name: name.clone(), content });
            }
        }
        Self { folder: Folder::at_rest(names), files, capacity: self.capacity, ..Self::default() }
    }
}

fn unless_cut(power: &Power) -> io::Result<()> {
    match power {
        Power::On => Ok(()),
        Power::Cut => Err(crashed()),
    }
}

fn crashed() -> io::Error {
    io::Error::other("crashed")
}

pub(super) fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}
