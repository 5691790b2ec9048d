//! Random calls against a naive model that keeps, for every byte and every name, everything a cut may leave.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use entourage_store::disk::read_all;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
pub(super) enum Step {
    Create(usize),
    Write { name: usize, offset: u64, length: usize, durable: bool },
    Sync(usize),
    SetSize(usize, u64),
    Rename(usize, usize),
    Remove(usize),
    SyncFolder,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        2 => name.clone().prop_map(Step::Create),
        6 => (name.clone(), 0..1500u64, 0..1200usize, prop::bool::weighted(0.3))
            .prop_map(|(name, offset, length, durable)| Step::Write { name, offset, length, durable }),
        3 => name.clone().prop_map(Step::Sync),
        1 => (name.clone(), 0..2500u64).prop_map(|(name, size)| Step::SetSize(name, size)),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name.prop_map(Step::Remove),
        2 => Just(Step::SyncFolder),
    ];
    prop::collection::vec(step, 1..30)
}

#[derive(Clone, Default)]
struct File {
    live: Vec<u8>,
    /// Every value that a byte may have after a cut.
    possible: Vec<BTreeSet<u8>>,
    smallest: usize,
    largest: usize,
}

impl File {
    fn write(&mut self, bytes: &[u8], offset: usize, durable: bool) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.reach(end);
        self.live.resize(self.live.len().max(end), 0);
        self.live[offset..end].copy_from_slice(bytes);
        for (possible, byte) in self.possible[offset..end].iter_mut().zip(bytes) {
            if durable {
                possible.clear();
            }
            possible.insert(*byte);
        }
        if durable {
            self.smallest = self.smallest.max(end);
        }
    }

    /// The file may have this size, with zeros where nothing was written.
    fn reach(&mut self, size: usize) {
        self.largest = self.largest.max(size);
        while self.possible.len() < size {
            self.possible.push(BTreeSet::from([0]));
        }
    }

    fn set_size(&mut self, size: usize) {
        self.reach(size);
        self.live.resize(size, 0);
        for possible in &mut self.possible[size..] {
            possible.insert(0);
        }
        self.smallest = self.smallest.min(size);
    }

    fn sync(&mut self) {
        self.possible = self.live.iter().map(|byte| BTreeSet::from([*byte])).collect();
        self.smallest = self.live.len();
        self.largest = self.live.len();
    }

    fn allows(&self, bytes: &[u8]) -> bool {
        (self.smallest..=self.largest).contains(&bytes.len())
            && bytes.iter().zip(&self.possible).all(|(byte, possible)| possible.contains(byte))
    }
}

#[derive(Default)]
struct Model {
    files: Vec<File>,
    live: BTreeMap<usize, usize>,
    /// For every name the files that may have it after a cut; `None`: the name may be absent.
    possible: BTreeMap<usize, BTreeSet<Option<usize>>>,
}

impl Model {
    fn may_be(&mut self, name: usize, file: Option<usize>) {
        self.possible.entry(name).or_insert_with(|| BTreeSet::from([None])).insert(file);
    }

    fn create(&mut self, name: usize) {
        if let Some(file) = self.live.get(&name) {
            self.files[*file].set_size(0);
        } else {
            self.files.push(File::default());
            self.live.insert(name, self.files.len() - 1);
            self.may_be(name, Some(self.files.len() - 1));
        }
    }

    fn sync_folder(&mut self) {
        self.possible.clear();
        for (name, file) in &self.live {
            self.possible.insert(*name, BTreeSet::from([Some(*file)]));
        }
    }

    fn allows(&self, image: &CrashDisk) -> bool {
        (0..NAMES.len()).all(|name| match (image.contents(NAMES[name]), self.possible.get(&name)) {
            (Err(_), possible) => possible.is_none_or(|files| files.contains(&None)),
            (Ok(_), None) => false,
            (Ok(bytes), Some(files)) => files.iter().flatten().any(|file| self.files[*file].allows(&bytes)),
        })
    }
}

