//! An open file of the test disk.

use std::{io, sync::Arc};

use parking_lot::Mutex;

use super::{content::Content, folder::FileNumber, state::State};
use entourage_store::disk::DiskFile;

/// Keeps working after its file is renamed or removed.
pub(super) struct CrashFile {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) number: FileNumber,
}

impl DiskFile for CrashFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.alive()?;
        Ok(state.file(self.number)?.content.live.read(buffer, offset))
    }

    /// All of it is in memory.
    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.state.lock().write(self.number, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.state.lock().sync(self.number, Content::sync)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // One lock for both steps: another thread's write in between would be the newest.
        let mut state = self.state.lock();
        state.write(self.number, bytes, offset)?;
        if bytes.is_empty() {
            return Ok(());
        }
        state.sync(self.number, Content::sync_newest)
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.alive()?;
        Ok(state.file(self.number)?.content.live.size())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.state.lock().set_size(self.number, size)
    }
}
