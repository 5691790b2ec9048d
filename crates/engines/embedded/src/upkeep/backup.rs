//! Online backup and restore. Copies the last checkpoint's files and the durable part of the log while writers run. A
//! restored backup opens like any other store.

use std::{io, sync::atomic::Ordering};

use entourage_model::Sequence;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{
    blocks::files::file_name,
    checkpoint::manifest::{self, Manifest},
    engine::Engine,
    fault::Fault,
    identity,
    log::{
        self,
        frames::Frames,
        seals::{self, Seal},
        segments::Segment,
    },
};
use entourage_store::disk::{Disk, DiskFile, read_all};

/// Written last: a folder without it is not a complete backup.
const CONTENTS: &str = "BACKUP";
const CHUNK: usize = 1 << 20;

/// One copied file. Log segments are copied up to their last frame and get their full size back on restore.
struct Copied {
    name: String,
    bytes: u64,
    size: u64,
    sum: u64,
}

/// Copies the store to an empty folder. `progress` gets the bytes done and the total.
pub(crate) fn backup(engine: &Engine, to: &dyn Disk, mut progress: impl FnMut(u64, u64)) -> Result<u64, Fault> {
    if !to.list()?.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the backup folder is not empty").into());
    }
    let _hold = Hold::new(engine);
    let plan = plan(engine)?;
    let total = plan.files.iter().map(|planned| planned.bytes).sum();
    let mut done = 0;
    let mut copied = Vec::new();
    for Planned { name, bytes, size, sum: wanted } in plan.files {
        let from = engine.disk.open(&name)?;
        let file = to.create(&name)?;
        let sum = copy(&name, &*from, &*file, bytes, |step| {
            done += step;
            progress(done, total);
            // A store that is stopping does not wait for a long copy.
            if engine.is_stopping() { Err(Fault::Closed) } else { Ok(()) }
        })?;
        // A copy of damaged files is not a backup.
        if wanted.is_some_and(|wanted| wanted != sum) {
            return Err(Fault::damaged(name, 0, "checksum of the file"));
        }
        file.sync()?;
        copied.push(Copied { name, bytes, size, sum });
    }
    let seals = seals::file_with(&engine.identity, &plan.seal);
    let file = to.create(seals::NAME)?;
    file.write_at(&seals, 0)?;
    file.sync()?;
    let size = seals.len() as u64;
    copied.push(Copied { name: seals::NAME.into(), bytes: size, size, sum: xxh3_64(&seals) });
    to.sync_folder()?;
    let contents = to.create(CONTENTS)?;
    contents.write_at(encode(&copied).as_bytes(), 0)?;
    contents.sync()?;
    to.sync_folder()?;
    Ok(done)
}

/// A file to copy: bytes to copy, full size, and the checksum if known.
struct Planned {
    name: String,
    bytes: u64,
    size: u64,
    sum: Option<u64>,
}

/// The files of one consistent copy.
struct Plan {
    files: Vec<Planned>,
    /// Where the log of the copy ends.
    seal: Seal,
}

fn plan(engine: &Engine) -> Result<Plan, Fault> {
    // The log is listed after the checkpoint: it may reach further, but never less far.
    let names = engine.disk.list()?;
    let newest = names.iter().filter_map(|name| manifest::parse_name(name)).max();
    let mut files = Vec::new();
    let whole = |name: String, sum: Option<u64>| -> Result<Planned, Fault> {
        let size = engine.disk.open(&name)?.size()?;
        Ok(Planned { name, bytes: size, size, sum })
    };
    files.push(whole(identity::NAME.into(), None)?);
    let mut first = 0;
    if let Some(number) = newest {
        let manifest = Manifest::read(&*engine.disk, engine.epoch(), number)?;
        first = manifest.head.first_segment.unwrap_or_default();
        files.push(whole(manifest::name(number), None)?);
        for file in &manifest.head.files {
            let (name, size) = (file_name(file.family, file.number), file.size);
            files.push(Planned { name, bytes: size, size, sum: file.proof.map(|proof| proof.sum) });
        }
        for run in manifest.head.idempotency {
            files.push(whole(run.name, run.whole.map(|(_, sum)| sum))?);
        }
    }
    let segments: Vec<Segment> = {
        let segments = engine.segments.lock();
        segments.all.iter().filter(|segment| segment.number >= first).cloned().collect()
    };
    for segment in &segments {
        let mut frames = Frames::new(segment.whole());
        while frames.next_above(Sequence::ZERO)?.is_some() {}
        let name = log::segment_name(segment.number);
        files.push(Planned { name, bytes: segment.end, size: segment.size, sum: None });
    }
    let seal = segments.last().map_or_else(Seal::default, |last| Seal {
        segment: last.number,
        end: last.end,
        sequence: last.last,
        checkpoint: newest.unwrap_or_default(),
    });
    Ok(Plan { files, seal })
}

