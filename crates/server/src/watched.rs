//! Files that are read again when they change, so that keys and certificates can be replaced without a restart. What
//! cannot be read or makes no sense is reported, and what was there before stays.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch;

use crate::config::ConfigError;

/// How often somebody looks, at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

type Stamp = Vec<Option<(SystemTime, u64, u64)>>;
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

pub(crate) struct Watched<T> {
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    current: watch::Sender<Arc<T>>,
    looked: std::sync::Mutex<(Instant, Stamp)>,
}

impl<T> Watched<T> {
    /// Reads for the first time; now an error is an error. `parse` says what is wrong without showing the content.
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        let stamp = stamp(&paths);
        let parse: Parse<T> = Box::new(parse);
        let first = read(&paths, &parse)?;
        Ok(Self { paths, parse, current: watch::Sender::new(Arc::new(first)), looked: (Instant::now(), stamp).into() })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        // Whoever finds somebody looking goes on with what is there.
        if let Ok(mut looked) = self.looked.try_lock()
            && looked.0.elapsed() >= LOOK_INTERVAL
        {
            let now = stamp(&self.paths);
            if now != looked.1 {
                self.reload();
            }
            *looked = (Instant::now(), now);
        }
        Arc::clone(&self.current.borrow())
    }

    pub(crate) fn reload(&self) {
        match read(&self.paths, &self.parse) {
            Ok(fresh) => {
                self.current.send_replace(Arc::new(fresh));
                tracing::info!(file = %names(&self.paths), "read again");
            }
            Err(error) => tracing::error!(%error, "cannot be read again; what was there before stays"),
        }
    }
}

fn read<T>(paths: &[PathBuf], parse: &Parse<T>) -> Result<T, ConfigError> {
    let broken = |file: String, detail: String| ConfigError::File { file, detail };
    let content = |path: &PathBuf| {
        fs::read(path).map_err(|error: io::Error| broken(path.display().to_string(), error.to_string()))
    };
    let contents = paths.iter().map(content).collect::<Result<Vec<_>, _>>()?;
    parse(&contents).map_err(|detail| broken(names(paths), detail))
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
