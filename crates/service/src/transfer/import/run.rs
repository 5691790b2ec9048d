//! One import from its first file to its last.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, LazyLock, atomic::Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use entourage_model::{
    Clock, Condition, Error, EventPositions, Key, KeyHasher, Millis, Operation, Outcome, RecordId, Result, Secret,
    Space, Write,
};
use entourage_store::{CommitOrder, StoreExt as _};

use super::{
    Form, ProgressFile, Rejects, Source, Tally,
    commit::{Settled, settle},
    groups::Groups,
    known::Known,
    lines::FilePosition,
    plan::{Plan, Planner},
    read::{Chunk, Chunks, Reading},
    resume::Resumed,
    row::Reject,
    suggested::Suggested,
    tally::Done,
};
use crate::{Context, Transfer};

/// Chunks that the store works on at once.
const CHUNKS_IN_FLIGHT: usize = 4;
const NOTE_EVERY: Duration = Duration::from_millis(500);

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct Import {
    pub sources: Vec<Source>,
    pub form: Form,
    /// Whether edges make the users that they name.
    pub create_users: bool,
    /// `None`: no cap on how many a user follows.
    pub following_max: Option<u64>,
    /// The position of edges that have no time of their own.
    pub now: Millis,
}

/// Progress, for a display.
pub struct Seen<'a> {
    /// Of all files, as they lie on the disk.
    pub read_bytes: u64,
    pub tally: &'a Tally,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// One for each source, in their order.
    pub files: Vec<Tally>,
}

impl Imported {
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.files.iter().for_each(|tally| total.add(tally));
        total
    }
}

type PendingChunk = (Plan, Pin<Box<dyn Future<Output = Vec<Result<Outcome>>> + Send>>);

