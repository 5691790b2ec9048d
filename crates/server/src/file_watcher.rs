//! Files that are reloaded when they change, so that keys and certificates can be replaced without a restart. If a new
//! version cannot be read or parsed, the error is reported, the previous one stays in use, and reading is retried.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use metrics::gauge;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::config::ConfigError;

/// How often files are checked, at most.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A file that changes twice within one tick of the file system's clock has the same stamp after both, so a new file is
/// reread for this long.
const TICK_MAX: Duration = Duration::from_secs(2);

type Stamp = Vec<Option<(SystemTime, u64, u64)>>;
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

pub(crate) struct FileWatcher<T> {
    /// The setting that names the files.
    setting: &'static str,
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    current: watch::Sender<Arc<T>>,
    last: Mutex<LastCheck>,
}

/// The last check.
struct LastCheck {
    at: Instant,
    /// Stamp of the files that were read.
    stamp: Stamp,
    /// When that stamp was first seen.
    since: Instant,
    digest: [u8; 32],
    /// Why the current files could not be read.
    failure: Option<String>,
}

impl<T> FileWatcher<T> {
    /// Reads the files for the first time, where an error is final. `parse` describes errors without showing content.
    pub(crate) fn open(
        setting: &'static str,
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        let (parse, stamp, now): (Parse<T>, _, _) = (Box::new(parse), stamp(&paths), Instant::now());
        let (first, digest) = read(&paths, &parse)?;
        let last = LastCheck { at: now, stamp, since: now, digest, failure: None };
        Ok(Self { setting, paths, parse, current: watch::Sender::new(Arc::new(first)), last: last.into() })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        // If another thread is checking, use the current value.
        if let Ok(mut last) = self.last.try_lock() {
            self.check(&mut last);
        }
        Arc::clone(&self.current.borrow())
    }

    pub(crate) fn reload(&self) {
        if let Ok(mut last) = self.last.lock() {
            self.reload_changed(&mut last, stamp(&self.paths));
        }
    }

    /// The [`digest`] of the files in use.
    pub(crate) fn digest(&self) -> Option<String> {
        let mut last = self.last.lock().ok()?;
        self.check(&mut last);
        Some(short(&last.digest))
    }

    /// The setting, if its files cannot be reloaded and older content is in use.
    pub(crate) fn stale(&self) -> Option<&'static str> {
        let mut last = self.last.lock().ok()?;
        self.check(&mut last);
        last.failure.is_some().then_some(self.setting)
    }

    fn check(&self, last: &mut LastCheck) {
        if last.at.elapsed() < CHECK_INTERVAL {
            return;
        }
        let now = stamp(&self.paths);
        // Retry after a failure: a change of permissions alone does not change the stamp.
        if now != last.stamp || last.since.elapsed() < TICK_MAX || last.failure.is_some() {
            self.reload_changed(last, now);
        }
        last.at = Instant::now();
    }

    /// The stamp is taken before reading: a change meanwhile is found by the next check.
    fn reload_changed(&self, last: &mut LastCheck, stamp: Stamp) {
        match read(&self.paths, &self.parse) {
            Ok((fresh, digest)) => {
                if last.stamp != stamp {
                    (last.stamp, last.since) = (stamp, Instant::now());
                }
                if last.digest != digest || last.failure.is_some() {
                    self.current.send_replace(Arc::new(fresh));
                    tracing::info!(file = %names(&self.paths), "read again");
                }
                (last.digest, last.failure) = (digest, None);
            }
            Err(error) => {
                let error = error.to_string();
                if last.failure.as_ref() != Some(&error) {
                    tracing::error!(%error, "cannot be read again; what was there before stays");
                }
                last.failure = Some(error);
            }
        }
        let stale = if last.failure.is_some() { 1.0 } else { 0.0 };
        gauge!("entourage_credentials_stale", "setting" => self.setting).set(stale);
    }
}

/// Identifies a version of a file without revealing its content.
pub fn digest(bytes: &[u8]) -> String {
    short(&Sha256::digest(bytes).into())
}

fn short(digest: &[u8; 32]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn read<T>(paths: &[PathBuf], parse: &Parse<T>) -> Result<(T, [u8; 32]), ConfigError> {
    let broken = |file: String, detail: String| ConfigError::File { file, detail };
    let content = |path: &PathBuf| {
        fs::read(path).map_err(|error: io::Error| broken(path.display().to_string(), error.to_string()))
    };
    let contents = paths.iter().map(content).collect::<Result<Vec<_>, _>>()?;
    let value = parse(&contents).map_err(|detail| broken(names(paths), detail))?;
    Ok((value, Sha256::digest(contents.concat()).into()))
}

fn stamp(paths: &[PathBuf]) -> Stamp {
    let one = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(one).collect()
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct File(PathBuf);

    impl File {
        fn new(text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("entourage-watched-{:032x}", rand::random::<u128>()));
            fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn watched(file: &File, refuses: &Arc<AtomicBool>) -> FileWatcher<String> {
        let refuses = Arc::clone(refuses);
        let parse = move |files: &[Vec<u8>]| match refuses.load(Ordering::SeqCst) {
            true => Err("not now".to_owned()),
            false => Ok(String::from_utf8(files.concat()).unwrap()),
        };
        FileWatcher::open("some.file", vec![file.0.clone()], parse).unwrap()
    }

    fn wait() {
        std::thread::sleep(CHECK_INTERVAL);
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_though_it_looks_the_same() {
        let (file, refuses) = (File::new("one"), Arc::default());
        let watched = watched(&file, &refuses);
        assert_eq!((&**watched.get(), watched.stale()), ("one", None));
        refuses.store(true, Ordering::SeqCst);
        fs::write(&file.0, "two, and longer").unwrap();
        wait();
        assert_eq!((&**watched.get(), watched.stale()), ("one", Some("some.file")), "what was there before stays");
        assert_eq!(watched.digest(), Some(digest(b"one")));
        refuses.store(false, Ordering::SeqCst);
        wait();
        assert_eq!((&**watched.get(), watched.stale()), ("two, and longer", None));
        assert_eq!(watched.digest(), Some(digest(b"two, and longer")));
        fs::remove_file(&file.0).unwrap();
        wait();
        assert_eq!((&**watched.get(), watched.stale()), ("two, and longer", Some("some.file")));
    }

    #[test]
    fn a_change_that_leaves_no_trace_is_read() {
        let (file, refuses) = (File::new("one"), Arc::default());
        let watched = watched(&file, &refuses);
        let before = fs::metadata(&file.0).unwrap().modified().unwrap();
        fs::write(&file.0, "two").unwrap();
        fs::File::options().write(true).open(&file.0).unwrap().set_modified(before).unwrap();
        wait();
        assert_eq!(&**watched.get(), "two");
    }
}
