//! What runs in a process of its own: a fresh open, so that memory and time are those of a start; and writes until a
//! kill.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use entourage_embedded::Options;
use entourage_model::Key;
use entourage_store::{Store as _, StoreExt as _, layers::cached::Figures};
use serde::{Deserialize, Serialize};

use crate::{
    graph, machine, place,
    random::{self, scale},
};

/// What an opening process measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) seconds: f64,
    pub(crate) resident: u64,
    pub(crate) edges: u64,
}

pub(crate) fn run_open(folder: &Path) -> Result<()> {
    let started = Instant::now();
    let store = place::open(folder, Options::default())?;
    // A start is over with its first answer.
    std::hint::black_box(store.peek(entourage_model::Kind::Follow, Key(0), Key(1)));
    let seconds = started.elapsed().as_secs_f64();
    let opened = Opened { seconds, resident: machine::resident_bytes(), edges: store.edges() };
    tell(&opened)
}

/// Reports to the parent process.
pub(crate) fn tell(found: &impl Serialize) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(found)?)?)
}

/// Runs this program in a process of its own; returns its report.
pub(crate) fn run(arguments: &[&OsStr]) -> Result<Vec<u8>> {
    let output = Command::new(std::env::current_exe()?).args(arguments).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "a process of this run ended with {}", output.status);
    Ok(output.stdout)
}

/// Whether freed memory is returned to the system at once, so that resident memory is memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Kept,
    Returned,
}

pub(crate) fn open(folder: &Path, freed: Freed) -> Result<Opened> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("open").arg(folder);
    told(command, folder, freed)
}

fn told<T: serde::de::DeserializeOwned>(mut command: Command, folder: &Path, freed: Freed) -> Result<T> {
    command.stderr(Stdio::inherit());
    if freed == Freed::Returned {
        command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");
    }
    let output = command.output()?;
    ensure!(output.status.success(), "a process that opened {} ended with {}", folder.display(), output.status);
    serde_json::from_slice(&output.stdout).context("the opening process told nothing")
}

/// What a process that opened a store behind a cache measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct OpenedCached {
    /// From the open store to a cache that answers.
    pub(crate) seconds: f64,
    /// Resident memory of the cache.
    pub(crate) resident: u64,
    /// What the cache reports to hold.
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

pub(crate) async fn run_open_cached(folder: &Path, snapshot: &Path) -> Result<()> {
    let store = place::open(folder, Options::default())?;
    let (before, started) = (machine::resident_bytes(), Instant::now());
    let layer = place::cached(store, Some(snapshot), place::ROOMY_BYTES).await?;
    let seconds = started.elapsed().as_secs_f64();
    let Figures { bytes, rows, .. } = layer.figures();
    let resident = machine::resident_bytes().saturating_sub(before);
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&OpenedCached { seconds, resident, bytes, rows })?)?;
    Ok(())
}

pub(crate) fn open_cached(folder: &Path, snapshot: &Path, freed: Freed) -> Result<OpenedCached> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("open-cached").arg(folder).arg(snapshot);
    told(command, folder, freed)
}

const CHUNK: u64 = 1_000;

pub(crate) async fn run_write(folder: &Path, users: u32, seed: u64) -> Result<()> {
    // No checkpoint but the requested one.
    let store = place::open(folder, Options { checkpoint_entries: u64::MAX, ..Options::default() })?;
    store.checkpoint().await?;
    let users = u64::from(users);
    let mut drawn = 0;
    let mut durable = 0;
    loop {
        let mut writes = Vec::with_capacity(CHUNK as usize);
        for _ in 0..CHUNK {
            let (a, b) = (scale(random::at(seed, drawn), users), scale(random::at(seed, drawn + 1), users - 1));
            drawn += 2;
            writes.push(graph::follow(Key(a as i64), Key(if b >= a { b + 1 } else { b } as i64)));
        }
        for result in store.commit_all(writes).await {
            durable += u64::from(result?.reply.changed());
        }
        writeln!(std::io::stdout(), "{durable}")?;
    }
}

/// Has `writes` made after a checkpoint, kills the writer in the middle of more, and returns how many were durable.
pub(crate) fn write_and_kill(folder: &Path, users: u32, seed: u64, writes: u64) -> Result<u64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("write").arg(folder).arg(users.to_string()).arg(seed.to_string());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut durable = 0;
    let output = child.stdout.take().context("the writing process has no output")?;
    for line in BufReader::new(output).lines() {
        durable = line?.parse()?;
        if durable >= writes {
            break;
        }
    }
    // `kill` is SIGKILL to this process by its id.
    child.kill()?;
    child.wait()?;
    ensure!(durable >= writes, "the writing process ended after {durable} writes");
    Ok(durable)
}
