//! The reading thread: lines in, chunks of rows out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use entourage_model::{Clock, Code, Error, KeyHasher, Result};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{
    Form, Source,
    dialect::Dialect,
    head::Head,
    lines::{FilePosition, Line, Lines},
    parse::Parser,
    row::{Entry, Reason, Reject, Row},
    time::Times,
};

/// Chunks read ahead.
const READ_AHEAD: usize = 4;

/// Rows of a chunk. Each can take three writes (two users, one edge), and a few chunks are on their way at a time:
/// together they stay below what a store takes in at once.
pub(super) const CHUNK_ROWS: usize = 5_000;
/// A chunk of long lines ends earlier.
const CHUNK_TEXT_BYTES: usize = 4 << 20;

pub(super) struct Chunk {
    pub(super) rows: Vec<Row>,
    pub(super) rejects: Vec<Reject>,
    /// The lines of the rows, for rejects that are known only later.
    pub(super) text: Vec<u8>,
    /// Lines with content.
    pub(super) lines: u64,
    /// After its last line.
    pub(super) end: FilePosition,
}

impl Chunk {
    fn new() -> Self {
        let text = Vec::with_capacity(CHUNK_ROWS * 32);
        Self { rows: Vec::with_capacity(CHUNK_ROWS), rejects: Vec::new(), text, lines: 0, end: FilePosition::default() }
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.rejects.len() >= CHUNK_ROWS || self.text.len() >= CHUNK_TEXT_BYTES
    }

    pub(super) fn reject(&self, row: &Row, reason: Reason) -> Reject {
        Reject::new(row.line, reason, self.text.get(row.text.clone()).unwrap_or_default())
    }

    fn take(&mut self, line: Line<'_>, number: u64, parser: &mut Parser, undirected: bool) {
        let text = match line {
            Line::Whole(text) if parser.is_blank(text) => return,
            Line::Whole(text) => text,
            Line::TooLong(start) => {
                self.lines += 1;
                return self.rejects.push(Reject::new(number, Reason::LineTooLong, start));
            }
        };
        self.lines += 1;
        match parser.parse(text) {
            Ok(entry) => {
                let start = self.text.len();
                self.text.extend_from_slice(text);
                let text = start..self.text.len();
                let back = if undirected { entry.turned() } else { None };
                for entry in [Some(entry), back].into_iter().flatten() {
                    self.rows.push(Row { line: number, text: text.clone(), entry });
                }
            }
            Err(reason) => self.rejects.push(Reject::new(number, reason, text)),
        }
    }
}

impl Entry {
    /// The same pair from the other end; nobody's own is another one.
    fn turned(&self) -> Option<Self> {
        match self {
            Self::Edge { follower, target, at, quiet } if follower.key != target.key => {
                let (follower, target) = (target.clone(), follower.clone());
                Some(Self::Edge { follower, target, at: *at, quiet: *quiet })
            }
            _ => None,
        }
    }
}

/// Chunks as they are read, in the order of the file.
pub(super) struct Chunks {
    receiver: mpsc::Receiver<Result<Chunk>>,
    reader: Option<JoinHandle<()>>,
    name: String,
    pub(super) read: Arc<AtomicU64>,
}

impl Chunks {
    pub(super) fn of(reading: Reading) -> Self {
        let (name, read) = (reading.source.name(), Arc::clone(&reading.read));
        Self::made_by(name, read, move |chunks| {
            entourage_store::fail_point("import");
            reading.run(chunks);
        })
    }

    /// The thread ends when the receiver is gone, so nobody has to wait for it.
    fn made_by(
        name: String,
        read: Arc<AtomicU64>,
        work: impl FnOnce(&mpsc::Sender<Result<Chunk>>) + Send + 'static,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let reader = Some(tokio::task::spawn_blocking(move || work(&sender)));
        Self { receiver, reader, name, read }
    }

