//! What happens to files: a bit flips, an end is cut off, sectors and pages turn to zeros, another file stands in its place,
//! or none.

use std::fmt;

use super::world::{Files, World};

/// How names of files begin, for each kind of file that a store has. A store with a file of another kind, or without one of
/// these, fails the campaign: every kind has its row.
pub(crate) const KINDS: [&str; 9] =
    ["identity", "seals", "log-", "checkpoint-", "users-", "following-", "followers-", "documents-", "idempotency-"];

pub(crate) fn kind_of(name: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| name.starts_with(kind))
}

#[derive(Clone)]
pub(crate) struct Harm {
    pub(crate) file: String,
    what: String,
    /// `None`: the file is gone.
    contents: Option<Vec<u8>>,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.what)
    }
}

impl Harm {
    fn new(file: &str, what: impl Into<String>, contents: Option<Vec<u8>>) -> Self {
        Self { file: file.to_owned(), what: what.into(), contents }
    }

    pub(crate) fn done_to(&self, files: &Files) -> Files {
        let mut files = files.clone();
        match &self.contents {
            Some(contents) => drop(files.insert(self.file.clone(), contents.clone())),
            None => drop(files.remove(&self.file)),
        }
        files
    }
}

/// Everything that is done to one file. `step` thins out flips and cuts.
pub(crate) fn harms(world: &World, file: &str, step: usize) -> Vec<Harm> {
    let bytes = &world.files[file];
    let mut harms = vec![Harm::new(file, "deleted", None)];
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // More at the ends, where headers and the newest records stand.
    let edges = (0..used * 8).filter(|bit| *bit < 64 || bit + 64 > used * 8).step_by(7);
    for bit in edges.chain((0..used * 8).step_by(step)) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        harms.push(Harm::new(file, format!("bit {bit} flipped"), Some(flipped)));
    }
    // Records of 96 bytes, sectors, pages, and anywhere.
    let ends = [96, 512, 4_096, 1 + step / 4].into_iter().flat_map(|every| (0..bytes.len()).step_by(every));
    let thin = |end: &usize| *end < 2_000 || end + 1_000 > bytes.len() || end.is_multiple_of(4_096);
    for end in ends.filter(thin).chain([bytes.len().saturating_sub(1)]) {
        harms.push(Harm::new(file, format!("cut to {end} bytes"), Some(bytes[..end].to_vec())));
    }
    for length in [512, 4_096] {
        for start in (0..bytes.len()).step_by(length) {
            let mut zeroed = bytes.clone();
            let end = (start + length).min(zeroed.len());
            zeroed[start..end].fill(0);
            if zeroed != *bytes {
                harms.push(Harm::new(file, format!("{length} bytes zeroed at {start}"), Some(zeroed)));
            }
        }
    }
    harms.extend(swaps(world, file));
    harms
}

/// The file as it was before, and others of its kind in its place, older ones and those of today.
fn swaps(world: &World, file: &str) -> Vec<Harm> {
    let same_kind = |files: &Files| -> Vec<(String, Vec<u8>)> {
        let same = files.iter().filter(|(name, _)| kind_of(name) == kind_of(file));
        same.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    };
    let (older, today) = (same_kind(&world.older), same_kind(&world.files));
    let older = older.into_iter().map(|(name, bytes)| (format!("swapped with the older {name}"), bytes));
    let today = today.into_iter().map(|(name, bytes)| (format!("swapped with {name}"), bytes));
    let other = older.chain(today).filter(|(_, bytes)| *bytes != world.files[file]);
    other.map(|(what, bytes)| Harm::new(file, what, Some(bytes))).collect()
}
