//! The key file: changed by one command at a time, through symbolic links, with owner and mode kept, so that the server
//! can still read it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use entourage_server::auth::{ServiceKey, digest, parse_keys};

/// The locked file: no other command changes it until this is dropped.
pub(super) struct KeyFile {
    /// The resolved path: a link stays a link.
    path: PathBuf,
    held: File,
    pub(super) text: String,
    pub(super) keys: Vec<ServiceKey>,
}

/// The keys of a file and its digest, without locking; a missing file has none.
pub(super) fn read(path: &Path) -> anyhow::Result<(Vec<ServiceKey>, String)> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| path.display().to_string())?,
    };
    Ok((keys_of(path, &text)?, digest(text.as_bytes())))
}

fn keys_of(path: &Path, text: &str) -> anyhow::Result<Vec<ServiceKey>> {
    match parse_keys(text) {
        Ok(keys) => Ok(keys),
        Err(detail) => bail!("{}: {detail}", path.display()),
    }
}

impl KeyFile {
    /// Waits for the lock. `None` if the file is missing and must not be created.
    pub(super) fn hold(path: &Path, make: bool) -> anyhow::Result<Option<Self>> {
        let named = || path.display().to_string();
        loop {
            let opened = OpenOptions::new().read(true).append(true).create(make).mode(0o600).open(path);
            let mut held = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
                opened => opened.with_context(named)?,
            };
            held.lock().with_context(named)?;
            let real = fs::canonicalize(path).with_context(named)?;
            let (mine, now) = (held.metadata().with_context(named)?, fs::metadata(&real).with_context(named)?);
            // The previous holder has replaced the file.
            if (mine.dev(), mine.ino()) != (now.dev(), now.ino()) {
                continue;
            }
            let mut text = String::new();
            held.read_to_string(&mut text).with_context(named)?;
            let keys = keys_of(path, &text)?;
            return Ok(Some(Self { path: real, held, text, keys }));
        }
    }

    pub(super) fn digest(&self) -> String {
        digest(self.text.as_bytes())
    }

    /// Replaces the file atomically: a server sees the old file or the new one. Returns the new digest.
    pub(super) fn replace(self, text: &str) -> anyhow::Result<String> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let fresh = PathBuf::from(name);
        let written = self.write(&fresh, text);
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        written.with_context(|| format!("writing {}", self.path.display()))?;
        Ok(digest(text.as_bytes()))
    }

    fn write(&self, fresh: &Path, text: &str) -> io::Result<()> {
        // Left by a command that was killed; the lock makes removal safe.
        match fs::remove_file(fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
        let (old, new) = (self.held.metadata()?, file.metadata()?);
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            let kept = fchown(&file, Some(old.uid()), Some(old.gid()));
            kept.map_err(|error| io::Error::new(error.kind(), format!("its owner cannot be kept: {error}")))?;
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(fresh, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}