/// While one exists, no file is removed.
struct Hold<'a>(&'a Engine);

impl<'a> Hold<'a> {
    fn new(engine: &'a Engine) -> Self {
        engine.holds.fetch_add(1, Ordering::AcqRel);
        // A checkpoint that has read `holds` may still be removing files: wait for it.
        drop(engine.removing.lock());
        Self(engine)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

fn copy(
    name: &str,
    from: &dyn DiskFile,
    to: &dyn DiskFile,
    bytes: u64,
    mut progress: impl FnMut(u64) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    let mut buffer = vec![0; CHUNK];
    let mut sum = Xxh3::new();
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(CHUNK as u64) as usize;
        let chunk = &mut buffer[..length];
        let read = from.read_at(chunk, at)?;
        if read < length {
            return Err(Fault::damaged(
                name,
                at + read as u64,
                format!("the file ends here and should have {bytes} bytes"),
            ));
        }
        sum.update(chunk);
        to.write_at(chunk, at)?;
        at += length as u64;
        progress(length as u64)?;
    }
    Ok(sum.digest())
}

/// Restores a backup into an empty folder, comparing all checksums. The identity comes last, and no store opens data
/// without one: an interrupted restore cannot pass for a smaller store.
pub fn restore(from: &dyn Disk, to: &dyn Disk, mut progress: impl FnMut(u64, u64)) -> Result<u64, Fault> {
    if !to.list()?.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the data folder is not empty").into());
    }
    let contents = from.open(CONTENTS).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Fault::damaged(CONTENTS, 0, "the file is missing: this is not a whole backup"),
        _ => error.into(),
    })?;
    let (last, mut contents): (Vec<_>, Vec<_>) =
        decode(&read_all(&*contents)?)?.into_iter().partition(|copied| copied.name == identity::NAME);
    if last.is_empty() {
        return Err(Fault::damaged(CONTENTS, 0, "no identity is listed"));
    }
    contents.extend(last);
    let total = contents.iter().map(|copied| copied.bytes).sum();
    let mut done = 0;
    let restored = contents.iter().try_for_each(|copied| {
        restore_file(from, to, copied, |step| {
            done += step;
            progress(done, total);
        })
    });
    if restored.is_err() {
        for copied in &contents {
            // Leftovers are refused when opened; removing them only makes room for the next try.
            let _ = to.remove(&copied.name);
        }
    }
    restored.map(|()| done)
}

fn restore_file(from: &dyn Disk, to: &dyn Disk, copied: &Copied, mut progress: impl FnMut(u64)) -> Result<(), Fault> {
    let source = from.open(&copied.name).map_err(|error| Fault::opening(&copied.name, error))?;
    if copied.name == identity::NAME {
        to.sync_folder()?;
    }
    let file = to.create(&copied.name)?;
    let sum = copy(&copied.name, &*source, &*file, copied.bytes, |step| {
        progress(step);
        Ok(())
    })?;
    if sum != copied.sum {
        return Err(Fault::damaged(&copied.name, 0, "the backup's checksum does not match"));
    }
    if copied.size > copied.bytes {
        fill(&*file, copied.bytes, copied.size)?;
    }
    file.sync()?;
    to.sync_folder()?;
    Ok(())
}

/// Zeros to the full size: later log writes need no new space.
fn fill(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK];
    let mut at = from;
    while at < to {
        let length = (to - at).min(CHUNK as u64) as usize;
        file.write_at(&zeros[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

fn encode(copied: &[Copied]) -> String {
    let mut text = String::from("entourage-backup 1\n");
    for file in copied {
        text.push_str(&format!("{} {} {} {:016x}\n", file.name, file.bytes, file.size, file.sum));
    }
    let sum = xxh3_64(text.as_bytes());
    text.push_str(&format!("end {sum:016x}\n"));
    text
}

fn decode(bytes: &[u8]) -> Result<Vec<Copied>, Fault> {
    let damaged = || Fault::damaged(CONTENTS, 0, "not a list of files this version can read");
    let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
    let body = text.rfind("end ").and_then(|at| text.split_at_checked(at)).ok_or_else(damaged)?;
    let sum = xxh3_64(body.0.as_bytes());
    if body.1 != format!("end {sum:016x}\n") {
        return Err(damaged());
    }
    let lines = body.0.strip_prefix("entourage-backup 1\n").ok_or_else(damaged)?;
    let parse = |line: &str| -> Option<Copied> {
        let mut words = line.split(' ');
        // A name is that of a file in the folder, never a path out of it.
        let name = words.next().filter(|name| !name.is_empty() && !name.contains('/') && *name != "..")?.to_owned();
        let (bytes, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let sum = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(Copied { name, bytes, size, sum })
    };
    lines.lines().map(|line| parse(line).ok_or_else(damaged)).collect()
}
