//! The machine: open files, memory, clock.

use entourage_model::Clock;
use entourage_server::config::Settings;
use entourage_store::SystemClock;
use rustix::process::{Resource, getrlimit};

use super::Finding;

/// Connections and block files together.
const OPEN_FILES_WANTED: u64 = 10_000;
const GIB: f64 = (1u64 << 30) as f64;
/// 2024-01-01 and 2068-01-01 in Unix milliseconds: versions end in 2069.
const CLOCK_UNIX_MILLIS: std::ops::Range<i64> = 1_704_067_200_000..3_092_601_600_000;

pub(super) fn look(settings: &Settings) -> Vec<Finding> {
    vec![open_files(), memory(settings.memory_budget_bytes), clock()]
}

fn open_files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < OPEN_FILES_WANTED => Finding::warn(
            "open files",
            format!("{files} allowed; each connection takes one"),
            format!("raise the limit: `ulimit -n {OPEN_FILES_WANTED}`, or LimitNOFILE= in the unit"),
        ),
        Some(files) => Finding::ok("open files", format!("{files} allowed")),
        None => Finding::ok("open files", "no limit"),
    }
}

fn memory(budget: u64) -> Finding {
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| {
        let line = machine.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    let (Some(total), Some(available)) = (bytes("MemTotal:"), bytes("MemAvailable:")) else {
        return Finding::warn("memory", "how much there is cannot be found out", "set memory.budget to a fixed size");
    };
    let [budget_gib, total_gib, available_gib] = [budget, total, available].map(|bytes| bytes as f64 / GIB);
    let detail = format!("a budget of {budget_gib:.1} GiB, {available_gib:.1} of {total_gib:.1} GiB are available");
    if budget > total / 4 * 3 {
        return Finding::warn("memory", detail, "lower memory.budget: connections and checkpoints need their part");
    }
    Finding::ok("memory", detail)
}

fn clock() -> Finding {
    let now = SystemClock.now();
    if CLOCK_UNIX_MILLIS.contains(&now.to_unix()) {
        return Finding::ok("clock", now.to_rfc3339());
    }
    Finding::fail("clock", format!("{now} cannot be the time"), "set the clock, and keep it right with NTP")
}