    /// `None` at the end of the file. A reader that stopped for any other reason is an error, never an end.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>> {
        if let Some(chunk) = self.receiver.recv().await {
            return chunk.map(Some);
        }
        let Some(reader) = self.reader.take() else { return Ok(None) };
        reader.await.map(|()| None).map_err(|error| {
            let detail = format!("reading {} broke off, and what stands behind is not imported", self.name);
            Error::internal(detail).caused_by(error)
        })
    }
}

/// What to read, and from where on.
pub(super) struct Reading {
    pub(super) source: Source,
    pub(super) form: Form,
    pub(super) from: FilePosition,
    pub(super) keys: KeyHasher,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) read: Arc<AtomicU64>,
}

impl Reading {
    /// Ends with the file, with an error, or when nobody takes chunks any more.
    fn run(&self, chunks: &mpsc::Sender<Result<Chunk>>) {
        if let Err(error) = self.read_all(chunks) {
            // Nobody is left to be told.
            let _ = chunks.blocking_send(Err(error));
        }
    }

    fn read_all(&self, chunks: &mpsc::Sender<Result<Chunk>>) -> Result<()> {
        let failed = |error: io::Error| unreadable(&self.source, &error);
        let mut lines = Lines::new(self.source.open(&self.read).map_err(failed)?, FilePosition::default());
        let Some(head) = Head::read(&mut lines, self.form.format).map_err(failed)? else { return Ok(()) };
        let dialect = Dialect::of(&head, &self.form)
            .map_err(|error| Error::new(error.code(), format!("{}: {}", self.source.name(), error.detail())))?;
        let times = Times { now: self.clock.now(), clamps: self.form.clamps_times };
        let mut parser = Parser::new(dialect.style, self.keys.clone(), times);
        let mut chunk = Chunk::new();
        let undirected = self.form.undirected;
        if self.from.offset > lines.stand().offset {
            self.read.store(0, Ordering::Relaxed);
            let mut text = self.source.open(&self.read).map_err(failed)?;
            text.skip_to(self.from.offset).map_err(failed)?;
            lines = Lines::new(text, self.from);
        } else {
            let is_open = |stand: &FilePosition| stand.offset > self.from.offset;
            for line in head.lines.iter().skip(usize::from(dialect.skips_first)).filter(|line| is_open(&line.stand)) {
                chunk.take(line.line(), line.stand.line, &mut parser, undirected);
            }
        }
        loop {
            let number = lines.stand().line + 1;
            let line = lines.read();
            let at_end = !matches!(line, Ok(Some(_)));
            let error = match line {
                Ok(Some(line)) => {
                    chunk.take(line, number, &mut parser, undirected);
                    None
                }
                Ok(None) => None,
                Err(error) => Some(failed(error)),
            };
            if chunk.is_full() || at_end {
                chunk.end = lines.stand();
                let full = std::mem::replace(&mut chunk, Chunk::new());
                if chunks.blocking_send(Ok(full)).is_err() {
                    return Ok(());
                }
                parser.times.now = self.clock.now();
            }
            match error {
                Some(error) => return Err(error),
                None if at_end => return Ok(()),
                None => {}
            }
        }
    }
}

pub(super) fn unreadable(source: &Source, error: &io::Error) -> Error {
    Error::new(Code::Internal, format!("{} cannot be read: {error}", source.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(work: impl FnOnce(&mpsc::Sender<Result<Chunk>>) + Send + 'static) -> Chunks {
        Chunks::made_by("the file".to_owned(), Arc::default(), work)
    }

    #[tokio::test]
    async fn a_reader_that_breaks_off_is_no_end() {
        let mut whole = chunks(|chunks| chunks.blocking_send(Ok(Chunk::new())).unwrap());
        assert!(whole.next().await.unwrap().is_some());
        assert!(whole.next().await.unwrap().is_none());
        assert!(whole.next().await.unwrap().is_none());
        let mut broken = chunks(|chunks| {
            chunks.blocking_send(Ok(Chunk::new())).unwrap();
            panic!("on purpose");
        });
        assert!(broken.next().await.unwrap().is_some());
        let error = broken.next().await.err().expect("the rest is missing");
        assert!(error.detail().contains("the file"), "{}", error.detail());
    }
}
