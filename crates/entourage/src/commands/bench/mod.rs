//! `entourage bench`: load on a schedule, over REST or RESP, and how long answers took from when they were due.

mod channel;
mod draw;
mod drive;
mod known;
mod lane;
mod report;
mod resp;
mod rest;
mod server;
mod supply;
mod wire;

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use clap::{Args, ValueEnum};

use self::{
    draw::{Draw, Ids},
    drive::Plan,
    wire::Protocol,
};
use super::client::Access;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The server, asked over REST.
    #[arg(long, value_name = "URL", env = "ENTOURAGE_SERVER", default_value = "http://127.0.0.1:7070")]
    server: String,
    /// Ask over RESP at this address instead.
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// What is asked.
    #[arg(long, value_enum, default_value_t)]
    workload: Workload,
    /// Ask this over RESP instead of a workload: {follower} and {target} are those of a check, {user} is anybody,
    /// {other} anybody else, {targets:50} are so many users.
    #[arg(long, value_name = "TEXT", requires = "resp", conflicts_with = "workload")]
    command: Option<String>,
    /// Requests a second, on a fixed schedule; 0 sends the next when the one before is answered.
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// How long is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long the same runs before, unmeasured.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    warm_up: u64,
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Requests that one connection sends at once, where so many are due.
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    /// Users have the ids 0 to one less than this.
    #[arg(long, default_value_t = 200_000)]
    users: u64,
    /// Users have the ids in this file instead, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "users")]
    ids: Option<PathBuf>,
    /// Of a hundred checks, how many are of pairs drawn by chance; the others are follows that are there.
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    negative: u8,
    /// Whom a storm follows; the first user when it is not said.
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Where the server's own measures are read over HTTP: within which time it answered 99 of 100 requests, or over RESP
    /// what 99 of 100 reads brought. Over REST it is the server itself; over RESP nothing is read unless this is said.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// The server's process on this machine: its processor time for a request is shown.
    #[arg(long)]
    pid: Option<u32>,
    /// The same seed asks the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests of each connection that are drawn beforehand and sent over and over: less work for the client. 0
    /// draws each as it is sent.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    prepare: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Is one following another, mostly not.
    #[default]
    Checks,
    /// Shares of LinkBench: pages, profiles and counts, some checks, a fifth follows and unfollows.
    Mixed,
    /// Everybody follows one.
    Storm,
    /// Follows between any two.
    Follows,
    /// First pages of followers and of those followed.
    Pages,
    /// First pages of feeds.
    Feeds,
    /// Whom to follow.
    Suggestions,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(arguments.connections > 0 && arguments.pipeline > 0, "connections and pipeline are at least 1");
    ensure!(arguments.negative <= 100, "negative is a percentage");
    let access = &arguments.access;
    let metrics = arguments.metrics.as_deref().map(|url| Protocol::new(url, None, access)).transpose()?;
    let protocol = Protocol::new(&arguments.server, arguments.resp.as_deref(), access)?;
    let ids = Ids::new(arguments.users, arguments.ids.as_deref())?;
    let draw = Draw {
        workload: arguments.workload,
        command: arguments.command.as_deref().map(draw::Template::parse).transpose()?,
        negative: arguments.negative,
        target: arguments.target.clone().unwrap_or_else(|| ids.get(0).into_owned()),
        known: Vec::new(),
        ids,
    };
    let draw = known::learn(&protocol, draw, arguments.seed)?;
    let plan = Plan {
        rate: arguments.rate,
        warm_up: Duration::from_secs(arguments.warm_up),
        measured: Duration::from_secs(arguments.seconds.max(1)),
        connections: arguments.connections,
        pipeline: arguments.pipeline,
        seed: arguments.seed,
        prepare: arguments.prepare,
    };
    let watched = server::Watched::new(&protocol, metrics.as_ref(), arguments.pid);
    let (stats, seen) = drive::run(&protocol, &draw, &plan, &watched)?;
    report::print(arguments, protocol.name(), &plan, &stats, &seen)
}