impl Import {
    /// Reads and checks every line, and asks no store for anything.
    pub async fn check(
        &self,
        clock: &Arc<dyn Clock>,
        rejects: Option<&mut Rejects>,
        mut seen: impl FnMut(&Seen<'_>),
    ) -> Result<Imported> {
        let keys = KeyHasher::new(&Secret::from_bytes([0; 32]));
        let mut account = Account { rejects, files: Vec::new(), bytes_before: 0 };
        for source in &self.sources {
            let mut chunks = self.read(source, FilePosition::default(), keys.clone(), clock);
            account.files.push(Tally::default());
            while let Some(chunk) = chunks.next().await? {
                account.count_unasked(source, chunk)?;
                seen(&account.seen(&chunks));
            }
            account.end_file(&chunks);
        }
        account.finish()
    }

    /// Imports everything that is not yet noted as done.
    pub async fn run(
        &self,
        transfer: &Arc<Transfer>,
        note: Option<&mut ProgressFile>,
        rejects: Option<&mut Rejects>,
        mut seen: impl FnMut(&Seen<'_>),
    ) -> Result<Imported> {
        let mut work = Work::begin(self, transfer, note, rejects).await?;
        for (index, source) in self.sources.iter().enumerate() {
            if index < work.start.0 {
                work.account.bytes_before += source.bytes().unwrap_or(0);
                continue;
            }
            let from = if index == work.start.0 { work.start.1 } else { FilePosition::default() };
            work.account.files.resize(index + 1, Tally::default());
            let mut chunks = self.read(source, from, transfer.context.keys.clone(), &transfer.context.clock);
            let mut waiting: VecDeque<PendingChunk> = VecDeque::new();
            loop {
                let chunk = chunks.next().await?;
                let at_end = chunk.is_none();
                let waits = chunk.as_ref().is_none_or(|chunk| work.planner.needs_all_before(chunk));
                if waits {
                    work.settle_down_to(0, &mut waiting, index, at_end).await?;
                }
                if let Some(chunk) = chunk {
                    // Planned while the store works on those before it.
                    let (plan, writes) = work.planner.plan(chunk).await?;
                    work.settle_down_to(work.in_flight - 1, &mut waiting, index, false).await?;
                    waiting.push_back(work.send(plan, writes).await);
                }
                seen(&work.account.seen(&chunks));
                if at_end {
                    break;
                }
            }
            work.account.end_file(&chunks);
        }
        let id = work.note.as_deref().map(ProgressFile::id).transpose()?;
        let imported = work.account.finish()?;
        record_completion(&transfer.context, id, &imported).await?;
        Ok(imported)
    }

    fn read(&self, source: &Source, from: FilePosition, keys: KeyHasher, clock: &Arc<dyn Clock>) -> Chunks {
        let (source, form, clock) = (source.clone(), self.form.clone(), Arc::clone(clock));
        Chunks::of(Reading { source, form, from, keys, clock, read: Arc::default() })
    }
}

/// One event that everything is there. An import that was cut off behind it tells the same again, which is none.
async fn record_completion(context: &Context, id: Option<RecordId>, imported: &Imported) -> Result<()> {
    let (space, owner, value) = (Space::Import, Key::SERVER, imported.total().to_record()?);
    let operation = match id {
        Some(id) => {
            let (value, condition, cap) = (Some(value), Condition::Any, None);
            Operation::PutRecord { space, owner, id, value, condition, cap }
        }
        None => Operation::AddRecord { space, owner, value, cap: None },
    };
    context.writer.write_one(operation).await.map(drop)
}

/// An import under way.
struct Work<'a> {
    import: &'a Import,
    planner: Planner,
    account: Account<'a>,
    note: Option<&'a mut ProgressFile>,
    noted: Instant,
    /// The newest event that belongs to a settled chunk.
    read_to: EventPositions,
    /// The file to begin with, and where in it.
    start: (usize, FilePosition),
    in_flight: usize,
}

impl<'a> Work<'a> {
    async fn begin(
        import: &'a Import,
        transfer: &Arc<Transfer>,
        mut note: Option<&'a mut ProgressFile>,
        rejects: Option<&'a mut Rejects>,
    ) -> Result<Self> {
        let store = &*transfer.context.store;
        let (mut resumed, mut start) = (Resumed::default(), (0, FilePosition::default()));
        let mut read_to = EventPositions::start(store.lineage(), store.guarantees().partitions);
        let mut account = Account { rejects, files: Vec::new(), bytes_before: 0 };
        if let Some(note) = note.as_deref_mut() {
            let progress = &mut note.progress;
            if note.is_resumed {
                resumed = Resumed::since(store, progress.positions()).await?;
                read_to = resumed.last.clone().unwrap_or(read_to);
                start = (progress.file, FilePosition { offset: progress.offset, line: progress.line });
                account.files.clone_from(&progress.tallies);
            } else {
                read_to = store.last_events().await?;
                progress.note(&read_to);
                note.save().map_err(unwritable)?;
            }
        }
        // Where a store takes one write after the other, or the cap looks at what is stored, order needs waiting.
        let in_flight = match store.guarantees().order {
            CommitOrder::Known if import.following_max.is_none() => CHUNKS_IN_FLIGHT,
            _ => 1,
        };
        let planner = Planner {
            transfer: Arc::clone(transfer),
            known: Known::default(),
            groups: Groups::default(),
            create_users: import.create_users,
            following_max: import.following_max,
            now: note.as_deref().map_or(import.now, ProgressFile::now),
            resumed,
            suggested: Suggested::default(),
        };
        Ok(Self { import, planner, account, note, noted: Instant::now(), read_to, start, in_flight })
    }

    /// Waits for the first chunks until no more than this many are on their way.
    async fn settle_down_to(
        &mut self,
        left: usize,
        waiting: &mut VecDeque<PendingChunk>,
        file: usize,
        at_end: bool,
    ) -> Result<()> {
        while waiting.len() > left
            && let Some((plan, commit)) = waiting.pop_front()
        {
            let results = commit.await;
            self.settle(file, plan, results, at_end && waiting.is_empty()).await?;
        }
        Ok(())
    }

    async fn send(&mut self, plan: Plan, writes: Vec<Write>) -> PendingChunk {
        let mut commit = Box::pin(self.planner.transfer.context.writer.write_all(writes));
        // Polled once, it has its place in the store's queue: chunks keep the order of the file.
        let done = poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await;
        match done {
            Poll::Ready(results) => (plan, Box::pin(async { results })),
            Poll::Pending => (plan, commit),
        }
    }

