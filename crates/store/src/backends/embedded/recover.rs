//! Opening a store: the last checkpoint, then the log after it. Recovery only applies; it decides nothing.

use std::sync::Arc;

use entourage_model::{Millis, Outcome, Sequence, Version};
use hashbrown::HashSet;

use super::{
    codec::Corrupt,
    engine::Engine,
    fault::Fault,
    files::{file_name, is_block_file},
    idempotency::is_record_file,
    lists::BlockRef,
    load,
    log::{self, Found, SEGMENT_HEADER, Segment},
    manifest::{self, Head, Manifest},
};
use crate::disk::{DiskFile, read_exact_at};

/// So many outcomes are applied in one go: their memory is fetched side by side.
const APPLY_TOGETHER: usize = 8_192;

/// Where the writers go on.
pub(super) struct Recovered {
    pub(super) last: Sequence,
    pub(super) version: Version,
    pub(super) manifest: u64,
    pub(super) groups: Vec<BlockRef>,
}

pub(super) fn recover(engine: &Engine) -> Result<Recovered, Fault> {
    let names = engine.disk.list()?;
    let newest = names.iter().filter_map(|name| manifest::parse_name(name)).max();
    let manifest = match newest {
        Some(number) => Manifest::read(&*engine.disk, engine.epoch(), number)?,
        None => Manifest::default(),
    };
    load::open_files(engine, &manifest.head)?;
    load::users(engine, &manifest)?;
    let mixed = load::lists(engine, &manifest)?;
    // It is large, and what follows needs memory as well.
    let (head, groups) = manifest.into_parts();
    load::rows(engine)?;
    load::part(engine, &mixed)?;
    // Those were known to the checkpoint.
    engine.state.erased().take_fresh();
    engine.idempotency.open(&*engine.disk, engine.epoch(), &head.idempotency)?;
    engine.state.publish(head.sequence);
    remove_leftovers(engine, &head, &names)?;
    let (last, version) = replay(engine, &head, &names)?;
    engine.checkpoint.lock().covered = head.sequence;
    Ok(Recovered { last, version, manifest: head.number, groups })
}

/// Files of a checkpoint that was not finished, or that the last one no longer refers to.
fn remove_leftovers(engine: &Engine, head: &Head, names: &[String]) -> Result<(), Fault> {
    let mut known: HashSet<String> = head.files.iter().map(|entry| file_name(entry.family, entry.number)).collect();
    known.extend(head.idempotency.iter().cloned());
    if head.number > 0 {
        known.insert(manifest::name(head.number));
    }
    for name in names {
        let ours = is_block_file(name)
            || is_record_file(name)
            || manifest::parse_name(name).is_some()
            || manifest::is_unfinished(name)
            || log::is_unfinished(name);
        if ours && !known.contains(name) {
            engine.disk.remove(name)?;
        }
    }
    Ok(())
}

struct Replay<'a> {
    engine: &'a Engine,
    covered: Sequence,
    last: Sequence,
    version: Version,
    /// Read and in order, but not applied yet.
    pending: Vec<Outcome>,
}

