//! Opening a store: loads the last checkpoint and replays the log after it. Recovery applies outcomes and decides
//! nothing.

pub(crate) mod load;
pub(crate) mod users;

use std::sync::{Arc, atomic::Ordering};

use entourage_model::{Millis, Outcome, Sequence, Version};
use hashbrown::HashSet;

use crate::{
    blocks::files::{file_name, is_block_file},
    checkpoint::manifest::{self, Head, Manifest},
    codec::Corrupt,
    engine::Engine,
    fault::Fault,
    idempotency::is_record_file,
    log::{
        self, Found, SEGMENT_HEADER,
        seals::{self, Seal},
        segments::Segment,
    },
    state::lists::BlockRef,
    upkeep::left_out::Check,
};
use entourage_store::disk::read_exact_at;

/// Outcomes applied in one go, so that their cache misses overlap.
const APPLY_TOGETHER: usize = 8_192;
/// Stores with files of this format or a newer one have seals.
const SEALED_FORMAT: u16 = 4;

/// Where the writers continue.
pub(crate) struct Recovered {
    pub(crate) last: Sequence,
    pub(crate) version: Version,
    pub(crate) manifest: u64,
    pub(crate) groups: Vec<BlockRef>,
}

pub(crate) fn recover(engine: &Engine) -> Result<Recovered, Fault> {
    let names = engine.disk.list()?;
    let newest = names.iter().filter_map(|name| manifest::parse_name(name)).max();
    let manifest = match newest {
        Some(number) => Manifest::read(&*engine.disk, engine.epoch(), number)?,
        None => Manifest::default(),
    };
    let segments = open_segments(engine, &names)?;
    let sealed_format = segments.iter().map(|segment| segment.format).chain([manifest.format]).max();
    let has_seals = sealed_format.is_some_and(|format| format >= SEALED_FORMAT);
    let seal = engine.seals.open(&*engine.disk, &engine.identity, has_seals)?;
    let seal = if Check::Seal.is_done() { seal } else { Seal { checkpoint: seal.checkpoint, ..Seal::default() } };
    if manifest.head.number < seal.checkpoint && Check::SealedCheckpoint.is_done() {
        return Err(Fault::damaged(manifest::name(seal.checkpoint), 0, "the file is missing"));
    }
    load::open_files(engine, &manifest.head)?;
    let erased = users::users(engine, &manifest)?;
    let mixed = load::lists(engine, &manifest, &erased)?;
    // The manifest is large, and the next steps need memory as well.
    let (head, groups) = manifest.into_parts();
    load::part(engine, &mixed)?;
    // The checkpoint has these erasures.
    engine.state.erased().take_fresh();
    engine.idempotency.open(&*engine.disk, engine.epoch(), &head.idempotency)?;
    engine.state.publish(head.sequence);
    let (last, version) = replay(engine, &head, segments, seal)?;
    engine.checkpoint.lock().covered = head.sequence;
    engine.checkpoint_number.store(head.number, Ordering::Release);
    seal_recovered(engine, seal, last)?;
    // Only now: a store that is refused keeps all its files.
    remove_leftovers(engine, &head)?;
    engine.disk.sync_folder()?;
    Ok(Recovered { last, version, manifest: head.number, groups })
}

/// If only the process crashed, replayed frames may be in the page cache alone. Later frames and seals imply that they
/// are durable, so they are synced.
fn seal_recovered(engine: &Engine, seal: Seal, last: Sequence) -> Result<(), Fault> {
    let (file, number, end) = match engine.segments.lock().all.back() {
        Some(active) => (Arc::clone(&active.file), active.number, active.end),
        None => return Ok(()),
    };
    let checkpoint = engine.checkpoint_number.load(Ordering::Acquire);
    let reached = Seal { segment: number, end, sequence: last, checkpoint };
    if reached != seal {
        file.sync()?;
        engine.seals.write(&reached)?;
    }
    Ok(())
}

/// Removes files of an unfinished checkpoint, and those the last one no longer refers to.
fn remove_leftovers(engine: &Engine, head: &Head) -> Result<(), Fault> {
    let mut known: HashSet<String> = head.files.iter().map(|entry| file_name(entry.family, entry.number)).collect();
    known.extend(head.idempotency.iter().map(|run| run.name.clone()));
    if head.number > 0 {
        known.insert(manifest::name(head.number));
    }
    for name in engine.disk.list()? {
        let name = name.as_str();
        let ours = is_block_file(name)
            || is_record_file(name)
            || manifest::parse_name(name).is_some()
            || manifest::is_unfinished(name)
            || log::is_unfinished(name)
            || seals::is_unfinished(name);
        if ours && !known.contains(name) {
            engine.disk.remove(name)?;
        }
    }
    Ok(())
}

