//! `redis-benchmark`, the client that comes with Redis. It sends one command for a whole run.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Peer;

/// Its default number of connections.
const CONNECTIONS: &str = "50";
/// A round of this many tells how many fill the requested time.
const TRIAL: f64 = 50e3;

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// Answers a second.
    pub(crate) rate: f64,
    /// Microseconds of the server's processor time for each.
    pub(crate) processor: f64,
}

/// Repeats the same command for about this many seconds.
pub(crate) fn ask_usually(peer: &Peer, words: &[String], pipeline: usize, seconds: f64) -> Result<Usual> {
    let trial = run(peer, words, pipeline, TRIAL)?;
    let count = (trial * seconds).max(TRIAL).round();
    let before = processor_seconds(peer.id())?;
    let rate = run(peer, words, pipeline, count)?;
    Ok(Usual { rate, processor: (processor_seconds(peer.id())? - before) * 1e6 / count })
}

fn run(peer: &Peer, words: &[String], pipeline: usize, count: f64) -> Result<f64> {
    let (host, port) = peer.address.rsplit_once(':').context("an address has a port")?;
    let output = Command::new("redis-benchmark")
        .args(["-h", host, "-p", port, "-c", CONNECTIONS, "-P", &pipeline.to_string(), "-n", &count.to_string()])
        .arg("--csv")
        .args(words)
        .output()
        .context("install it with: apt-get install redis-tools")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "redis-benchmark against {}: {said}", peer.name);
    // The second column of the last line, in quotes.
    let rate = said.lines().last().and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    rate.with_context(|| format!("redis-benchmark against {} said: {said}", peer.name))
}

/// User and system time of all threads of a process.
pub(crate) fn processor_seconds(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in brackets, may hold blanks; user and system time are the 12th and 13th after it.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