fn replay(engine: &Engine, head: &Head, names: &[String]) -> Result<(Sequence, Version), Fault> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| log::segment_number(name)).collect();
    numbers.sort_unstable();
    let mut files: Vec<(u64, Arc<dyn DiskFile>, u64)> = Vec::new();
    for number in numbers {
        let file = engine.disk.open(&log::segment_name(number))?;
        let size = log::check_segment(&*file, engine.epoch(), number)?;
        files.push((number, file, size));
    }
    // Segments past retention go in any order when the power goes: whatever stands before a gap that the checkpoint
    // covers was on its way out.
    if let Some(gap) = files.windows(2).rposition(|pair| pair[0].0 + 1 != pair[1].0 && pair[1].0 <= head.segment) {
        for (number, ..) in files.drain(..=gap) {
            tracing::warn!(segment = number, "a log segment stands before a gap that the checkpoint covers: removed");
            engine.disk.remove(&log::segment_name(number))?;
        }
    }
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 + 1 != pair[1].0) {
        return Err(Fault::damaged(log::segment_name(pair[0].0 + 1), 0, "the segment is missing"));
    }
    if head.segment > 0 && files.first().is_none_or(|(first, ..)| *first > head.segment) {
        return Err(Fault::damaged(log::segment_name(head.segment), 0, "the segment is missing"));
    }
    let covered = head.sequence;
    let mut segments = summarize(engine, files, covered)?;
    // Records without changes count no sequence, so the place where the checkpoint was taken is told by its segment.
    let from = segments.iter().position(|segment| segment.number >= head.segment).unwrap_or(0);
    if segments.first().is_some_and(|first| first.before > covered) {
        return Err(Fault::damaged(log::segment_name(segments[0].number), 0, "the log begins after the checkpoint"));
    }
    let last = segments.get(from).map_or(covered, |segment| segment.before);
    let mut replay = Replay { engine, covered, last, version: head.version, pending: Vec::new() };
    let mut used = from;
    for index in from..segments.len() {
        let (done, later) = segments.split_at_mut(index + 1);
        let segment = &mut done[index];
        if replay.segment(segment, later)? {
            used = index;
        }
    }
    replay.apply_pending();
    if replay.last < covered {
        let name = segments.last().map_or_else(|| log::segment_name(1), |segment| log::segment_name(segment.number));
        let what = format!("the log ends at {} before the checkpoint at {covered}", replay.last);
        return Err(Fault::damaged(name, 0, what));
    }
    // Segments made ahead and never written to; they are made again when they are needed.
    for spare in segments.drain((used + 1).min(segments.len())..) {
        engine.disk.remove(&log::segment_name(spare.number))?;
    }
    engine.disk.sync_folder()?;
    let (last, version) = (replay.last, replay.version);
    if let Some(active) = segments.last_mut()
        && !log::is_current(&*active.file)?
    {
        // Full as far as writers know: what an earlier version could not read belongs into a segment that says so.
        active.size = active.end;
    }
    engine.state.publish(last);
    engine.segments.lock().all.extend(segments);
    Ok((last, version))
}

/// Looks at the first frame of each segment: enough to know which ones must be replayed.
fn summarize(
    engine: &Engine,
    files: Vec<(u64, Arc<dyn DiskFile>, u64)>,
    covered: Sequence,
) -> Result<Vec<Segment>, Fault> {
    let mut segments: Vec<Segment> = Vec::with_capacity(files.len());
    for (number, file, size) in files {
        let seed = log::frame_seed(engine.epoch(), number);
        let (before, newest) = match log::read_frame(&*file, seed, SEGMENT_HEADER)? {
            Found::Frame { frame, .. } => {
                let newest = frame.outcomes().ok().and_then(|outcomes| outcomes.last().map(|o| o.version.millis()));
                (frame.last, newest.unwrap_or_default())
            }
            // Nothing readable: it can only be the end of the log, which `Replay::segment` makes sure of.
            Found::End | Found::Broken(_) => (Sequence(u64::MAX), Millis::default()),
        };
        if let Some(earlier) = segments.last_mut().filter(|_| before.0 != u64::MAX) {
            earlier.last = before;
            earlier.newest = newest;
            earlier.end = earlier.size;
        }
        segments.push(Segment::new(number, file, size, before));
    }
    let readable = |segment: &Segment| segment.before.0 != u64::MAX;
    if let Some(broken) = segments.iter().position(|segment| !readable(segment))
        && segments[broken..].iter().any(readable)
    {
        let name = log::segment_name(segments[broken].number);
        return Err(Fault::damaged(name, SEGMENT_HEADER, "the first frame, though later segments have frames"));
    }
    // A log without a single readable frame begins where the checkpoint ends.
    if let Some(first) = segments.first_mut().filter(|first| first.before.0 == u64::MAX) {
        first.before = covered;
    }
    Ok(segments)
}

