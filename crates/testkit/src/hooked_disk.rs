//! A wrapper of a disk that a test can intercept: to count, to wait, to refuse.

use std::{io, sync::Arc};

use entourage_store::disk::{Disk, DiskFile};

/// Interception points; methods left out are passed through.
pub trait DiskHooks: Send + Sync + 'static {
    fn create(&self, inner: &dyn Disk, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        inner.create(name)
    }

    fn rename(&self, inner: &dyn Disk, from: &str, to: &str) -> io::Result<()> {
        inner.rename(from, to)
    }

    fn read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        inner.read_at(buffer, offset)
    }

    fn try_read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        inner.try_read_at(buffer, offset)
    }
}

pub struct HookedDisk<H> {
    inner: Arc<dyn Disk>,
    hooks: Arc<H>,
}

impl<H: DiskHooks> HookedDisk<H> {
    pub fn over(inner: impl Disk, hooks: &Arc<H>) -> Arc<Self> {
        Arc::new(Self { inner: Arc::new(inner), hooks: Arc::clone(hooks) })
    }

    fn file(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile { inner, hooks: Arc::clone(&self.hooks) })
    }
}

impl<H: DiskHooks> Disk for HookedDisk<H> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.hooks.create(&*self.inner, name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.hooks.rename(&*self.inner, from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.inner.sync_folder()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.inner.lock()
    }
}

struct HookedFile<H> {
    inner: Arc<dyn DiskFile>,
    hooks: Arc<H>,
}

impl<H: DiskHooks> DiskFile for HookedFile<H> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hooks.read_at(&*self.inner, buffer, offset)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hooks.try_read_at(&*self.inner, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn begin_read(&self) {
        self.inner.begin_read();
    }

    fn begin_sync(&self, offset: u64, length: u64) {
        self.inner.begin_sync(offset, length);
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_durable_at(bytes, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }
}
