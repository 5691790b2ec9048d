//! How far an import has come, in a file beside the data: written after what it tells of is durable.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use entourage_model::{EventPositions, Lineage, Millis, RecordId, Result, Sequence};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Import, Tally};

const FORMAT: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    format: u32,
    /// When it began: the position of edges without a time.
    pub(super) now: u64,
    /// The file that is being read, by its place among the named ones.
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) line: u64,
    /// The newest event when this was noted, in the first partition.
    sequence: u64,
    /// In every partition, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    positions: Option<String>,
    /// How long the file of rejects was.
    pub(super) rejects_bytes: u64,
    /// One for each file so far.
    pub(super) tallies: Vec<Tally>,
}

impl Progress {
    /// The newest event when this was noted.
    pub(super) fn positions(&self) -> EventPositions {
        let one = || EventPositions::new(Lineage::default(), [Sequence(self.sequence)]);
        self.positions.as_deref().and_then(EventPositions::from_text).unwrap_or_else(one)
    }

    pub(super) fn note(&mut self, positions: &EventPositions) {
        self.sequence = positions.offset(0).0;
        let is_one = positions.partitions().count() == 1 && positions.lineage() == Lineage::default();
        self.positions = (!is_one).then(|| positions.to_text());
    }
}

pub struct ProgressFile {
    path: PathBuf,
    /// Of the import's options and of what it reads.
    print: u64,
    pub(super) progress: Progress,
    pub(super) is_resumed: bool,
}

impl ProgressFile {
    /// Goes on with what is noted for this very import, or begins. `None` for input that cannot be read twice.
    pub fn open(folder: &Path, import: &Import) -> io::Result<Option<Self>> {
        let mut parts = format!("{:?} {} {:?}", import.form, import.create_users, import.following_max);
        for source in &import.sources {
            let Some(print) = source.print()? else { return Ok(None) };
            parts.push_str(&format!(" {print:016x}"));
        }
        fs::create_dir_all(folder)?;
        let print = xxh3_64(parts.as_bytes());
        let path = folder.join(format!("import-{print:016x}.json"));
        let noted = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Progress>(&bytes).ok());
        let noted = noted.filter(|progress| progress.format == FORMAT);
        let is_resumed = noted.is_some();
        let fresh = || Progress { format: FORMAT, now: import.now.since_2000(), ..Progress::default() };
        Ok(Some(Self { path, print, progress: noted.unwrap_or_else(fresh), is_resumed }))
    }

    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// How much of the file of rejects belongs to what is noted.
    pub fn rejects_bytes(&self) -> u64 {
        self.progress.rejects_bytes
    }

    /// Lines of the file being read that are noted as done.
    pub fn lines(&self) -> u64 {
        self.progress.tallies.last().map_or(0, |tally| tally.lines)
    }

    /// Names this import among all: when it began, the later one first, and what it reads.
    pub(super) fn id(&self) -> Result<RecordId> {
        let mut bytes = (!self.progress.now).to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.print.to_be_bytes());
        RecordId::new(&bytes)
    }

    pub(super) fn now(&self) -> Millis {
        Millis::from_since_2000(self.progress.now)
    }

    pub(super) fn save(&self) -> io::Result<()> {
        let unfinished = self.path.with_extension("tmp");
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(&self.progress)?)?;
        file.sync_data()?;
        fs::rename(&unfinished, &self.path)
    }

    /// After the end has been told: the same files again are a new import.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        // Other imports may have notes there.
        let _ = self.path.parent().map(fs::remove_dir);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_position_is_a_number_and_several_read_back() {
        let noted = |text: &str| serde_json::from_str::<Progress>(text).unwrap();
        let mut progress = Progress { sequence: 7, ..Progress::default() };
        let written = serde_json::to_string(&progress).unwrap();
        assert!(written.contains(r#""sequence":7"#) && !written.contains("positions"), "{written}");
        assert_eq!(noted(&written).positions(), EventPositions::new(Lineage(0), [Sequence(7)]));
        for positions in [
            EventPositions::new(Lineage(0), [Sequence(9)]),
            EventPositions::new(Lineage(2), [Sequence(9)]),
            EventPositions::new(Lineage(0), [4, 0, 8].map(Sequence)),
        ] {
            progress.note(&positions);
            assert_eq!(noted(&serde_json::to_string(&progress).unwrap()).positions(), positions);
        }
    }
}