impl Replay<'_> {
    /// Applies a segment's frames. `Ok(false)`: there were none.
    fn segment(&mut self, segment: &mut Segment, later: &[Segment]) -> Result<bool, Fault> {
        let seed = log::frame_seed(self.engine.epoch(), segment.number);
        let name = log::segment_name(segment.number);
        segment.before = self.last;
        segment.last = self.last;
        segment.end = SEGMENT_HEADER;
        loop {
            let offset = segment.end;
            let found =
                if offset + 40 > segment.size { Found::End } else { log::read_frame(&*segment.file, seed, offset)? };
            let broken = match found {
                Found::Frame { frame, end } => {
                    if frame.last != self.last {
                        let what = format!("sequence {} follows {}", frame.last, self.last);
                        return Err(Fault::damaged(name, offset, what));
                    }
                    let newest = self.apply(&frame).map_err(|corrupt| Fault::corrupt(&name, offset, corrupt))?;
                    segment.note(frame.last, frame.changes, newest, end);
                    continue;
                }
                Found::End => None,
                Found::Broken(what) => Some(what),
            };
            let follows = log::frame_after(&*segment.file, seed, offset)?;
            let elsewhere = later.iter().any(|later| {
                let seed = log::frame_seed(self.engine.epoch(), later.number);
                matches!(log::frame_after(&*later.file, seed, 0), Ok(Some(_)))
            });
            match (broken, follows) {
                // One batch is under way at a time: a frame after this place proves that this place was durable.
                (_, Some(at)) => {
                    let what = broken.unwrap_or("a frame is missing");
                    return Err(Fault::damaged(name, offset, format!("{what}, though a frame follows at {at}")));
                }
                (Some(what), None) if elsewhere => {
                    return Err(Fault::damaged(name, offset, format!("{what}, though later segments have frames")));
                }
                (Some(_), None) => {
                    wipe(segment)?;
                    return Ok(true);
                }
                (None, None) => {
                    // The beginning of a torn frame may be missing while the rest of it is there.
                    if !elsewhere {
                        wipe(segment)?;
                    }
                    return Ok(offset > SEGMENT_HEADER);
                }
            }
        }
    }

    fn apply(&mut self, frame: &log::Frame) -> Result<Millis, Corrupt> {
        let covered = frame.last.plus(u64::from(frame.changes)) <= self.covered;
        let mut newest = Millis::default();
        let outcomes = frame.outcomes()?;
        for outcome in &outcomes {
            self.version = self.version.max(outcome.version);
            newest = newest.max(outcome.version.millis());
            if let Some(record) = outcome.idempotency.as_deref().filter(|_| frame.last >= self.covered) {
                self.engine.idempotency.insert(*record);
            }
        }
        if !covered {
            self.pending.extend(outcomes);
        }
        if self.pending.len() >= APPLY_TOGETHER {
            self.apply_pending();
        }
        self.last = frame.last.plus(u64::from(frame.changes));
        Ok(newest)
    }

    fn apply_pending(&mut self) {
        self.engine.state.apply_logged(&self.pending);
        self.pending.clear();
    }
}

/// Puts zeros where a torn frame stood, so that none of it can pass for something later.
fn wipe(segment: &Segment) -> Result<(), Fault> {
    let zeros = vec![0; 64 << 10];
    let mut at = segment.end;
    let mut wiped = false;
    while at < segment.size {
        let length = (segment.size - at).min(zeros.len() as u64) as usize;
        let there = read_exact_at(&*segment.file, length, at)?;
        if there.iter().any(|byte| *byte != 0) {
            segment.file.write_at(&zeros[..length], at)?;
            wiped = true;
        }
        at += length as u64;
    }
    if wiped {
        segment.file.sync()?;
    }
    Ok(())
}