    /// Counts a chunk that is durable, and notes it from time to time.
    async fn settle(&mut self, file: usize, plan: Plan, results: Vec<Result<Outcome>>, is_end: bool) -> Result<()> {
        let store = Arc::clone(&self.planner.transfer.context.store);
        let is_numbered = store.guarantees().order == CommitOrder::Known;
        if is_numbered {
            let last = results.iter().rev().find_map(|result| Some(result.as_ref().ok()?.watermark.sequence()));
            self.read_to.advance(0, last.unwrap_or_default());
        }
        let (end, is_caught_up) = (plan.chunk.end, plan.is_caught_up);
        if let Some(source) = self.import.sources.get(file) {
            let Settled { opened, .. } = self.account.settle(source, plan, results)?;
            for account in opened {
                self.planner.transfer.jobs.accept_waiting(account).await?;
            }
        }
        let is_last = file + 1 == self.import.sources.len();
        let is_due = (is_caught_up && (is_end || self.noted.elapsed() >= NOTE_EVERY)) || (is_end && is_last);
        if let Some(note) = self.note.as_deref_mut().filter(|_| is_due) {
            if !is_numbered {
                self.read_to = store.last_events().await?;
            }
            self.account.note(note, file, end, &self.read_to)?;
            self.noted = Instant::now();
        }
        Ok(())
    }
}

struct Account<'a> {
    rejects: Option<&'a mut Rejects>,
    files: Vec<Tally>,
    bytes_before: u64,
}

impl Account<'_> {
    fn settle(&mut self, source: &Source, plan: Plan, results: Vec<Result<Outcome>>) -> Result<Settled> {
        let Some(tally) = self.files.last_mut() else { return Ok(Settled::default()) };
        let settled = settle(plan, results, tally)?;
        self.write(source, &settled.rejects)?;
        Ok(settled)
    }

    /// As if the store had nothing yet and refused nothing.
    fn count_unasked(&mut self, source: &Source, mut chunk: Chunk) -> Result<()> {
        let Some(tally) = self.files.last_mut() else { return Ok(()) };
        let mut late = Vec::new();
        for row in &chunk.rows {
            match row.entry.is_to_self() {
                true => late.push(chunk.reject(row, row.entry.self_reason())),
                false => tally.count(&row.entry, Done::Created),
            }
        }
        tally.lines += chunk.lines;
        chunk.rejects.append(&mut late);
        chunk.rejects.sort_by_key(|reject| reject.line);
        chunk.rejects.iter().for_each(|reject| tally.reject(reject.reason.as_str()));
        self.write(source, &chunk.rejects)
    }

    fn write(&mut self, source: &Source, rejected: &[Reject]) -> Result<()> {
        let Some(rejects) = &mut self.rejects else { return Ok(()) };
        let name = source.name();
        rejected.iter().try_for_each(|reject| rejects.write(&name, reject)).map_err(unwritable)
    }

    fn note(
        &mut self,
        note: &mut ProgressFile,
        file: usize,
        end: FilePosition,
        read_to: &EventPositions,
    ) -> Result<()> {
        if let Some(rejects) = &mut self.rejects {
            note.progress.rejects_bytes = rejects.flush().map_err(unwritable)?;
        }
        let progress = &mut note.progress;
        (progress.file, progress.offset, progress.line) = (file, end.offset, end.line);
        progress.note(read_to);
        progress.tallies.clone_from(&self.files);
        note.save().map_err(unwritable)
    }

    fn seen<'s>(&'s self, chunks: &Chunks) -> Seen<'s> {
        let read_bytes = self.bytes_before + chunks.read.load(Ordering::Relaxed);
        Seen { read_bytes, tally: self.files.last().unwrap_or(&EMPTY) }
    }

    fn end_file(&mut self, chunks: &Chunks) {
        self.bytes_before += chunks.read.load(Ordering::Relaxed);
    }

    fn finish(self) -> Result<Imported> {
        if let Some(rejects) = self.rejects {
            rejects.flush().map_err(unwritable)?;
        }
        Ok(Imported { files: self.files })
    }
}

static EMPTY: LazyLock<Tally> = LazyLock::new(Tally::default);

fn unwritable(error: io::Error) -> Error {
    Error::internal(format!("progress or rejects cannot be written: {error}"))
}
