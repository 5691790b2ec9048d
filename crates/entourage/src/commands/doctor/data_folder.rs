//! The data folder: whether it exists, is writable and fast, and whether its store opens.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use entourage_server::config::Settings;
use rustix::fs::statvfs;

use super::Finding;
use crate::commands::offline;

const SPACE_NEEDED_BYTES: u64 = 256 << 20;
const SPACE_WANTED_BYTES: u64 = 2 << 30;
const SYNCS: usize = 9;
const SYNC_BYTES: usize = 4 << 10;
const SLOW_SYNC: Duration = Duration::from_millis(20);
const MIB: u64 = 1 << 20;

pub(super) fn look(settings: &Settings, is_running: bool) -> Vec<Finding> {
    let folder = &settings.data_dir;
    let name = folder.display();
    if folder.symlink_metadata().is_err() {
        let is_there = |path: &&Path| path.symlink_metadata().is_ok();
        let parent = folder.ancestors().find(is_there).unwrap_or(Path::new("."));
        let mut findings = vec![match sync_time(parent) {
            Ok(_) => Finding::ok("data folder", format!("{name} is not there yet; the first start makes it")),
            Err(error) => Finding::fail(
                "data folder",
                format!("{name} is not there, and {} cannot be written: {error}", parent.display()),
                "make the folder and give it to the server's user, or choose another with --data",
            ),
        }];
        findings.push(space(parent));
        findings.extend(is_running.then(|| elsewhere(folder)));
        return findings;
    }
    let mut findings = Vec::new();
    match sync_time(folder) {
        Ok(time) => {
            findings.push(Finding::ok("data folder", format!("{name} can be written")));
            findings.push(sync(time));
        }
        Err(error) => findings.push(Finding::fail(
            "data folder",
            format!("{name} cannot be written: {error}"),
            "give the folder to the server's user, or choose another with --data",
        )),
    }
    findings.push(space(folder));
    findings.push(store(settings, is_running));
    findings
}

/// The median time of a small durable write.
fn sync_time(folder: &Path) -> io::Result<Duration> {
    let probes = folder.join(format!("doctor-{}", std::process::id()));
    fs::create_dir(&probes)?;
    let times = (|| {
        let mut file = File::create(probes.join("probe"))?;
        let mut times = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let began = Instant::now();
            file.write_all(&[0; SYNC_BYTES])?;
            file.sync_data()?;
            times.push(began.elapsed());
        }
        io::Result::Ok(times)
    })();
    fs::remove_dir_all(&probes)?;
    let mut times = times?;
    times.sort_unstable();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}

fn sync(time: Duration) -> Finding {
    let detail = format!("a durable write of 4 KiB takes {:.2} ms", time.as_secs_f64() * 1e3);
    if time > SLOW_SYNC {
        return Finding::warn("sync", detail, "every commit waits for this: use a local SSD");
    }
    Finding::ok("sync", detail)
}

fn space(folder: &Path) -> Finding {
    let free = match statvfs(folder) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return Finding::warn("disk space", format!("cannot be asked for: {error}"), "look with `df`"),
    };
    let detail = format!("{} MiB free", free / MIB);
    match free {
        ..SPACE_NEEDED_BYTES => Finding::fail(
            "disk space",
            detail,
            "make space: the log alone takes 128 MiB, and writes stop when the disk is full",
        ),
        SPACE_NEEDED_BYTES..SPACE_WANTED_BYTES => {
            Finding::warn("disk space", detail, "make space before the log and checkpoints need it")
        }
        _ => Finding::ok("disk space", detail),
    }
}

fn store(settings: &Settings, is_running: bool) -> Finding {
    let name = settings.data_dir.display();
    let is_new = fs::read_dir(&settings.data_dir).is_ok_and(|entries| {
        entries.flatten().all(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) || entry.file_name() == "LOCK")
    });
    if is_new {
        return if is_running {
            elsewhere(&settings.data_dir)
        } else {
            Finding::ok("store", "none yet; the first start makes it")
        };
    }
    let began = Instant::now();
    match offline::open(settings) {
        Ok(_) if is_running => elsewhere(&settings.data_dir),
        Ok(_) => Finding::ok(
            "store",
            format!("opens in {:.1} s; `entourage verify` looks at all of it", began.elapsed().as_secs_f64()),
        ),
        Err(error) if offline::is_in_use(&error) && is_running => {
            Finding::ok("store", format!("{name} is open in a running server"))
        }
        Err(error) if offline::is_in_use(&error) => Finding::fail(
            "store",
            format!("{name} is open in another process, and no server answers at http.listen"),
            "stop that process; or, if it is a server, name its address with --http",
        ),
        Err(error) => Finding::fail("store", format!("{error:#}"), "restore the last backup that verifies"),
    }
}

/// The address is taken by a server with another folder.
fn elsewhere(folder: &Path) -> Finding {
    Finding::fail(
        "store",
        format!("the server that answers at http.listen has another folder open than {}", folder.display()),
        "name its folder with --data; for a second server choose another address with --http",
    )
}
