//! The operating system's files.

use std::{
    fs, io,
    num::NonZeroU64,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Disk, DiskFile};

const LOCK_NAME: &str = "LOCK";

/// An error of the system is of little use without the file it is about.
fn naming(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn is_there(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || folder.is_dir()
}

/// A folder of the file system, readable by its owner only.
#[derive(Clone, Debug)]
pub struct RealDisk {
    folder: PathBuf,
}

impl RealDisk {
    /// Creates the folder when it is missing.
    pub fn new(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let missing: Vec<&Path> = folder.ancestors().take_while(|part| !is_there(part)).collect();
        for part in missing.into_iter().rev() {
            fs::DirBuilder::new().mode(0o700).create(part).map_err(naming(part))?;
            // A new name is durable only once its parent folder is.
            let parent = part.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(naming(parent))?;
        }
        Ok(Self { folder })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn open_with(&self, name: &str, options: &mut fs::OpenOptions) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        let file = options.open(&path).map_err(naming(&path))?;
        let (durable_writes, cached_reads) = (AtomicBool::new(true), AtomicBool::new(true));
        Ok(Arc::new(RealFile { file, path, durable_writes, cached_reads }))
    }

    fn options() -> fs::OpenOptions {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_with(name, Self::options().create(true).truncate(true))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_with(name, &mut Self::options())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let naming = naming(&self.folder);
        for entry in fs::read_dir(&self.folder).map_err(&naming)? {
            let entry = entry.map_err(&naming)?;
            if entry.file_type().map_err(&naming)?.is_file() {
                names.extend(entry.file_name().into_string().ok().filter(|name| name != LOCK_NAME));
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to)).map_err(naming(&self.path(to)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)).map_err(naming(&self.path(name)))
    }

    fn sync_folder(&self) -> io::Result<()> {
        fs::File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(naming(&self.folder))
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let path = self.path(LOCK_NAME);
        let file = Self::options().create(true).truncate(false).open(&path).map_err(naming(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(naming(&path)(error)),
        }
    }
}

struct RealFile {
    file: fs::File,
    /// The name it was opened by, for messages.
    path: PathBuf,
    /// Cleared when the file system does not support durable writes; then `fdatasync` is used.
    durable_writes: AtomicBool,
    /// Cleared when the file system cannot tell whether a read would wait; every read may then.
    cached_reads: AtomicBool,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(naming(&self.path)(error)),
            }
        }
        Ok(filled)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if !self.cached_reads.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut slices = [io::IoSliceMut::new(&mut buffer[filled..])];
            let at = offset + filled as u64;
            match rustix::io::preadv2(&self.file, &mut slices, at, rustix::io::ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {
                    self.cached_reads.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(naming(&self.path)(error.into())),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset).map_err(naming(&self.path))
    }

    /// Linux starts writeback of dirty pages that are advised as unneeded; pages under writeback stay in memory.
    fn begin_sync(&self, offset: u64, length: u64) {
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(length), rustix::fs::Advice::DontNeed);
    }

    fn begin_read(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::WillNeed);
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(naming(&self.path))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.durable_writes.load(Ordering::Relaxed) {
            let slices = [io::IoSlice::new(bytes)];
            match rustix::io::pwritev2(&self.file, &slices, offset, rustix::io::ReadWriteFlags::DSYNC) {
                Ok(written) if written == bytes.len() => return Ok(()),
                // After a short write the rest takes the two-step way, which syncs all of it.
                Ok(_) => {}
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {
                    self.durable_writes.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(naming(&self.path)(error.into())),
            }
        }
        self.write_at(bytes, offset)?;
        self.sync()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(naming(&self.path))?.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size).map_err(naming(&self.path))
    }
}
