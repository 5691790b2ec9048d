//! The real binary with a clock that a test sets, by `libfaketime`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts it, or where `ENTOURAGE_TEST_FAKETIME` says that it is.
pub(crate) fn libfaketime() -> PathBuf {
    if let Some(library) = std::env::var_os("ENTOURAGE_TEST_FAKETIME") {
        return library.into();
    }
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("libfaketime is needed; install the package faketime")
}

/// Time that passes is not faked, only what the clock on the wall says.
pub(crate) fn faked<'a>(command: &'a mut Command, library: &Path) -> &'a mut Command {
    command.env("LD_PRELOAD", library).env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
}

/// The clock of one process, off by what its file says from one reading to the next.
pub(crate) struct Offset(PathBuf);

impl Offset {
    pub(crate) fn new(file: PathBuf) -> Self {
        let offset = Self(file);
        offset.set("+0");
        offset
    }

    /// `+10m`, `-1h`, `+8d`: as libfaketime reads it.
    pub(crate) fn set(&self, by: &str) {
        // Renamed into place: no process reads half of it.
        let fresh = self.0.with_extension("new");
        std::fs::write(&fresh, by).unwrap();
        std::fs::rename(fresh, &self.0).unwrap();
    }

    pub(crate) fn apply<'a>(&self, command: &'a mut Command, library: &Path) -> &'a mut Command {
        faked(command, library).env("FAKETIME_TIMESTAMP_FILE", &self.0).env("FAKETIME_NO_CACHE", "1")
    }
}
