//! A store that a command opens while no server runs on it.

use std::{path::Path, sync::Arc};

use anyhow::{Context, anyhow};
use entourage_embedded::{Fault, Options, Store};
use entourage_model::{Code, Error};
use entourage_server::config::Settings;
use entourage_store::{
    SystemClock,
    disk::{Disk, RealDisk},
};

/// The folder of the embedded store.
pub(super) fn folder(settings: &Settings) -> anyhow::Result<&Path> {
    if settings.store_url == "embedded:" {
        return Ok(&settings.data_dir);
    }
    Err(Error::invalid("store.url names a store that is backed up with its own tools; this works on embedded: only")
        .into())
}

/// A folder that must exist.
pub(super) fn existing(folder: &Path, flag: &str) -> anyhow::Result<RealDisk> {
    if !folder.is_dir() {
        let detail = format!("there is no folder {}; name the right one with {flag}", folder.display());
        return Err(Error::new(Code::NotFound, detail).into());
    }
    RealDisk::new(folder).with_context(|| folder.display().to_string())
}

/// Opens an existing store and creates nothing: no store in an empty folder, no next segment, no checkpoint.
pub(super) fn open(settings: &Settings) -> anyhow::Result<Store> {
    let folder = folder(settings)?;
    let place = folder.display().to_string();
    let disk = existing(folder, "--data")?;
    if disk.list().with_context(|| place.clone())?.is_empty() {
        let detail = format!("there is no store in {place}; name its folder with --data");
        return Err(Error::new(Code::NotFound, detail).into());
    }
    let options = Options {
        checkpoint_entries: u64::MAX,
        prepare_ahead: false,
        seal_after: None,
        log_retention: settings.log_retention,
        log_retain_bytes: settings.log_retain_bytes,
        idempotency_ttl: settings.idempotency_ttl,
        history_retention: settings.history_retention,
        ..Options::default()
    };
    Store::open(Arc::new(disk), &place, options, Arc::new(SystemClock)).map_err(|fault| failed(fault, &place))
}

/// A fault as an error message; an unreadable store is a failure, not an unreachable server.
pub(super) fn failed(fault: Fault, place: &str) -> anyhow::Error {
    match fault.in_folder(place) {
        in_use @ Fault::InUse(_) => Error::from(in_use).into(),
        fault => anyhow!("{fault}"),
    }
}

/// Whether another process has the folder open.
pub(super) fn is_in_use(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref::<Fault>(), Some(Fault::InUse(_))))
}

/// Runs a store's tasks on this thread.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting threads")?.block_on(work)
}