/// Ordered by number; the sequence each begins at is not known yet.
fn open_segments(engine: &Engine, names: &[String]) -> Result<Vec<Segment>, Fault> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| log::segment_number(name)).collect();
    numbers.sort_unstable();
    let open = |number| log::open_segment(&*engine.disk, &engine.identity, number);
    numbers.into_iter().map(|number| Ok(Segment::new(open(number)?, Sequence::ZERO))).collect()
}

/// The segments that are kept, without a gap. Those the checkpoint dropped may exist or not: a power loss may undo any
/// of the removals.
fn kept(engine: &Engine, head: &Head, mut segments: Vec<Segment>, seal: Seal) -> Result<Vec<Segment>, Fault> {
    let first = match head.first_segment {
        Some(first) => first,
        // Checkpoints before format 4 do not say where the log begins: after the last gap they cover.
        None => segments
            .array_windows()
            .rfind(|[one, next]| one.number + 1 != next.number && next.number <= head.segment)
            .map_or_else(|| segments.first().map_or(u64::MAX, |segment| segment.number), |[_, next]| next.number)
            .min(head.segment.max(1)),
    };
    let gone = segments.partition_point(|segment| segment.number < first);
    for segment in segments.drain(..gone) {
        tracing::warn!(segment = segment.number, "a log segment that the checkpoint had let go of is removed");
        engine.disk.remove(&log::segment_name(segment.number))?;
    }
    let last = segments.last().map_or(0, |segment| segment.number).max(seal.segment).max(head.segment);
    // A new store, or one that was never written to, has none.
    let wanted = if last == 0 { first..first } else { first..last.saturating_add(1) };
    let numbers = segments.iter().map(|segment| Some(segment.number)).chain(std::iter::repeat(None));
    if let Some((missing, _)) = wanted.zip(numbers).find(|(wanted, found)| Some(*wanted) != *found) {
        return Err(Fault::damaged(log::segment_name(missing), 0, "the segment is missing"));
    }
    Ok(segments)
}

struct Replay<'a> {
    engine: &'a Engine,
    covered: Sequence,
    last: Sequence,
    version: Version,
    /// Decoded and in order, but not applied yet.
    pending: Vec<Outcome>,
    seal: Seal,
}

fn replay(engine: &Engine, head: &Head, segments: Vec<Segment>, seal: Seal) -> Result<(Sequence, Version), Fault> {
    let mut segments = kept(engine, head, segments, seal)?;
    let covered = head.sequence;
    let first_frames = summarize(&mut segments)?;
    // Records without changes take no sequence, so only the segment tells where the checkpoint was taken.
    let from = segments.iter().position(|segment| segment.number >= head.segment).unwrap_or(0);
    if let (Some(segment), Some(Some(before))) = (segments.first(), first_frames.first())
        && *before > covered
    {
        return Err(segment.damaged(SEGMENT_HEADER, "the log begins after the checkpoint"));
    }
    // A segment without frames continues from the checkpoint that was taken in it.
    let last = first_frames.get(from).copied().flatten().unwrap_or(covered);
    if let Some(covered) = from.checked_sub(1).and_then(|covered| segments.get_mut(covered)) {
        (covered.last, covered.end) = (last, covered.size);
        covered.newest = covered.newest.max(head.version.millis());
    }
    let mut replay = Replay { engine, covered, last, version: head.version, pending: Vec::new(), seal };
    let mut used = from;
    for index in from..segments.len() {
        let (done, later) = segments.split_at_mut(index + 1);
        let segment = &mut done[index];
        let next = first_frames.get(index + 1).copied().flatten();
        if replay.segment(segment, next, later)? {
            used = index;
        }
    }
    replay.apply_pending();
    if replay.last < covered.max(seal.sequence) {
        let name = log::segment_name(segments.last().map_or(1, |segment| segment.number));
        let what = format!(
            "the log ends at {} before the checkpoint at {covered} and the seal at {}",
            replay.last, seal.sequence
        );
        return Err(Fault::damaged(name, segments.last().map_or(0, |segment| segment.end), what));
    }
    // Segments prepared and never written to; created again when needed.
    for unused in segments.drain((used + 1).min(segments.len())..) {
        engine.disk.remove(&log::segment_name(unused.number))?;
    }
    let (last, version) = (replay.last, replay.version);
    engine.state.publish(last);
    engine.segments.lock().all.extend(segments);
    Ok((last, version))
}

