//! The file of rejects: CSV with the file, the line, the reason and the text of each line that was left out.

use std::{
    fs::{OpenOptions, Permissions},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use super::row::Reject;
use crate::transfer::csv;

const PRIVATE: u32 = 0o600;
const HEADER: &str = "file,line,reason,text\n";

pub struct Rejects {
    out: BufWriter<std::fs::File>,
    bytes: u64,
}

impl Rejects {
    /// Keeps the first `kept` bytes of what is there, when an import goes on; otherwise begins anew. Its lines are other
    /// people's, so nobody but the owner reads it.
    pub fn open(path: &Path, kept: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(path)?;
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(PRIVATE))?;
        }
        let kept = kept.min(file.metadata()?.len());
        file.set_len(kept)?;
        file.seek(SeekFrom::End(0))?;
        let mut rejects = Self { out: BufWriter::new(file), bytes: kept };
        if kept == 0 {
            rejects.put(HEADER)?;
        }
        Ok(rejects)
    }

    pub(super) fn write(&mut self, file: &str, reject: &Reject) -> io::Result<()> {
        let mut line = String::new();
        csv::put(&mut line, file);
        line.push_str(&format!(",{},{},", reject.line, reject.reason.as_str()));
        csv::put(&mut line, &reject.text);
        line.push('\n');
        self.put(&line)
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.bytes += text.len() as u64;
        self.out.write_all(text.as_bytes())
    }

    /// Everything so far is in the file; how long it is.
    pub(super) fn flush(&mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}
