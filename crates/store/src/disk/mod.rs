//! The file layer under the embedded store: a flat folder of named files behind a trait, so that tests can
//! crash, tear, reorder and refuse what a real disk would.
//!
//! What a caller may rely on after a power cut, and nothing else:
//! - bytes written before a `sync` of that file that returned `Ok`;
//! - names created, renamed or removed before a `sync_folder` that returned `Ok`.

mod real;

use std::{io, sync::Arc, thread};

pub use real::RealDisk;

/// A folder of files. Names have no separators.
pub trait Disk: Send + Sync + 'static {
    /// A new, empty file; an existing one of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Names in order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Replaces `to` atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync_folder(&self) -> io::Result<()>;

    /// Locks out other processes for as long as the guard lives. `WouldBlock`: another process has the lock.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;
}

/// An open file.
pub trait DiskFile: Send + Sync + 'static {
    /// Fills as much of `buffer` as the file has at `offset`; fewer bytes mean the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As `read_at`, of bytes that are in memory: [`io::ErrorKind::WouldBlock`] where it would have to wait for the disk.
    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes`, growing the file as needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Starts writeback of these bytes, so that a later `sync` has less to do. Promises nothing.
    fn begin_sync(&self, _offset: u64, _length: u64) {}

    /// Starts reading the file into memory, so that later reads wait less. Promises nothing.
    fn begin_read(&self) {}

    /// Makes everything written to this file durable. After an error the state of all of it is unknown.
    fn sync(&self) -> io::Result<()>;

    /// `write_at` and `sync` of at least these bytes, as one system call where there is one.
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()
    }

    fn size(&self) -> io::Result<u64>;

    fn set_size(&self, size: u64) -> io::Result<()>;
}

/// Reads exactly `length` bytes, or reports what is missing.
pub fn read_exact_at(file: &dyn DiskFile, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    exactly(length, offset, |buffer| file.read_at(buffer, offset))
}

/// As [`read_exact_at`], of bytes that are in memory.
pub fn try_read_exact_at(file: &dyn DiskFile, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    exactly(length, offset, |buffer| file.try_read_at(buffer, offset))
}

fn exactly(length: usize, offset: u64, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let read = read(&mut buffer)?;
    if read < length {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("wanted {length} bytes at {offset}, the file ends after {read}"),
        ));
    }
    Ok(buffer)
}

/// A file of more than this is read by two threads: to get the memory for it takes as long as to read it.
const READ_IN_HALVES: usize = 64 << 20;

/// A whole file.
pub fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.size()?).map_err(io::Error::other)?;
    if size <= READ_IN_HALVES {
        return read_exact_at(file, size, 0);
    }
    exactly(size, 0, |buffer| {
        let (first, second) = buffer.split_at_mut(size / 2);
        let at = first.len() as u64;
        thread::scope(|scope| {
            let second = scope.spawn(|| file.read_at(second, at));
            let first = file.read_at(first, 0)?;
            let second = second.join().map_err(|_| io::Error::other("the thread that reads a file ended"))??;
            Ok(first + second)
        })
    })
}
