//! Records on standard error, written by a dedicated thread: a stalled reader must not block requests. Queued records
//! are written once the reader goes on.

use std::{
    io::Write,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{Handed, not_written};

/// The queue's capacity; records beyond it are lost and counted.
const WAITING_MAX: usize = 1_024;
/// How long process exit waits for queued records.
const END_TIMEOUT: Duration = Duration::from_secs(1);

struct Line {
    text: Vec<u8>,
    done: Option<oneshot::Sender<bool>>,
}

#[derive(Default)]
pub(super) struct StandardError {
    /// `None` if the thread could not be started.
    writer: OnceLock<Option<(SyncSender<Line>, JoinHandle<()>)>>,
    /// A record timed out, and none was written since.
    is_stalled: Arc<AtomicBool>,
}

impl StandardError {
    /// In the JSON form of the process log.
    pub(super) fn put(&self, time: &str, record: &[u8], tells: bool) -> Handed {
        let Some((writer, _)) = self.writer.get_or_init(|| self.start()) else { return Handed::Written(false) };
        let head = format!(r#"{{"timestamp":"{time}","level":"INFO","target":"audit","record":"#);
        let text = [head.as_bytes(), record, b"}\n"].concat();
        let (done, waits) = oneshot::channel();
        let is_stalled = self.is_stalled.load(Ordering::Acquire);
        let line = Line { text, done: (tells && !is_stalled).then_some(done) };
        match writer.try_send(line) {
            Err(_) => Handed::Written(false),
            Ok(()) if tells && !is_stalled => Handed::Waiting(waits),
            // It is written if the reader goes on, but too late for this response.
            Ok(()) => Handed::Written(!tells),
        }
    }

    pub(super) fn stalled(&self) {
        self.is_stalled.store(true, Ordering::Release);
    }

    fn start(&self) -> Option<(SyncSender<Line>, JoinHandle<()>)> {
        let (sender, lines) = sync_channel(WAITING_MAX);
        let is_stalled = Arc::clone(&self.is_stalled);
        let started = Builder::new().name("audit".to_owned()).spawn(move || write(&lines, &is_stalled));
        Some((sender, started.ok()?))
    }
}

fn write(lines: &Receiver<Line>, is_stalled: &AtomicBool) {
    for Line { text, done } in lines {
        entourage_store::fail_point("audit-writer");
        // One write per line, because other threads write here too.
        let is_written = std::io::stderr().write_all(&text).is_ok();
        is_stalled.store(false, Ordering::Release);
        match done {
            Some(done) => drop(done.send(is_written)),
            None if !is_written => not_written(),
            None => {}
        }
    }
}

impl Drop for StandardError {
    fn drop(&mut self) {
        let Some(Some((sender, thread))) = self.writer.take() else { return };
        drop(sender);
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