impl Model {
    fn apply(&mut self, step: &Step, stamp: u8) {
        match *step {
            Step::Create(name) => self.create(name),
            Step::SyncFolder => self.sync_folder(),
            Step::Write { name, offset, length, durable } => {
                self.files[self.live[&name]].write(&vec![stamp; length], offset as usize, durable);
            }
            Step::Sync(name) => self.files[self.live[&name]].sync(),
            Step::SetSize(name, size) => self.files[self.live[&name]].set_size(size as usize),
            Step::Rename(from, to) => {
                if let Some(file) = self.live.remove(&from) {
                    self.may_be(from, None);
                    self.live.insert(to, file);
                    self.may_be(to, Some(file));
                }
            }
            Step::Remove(name) => {
                self.live.remove(&name);
                self.may_be(name, None);
            }
        }
    }

    /// The step has begun and may have happened; nothing is durable by it.
    fn apply_under_way(&mut self, step: &Step, stamp: u8) {
        match *step {
            Step::Sync(_) | Step::SyncFolder => {}
            Step::Write { name, offset, length, .. } => {
                self.apply(&Step::Write { name, offset, length, durable: false }, stamp);
            }
            _ => self.apply(step, stamp),
        }
    }
}

pub(super) fn run(step: &Step, stamp: u8, disk: &dyn Disk) -> io::Result<()> {
    match *step {
        Step::Create(name) => disk.create(NAMES[name]).map(drop),
        Step::SyncFolder => disk.sync_folder(),
        Step::Write { name, offset, length, durable } => {
            let (file, bytes) = (disk.open(NAMES[name])?, vec![stamp; length]);
            if durable { file.write_durable_at(&bytes, offset) } else { file.write_at(&bytes, offset) }
        }
        Step::Sync(name) => disk.open(NAMES[name])?.sync(),
        Step::SetSize(name, size) => disk.open(NAMES[name])?.set_size(size),
        Step::Rename(from, to) => disk.rename(NAMES[from], NAMES[to]),
        Step::Remove(name) => disk.remove(NAMES[name]),
    }
}

pub(super) fn contents(disk: &dyn Disk) -> io::Result<Vec<(String, Vec<u8>)>> {
    disk.list()?.into_iter().map(|name| Ok((name.clone(), read_all(&*disk.open(&name)?)?))).collect()
}

proptest! {
    #[test]
    fn every_image_is_possible_and_everything_is_what_was_seen(steps in steps()) {
        let disk = CrashDisk::new();
        let mut model = Model::default();
        for (index, step) in steps.iter().enumerate() {
            let stamp = index as u8 + 1;
            match run(step, stamp, &disk) {
                Ok(()) => model.apply(step, stamp),
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::NotFound),
            }
            let seen: Vec<_> =
                model.live.iter().map(|(name, file)| (NAMES[*name].to_owned(), model.files[*file].live.clone())).collect();
            prop_assert_eq!(&contents(&disk).unwrap(), &seen, "live\n{}", disk.trace());
            prop_assert_eq!(&contents(&disk.image(Image::Everything)).unwrap(), &seen, "everything\n{}", disk.trace());
            prop_assert!(model.allows(&disk.image(Image::Nothing)), "nothing\n{}", disk.trace());
            for seed in 0..10 {
                prop_assert!(model.allows(&disk.image(Image::Random(seed))), "seed {seed}\n{}", disk.trace());
            }
        }
    }
    #[test]
    fn every_image_after_a_cut_is_possible(steps in steps(), cut in 0..30u64) {
        let disk = CrashDisk::new();
        disk.crash_after(cut);
        let mut model = Model::default();
        for (index, step) in steps.iter().enumerate() {
            let stamp = index as u8 + 1;
            match run(step, stamp, &disk) {
                Ok(()) => model.apply(step, stamp),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => {
                    model.apply_under_way(step, stamp);
                    break;
                }
            }
        }
        for image in [Image::Nothing, Image::Everything].into_iter().chain((0..50).map(Image::Random)) {
            prop_assert!(model.allows(&disk.image(image)), "{image:?}\n{}", disk.trace());
        }
    }
}
