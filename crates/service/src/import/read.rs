//! The reading thread: lines in, chunks of rows out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use entourage_model::{Code, Error, KeyHasher, Result};
use tokio::sync::mpsc;

use super::{
    Contents, Format, Source,
    dialect::Dialect,
    lines::{Line, Lines, Stand},
    parse::Parser,
    row::{Reason, Reject, Row},
    source::Text,
};

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
    /// After its last line.
    pub(super) end: Stand,
}

impl Chunk {
    fn new() -> Self {
        let text = Vec::with_capacity(CHUNK_ROWS * 32);
        Self { rows: Vec::with_capacity(CHUNK_ROWS), rejects: Vec::new(), text, end: Stand::default() }
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.rejects.len() >= CHUNK_ROWS || self.text.len() >= CHUNK_TEXT_BYTES
    }

    pub(super) fn reject(&self, row: &Row, reason: Reason) -> Reject {
        Reject::new(row.line, reason, self.text.get(row.text.clone()).unwrap_or_default())
    }

    fn take(&mut self, line: Line<'_>, number: u64, parser: &mut Parser) {
        let text = match line {
            Line::Whole(text) if parser.is_blank(text) => return,
            Line::Whole(text) => text,
            Line::TooLong(start) => return self.rejects.push(Reject::new(number, Reason::LineTooLong, start)),
        };
        match parser.parse(text) {
            Ok(entry) => {
                let start = self.text.len();
                self.text.extend_from_slice(text);
                self.rows.push(Row { line: number, text: start..self.text.len(), entry });
            }
            Err(reason) => self.rejects.push(Reject::new(number, reason, text)),
        }
    }
}

/// What to read, and from where on.
pub(super) struct Reading {
    pub(super) source: Source,
    pub(super) format: Format,
    pub(super) contents: Option<Contents>,
    pub(super) from: Stand,
    pub(super) keys: KeyHasher,
    pub(super) read: Arc<AtomicU64>,
}

impl Reading {
    /// Ends with the file, with an error, or when nobody takes chunks any more.
    pub(super) fn run(&self, chunks: &mpsc::Sender<Result<Chunk>>) {
        if let Err(error) = self.read_all(chunks) {
            // Nobody is left to be told.
            let _ = chunks.blocking_send(Err(error));
        }
    }

    fn read_all(&self, chunks: &mpsc::Sender<Result<Chunk>>) -> Result<()> {
        let failed = |error: io::Error| unreadable(&self.source, &error);
        let mut lines = Lines::new(self.source.open(&self.read).map_err(failed)?, Stand::default());
        let Some(first) = first_line(&mut lines).map_err(failed)? else { return Ok(()) };
        let (dialect, is_header) = Dialect::of(&first, self.format, self.contents)
            .map_err(|error| Error::new(error.code(), format!("{}: {}", self.source.name(), error.detail())))?;
        let mut parser = Parser::new(dialect, self.keys.clone());
        let mut chunk = Chunk::new();
        if self.from.offset > lines.stand().offset {
            self.read.store(0, Ordering::Relaxed);
            let mut text = self.source.open(&self.read).map_err(failed)?;
            text.skip_to(self.from.offset).map_err(failed)?;
            lines = Lines::new(text, self.from);
        } else if !is_header {
            chunk.take(Line::Whole(&first), lines.stand().line, &mut parser);
        }
        loop {
            let number = lines.stand().line + 1;
            let line = lines.read();
            let at_end = !matches!(line, Ok(Some(_)));
            let error = match line {
                Ok(Some(line)) => {
                    chunk.take(line, number, &mut parser);
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
            }
            match error {
                Some(error) => return Err(error),
                None if at_end => return Ok(()),
                None => {}
            }
        }
    }
}

/// The first line with anything in it.
fn first_line(lines: &mut Lines<Text>) -> io::Result<Option<Vec<u8>>> {
    while let Some(line) = lines.read()? {
        let (Line::Whole(text) | Line::TooLong(text)) = line;
        if !text.trim_ascii().is_empty() {
            return Ok(Some(text.to_vec()));
        }
    }
    Ok(None)
}

pub(super) fn unreadable(source: &Source, error: &io::Error) -> Error {
    Error::new(Code::Internal, format!("{} cannot be read: {error}", source.name()))
}