/// Reads the first frame of each segment: enough to know which must be replayed. Returns the sequence each begins
/// after, `None` without a readable frame.
fn summarize(segments: &mut [Segment]) -> Result<Vec<Option<Sequence>>, Fault> {
    let mut first_frames: Vec<Option<Sequence>> = Vec::with_capacity(segments.len());
    for index in 0..segments.len() {
        let (earlier, segment) = segments.split_at_mut(index);
        let Some(segment) = segment.first_mut() else { break };
        let first = match log::read_frame(&*segment.file, segment.seed, SEGMENT_HEADER)? {
            Found::Frame { frame, .. } => {
                let newest = frame.outcomes().ok().and_then(|outcomes| outcomes.last().map(|o| o.version.millis()));
                segment.before = frame.last;
                if let Some(earlier) = earlier.last_mut() {
                    earlier.last = frame.last;
                    earlier.newest = newest.unwrap_or_default();
                    earlier.end = earlier.size;
                }
                Some(frame.last)
            }
            // Not readable: this can only be the end of the log, which `Replay::segment` verifies.
            Found::End | Found::Broken(_) => None,
        };
        if first.is_some()
            && let Some(broken) = first_frames.iter().position(Option::is_none)
        {
            return Err(segments[broken].damaged(SEGMENT_HEADER, "the first frame, though later segments have frames"));
        }
        first_frames.push(first);
    }
    Ok(first_frames)
}

impl Replay<'_> {
    /// Applies a segment's frames; the next segment begins after `next`. `Ok(false)`: there were none.
    fn segment(&mut self, segment: &mut Segment, next: Option<Sequence>, later: &[Segment]) -> Result<bool, Fault> {
        segment.before = self.last;
        segment.last = self.last;
        segment.end = SEGMENT_HEADER;
        loop {
            let offset = segment.end;
            let found = match offset + log::FRAME_HEADER as u64 > segment.size {
                true => Found::End,
                false => log::read_frame(&*segment.file, segment.seed, offset)?,
            };
            let broken = match found {
                Found::Frame { frame, end } => {
                    if frame.last != self.last {
                        return Err(segment.damaged(offset, format!("sequence {} follows {}", frame.last, self.last)));
                    }
                    let newest = self.apply(&frame).map_err(|Corrupt(what)| segment.damaged(offset, what))?;
                    segment.note(frame.last, frame.changes, newest, end);
                    continue;
                }
                Found::End => None,
                Found::Broken(what) => Some(what),
            };
            if self.seal.segment == segment.number && self.seal.reaches_beyond(segment.number, offset) {
                let what = broken.unwrap_or("a frame is missing");
                return Err(segment.damaged(offset, format!("{what}, though the log had reached {}", self.seal.end)));
            }
            let follows = log::frame_after(&*segment.file, segment.seed, offset)?;
            let elsewhere = self.seal.segment > segment.number
                || later.iter().any(|later| matches!(log::frame_after(&*later.file, later.seed, 0), Ok(Some(_))));
            match (broken, follows) {
                // One batch is under way at a time: a frame after this place proves that this place was durable.
                (_, Some(at)) => {
                    let what = broken.unwrap_or("a frame is missing");
                    return Err(segment.damaged(offset, format!("{what}, though a frame follows at {at}")));
                }
                (Some(what), None) if elsewhere => {
                    return Err(segment.damaged(offset, format!("{what}, though later segments have frames")));
                }
                (Some(_), None) => {
                    wipe(segment)?;
                    return Ok(true);
                }
                (None, None) if next.is_some_and(|next| next != self.last) => {
                    let what = format!("it ends after {}, and the next segment does not go on there", self.last);
                    return Err(segment.damaged(offset, what));
                }
                (None, None) => {
                    // A torn frame may lack its beginning and have its rest.
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

/// Zeroes what a torn frame left, so that none of it passes for a frame later.
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
