//! What can be asked of a run.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::graph::Times;

/// Measures the embedded store in this process and prints what it measured.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Measurement>,
    /// Edges of the graph; with `--users`, instead of the usual two graphs.
    #[arg(long, requires = "users")]
    pub(crate) edges: Option<u64>,
    #[arg(long, requires = "edges")]
    pub(crate) users: Option<u32>,
    /// Also 100M edges over 2M users, and an account with 10M followers.
    #[arg(long)]
    pub(crate) large: bool,
    /// How often repeatable measurements run.
    #[arg(long, default_value_t = 3)]
    pub(crate) repeat: usize,
    /// How long each run with concurrent callers takes, at least.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// In which order the times of the imported edges run.
    #[arg(long, value_enum, default_value_t = Times::Rising)]
    pub(crate) times: Times,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the table to bench/RESULTS.md as well.
    #[arg(long)]
    pub(crate) write: bool,
    /// Leave the stores where they are.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where stores are made.
    #[arg(long, default_value = "bench/data")]
    pub(crate) data: PathBuf,
    #[command(subcommand)]
    pub(crate) child: Option<Child>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    Import,
    Follows,
    Target,
    Checks,
    Pages,
    Disk,
    Memory,
    Reopen,
    Rest,
    Resp,
    Common,
    Growth,
    Feed,
}

impl Measurement {
    /// Whether it looks at one of the usual graphs.
    const fn is_of_a_graph(self) -> bool {
        !matches!(self, Self::Common | Self::Growth | Self::Feed)
    }
}

impl Arguments {
    pub(crate) fn wants_graphs(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|measurement| measurement.is_of_a_graph())
    }

    pub(crate) fn wants(&self, measurement: Measurement) -> bool {
        self.only.is_empty() || self.only.contains(&measurement)
    }
}

/// Parts that need a process of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Child {
    /// Opens a store and tells how long it took and how much memory it needs.
    #[command(hide = true)]
    Open { folder: PathBuf },
    /// Writes after a checkpoint until somebody kills it, telling how much is durable.
    #[command(hide = true)]
    Write { folder: PathBuf, users: u32, seed: u64 },
    /// Answers every command with nothing.
    #[command(hide = true)]
    Null { address: String },
}
