//! While the power is on, the test disk behaves like a real one.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;

use super::{
    model::{contents, run, steps},
    *,
};
use entourage_store::disk::RealDisk;

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("entourage-disk-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_same_calls_show_the_same_files(steps in steps()) {
        let folder = Folder::new();
        let (real, double) = (RealDisk::new(&folder.0).unwrap(), CrashDisk::new());
        for (index, step) in steps.iter().enumerate() {
            let kinds = [&real as &dyn Disk, &double].map(|disk| run(step, index as u8 + 1, disk).map_err(|error| error.kind()));
            prop_assert_eq!(kinds[0], kinds[1], "{:?}", step);
            prop_assert_eq!(contents(&real).unwrap(), contents(&double).unwrap(), "{:?}", step);
        }
    }
}
