//! The machine that the figures were taken on.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use entourage_model::Clock as _;
use entourage_store::{
    SystemClock,
    disk::{Disk, RealDisk},
};

use crate::record::Run;

/// Where and when a run began, and what was measured.
pub(crate) fn look(root: &Path, flags: String, about: Vec<String>) -> Result<Run> {
    let (sync, sync_p99) = sync_time(root)?;
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (memory, kernel) = (kib("/proc/meminfo", "MemTotal") >> 20, first_line("/proc/sys/kernel/osrelease"));
    Ok(Run {
        commit: commit(),
        date: SystemClock.now().to_rfc3339().split('T').next().unwrap_or_default().to_owned(),
        flags: Some(flags),
        machine: format!("{cpu}, {cores} cores, {memory} GiB; Linux {kernel}"),
        // As the log does it: into allocated space.
        disk: format!("{}; durable write of 4 KiB {sync:.0} µs (99th percentile {sync_p99:.0} µs)", file_system(root)),
        load: first_line("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        about,
    })
}

/// Processor time of this thread.
pub(crate) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Peak resident memory of this process.
pub(crate) fn peak_resident_bytes() -> u64 {
    kib("/proc/self/status", "VmHWM") << 10
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    kib("/proc/self/status", "VmRSS") << 10
}

pub(crate) fn free_disk_bytes(root: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(root)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Median and 99th percentile in microseconds.
pub(crate) fn sync_time(root: &Path) -> Result<(f64, f64)> {
    const WRITES: usize = 500;
    let disk = RealDisk::new(root)?;
    let file = disk.create("sync-probe")?;
    file.write_at(&vec![0; WRITES * 4096], 0)?;
    file.sync()?;
    let mut times: Vec<Duration> = Vec::with_capacity(WRITES);
    for index in 0..WRITES {
        let started = Instant::now();
        file.write_durable_at(&[1; 4096], index as u64 * 4096)?;
        times.push(started.elapsed());
    }
    disk.remove("sync-probe")?;
    times.sort_unstable();
    let micros = |at: usize| times[at].as_secs_f64() * 1e6;
    Ok((micros(WRITES / 2), micros(WRITES * 99 / 100)))
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn kib(path: &str, name: &str) -> u64 {
    field(path, name).and_then(|value| value.split(' ').next()?.parse().ok()).unwrap_or_default()
}

/// The type of the mount that holds `root`.
fn file_system(root: &Path) -> String {
    let Ok(root) = root.canonicalize() else { return "unknown".into() };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let holds = |line: &&str| line.split(' ').nth(1).is_some_and(|mount| root.starts_with(mount));
    let found = mounts.lines().filter(holds).max_by_key(|line| line.split(' ').nth(1).map_or(0, str::len));
    found.and_then(|line| line.split(' ').nth(2)).unwrap_or("unknown").to_owned()
}

fn commit() -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(head) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    // Results kept by earlier runs do not change what is measured.
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!bench/RESULTS.md"]) {
        Some(changed) if !changed.is_empty() => format!("{head} with changes"),
        _ => head,
    }
}
