//! The command line of a run.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::graph::{LARGE, Size, Times, USUAL};

/// A median of fewer rounds is not kept.
const REPEAT: usize = 5;
const SECONDS: f64 = 1.0;
const GIANT: u64 = 100_000_000;

/// Measures the embedded store in this process, and the server beside Redis and PostgreSQL; prints what it measured and
/// keeps it in bench/results, of which bench/RESULTS.md is composed.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Measurement>,
    /// Edges of the graph; with `--users`, instead of the usual graphs. Growth ends at this many.
    #[arg(long, requires = "users")]
    pub(crate) edges: Option<u64>,
    #[arg(long, requires = "edges")]
    pub(crate) users: Option<u32>,
    /// Also the store's figures on 100M edges over 2M users, an account with 10M followers, and a giant.
    #[arg(long)]
    pub(crate) large: bool,
    /// Followers of the giant.
    #[arg(long, default_value_t = GIANT)]
    pub(crate) followers: u64,
    /// How often each measurement runs; figures are medians.
    #[arg(long, default_value_t = REPEAT, value_parser = at_least_one)]
    pub(crate) repeat: usize,
    /// How long each run with concurrent callers takes, at least.
    #[arg(long, default_value_t = SECONDS)]
    pub(crate) seconds: f64,
    /// In which order the times of the imported edges run.
    #[arg(long, value_enum, default_value_t = Times::Rising)]
    pub(crate) times: Times,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the results though the run is not the usual one: another graph, or fewer or shorter rounds.
    #[arg(long, conflicts_with = "dry")]
    pub(crate) write: bool,
    /// Keep nothing: print only.
    #[arg(long)]
    pub(crate) dry: bool,
    /// Where results are kept, as RESULTS.md and a folder `results`.
    #[arg(long, default_value = "bench")]
    pub(crate) results: PathBuf,
    /// Leave the stores where they are.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where stores are made.
    #[arg(long, default_value = "bench/data")]
    pub(crate) data: PathBuf,
    #[command(subcommand)]
    pub(crate) child: Option<Child>,
}

/// The doc comment of a variant is the title of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// Import into the embedded store
    Import,
    /// Durable follows in process
    Follows,
    /// Durable follows of one target in process
    Target,
    /// Checks in process
    Checks,
    /// Other ways to hold the same edges
    Structures,
    /// The cached layer
    Cached,
    /// Pages of the account with the most followers
    Pages,
    /// Disk
    Disk,
    /// Memory
    Memory,
    /// Opening again
    Reopen,
    /// Over REST
    Rest,
    /// Over RESP, beside Redis and PostgreSQL
    Resp,
    /// PostgreSQL as the store, beside a function in it
    Postgres,
    /// Intersections
    Common,
    /// Growth
    Growth,
    /// Feeds, beside Redis
    Feed,
    /// Suggestions, beside PostgreSQL and Redis
    Suggest,
    /// Going through all users
    Sweep,
    /// An account with as many followers as a machine holds
    Giant,
}

impl Measurement {
    /// Whether it uses one of the standard graphs.
    const fn is_of_a_graph(self) -> bool {
        !matches!(
            self,
            Self::Postgres | Self::Common | Self::Growth | Self::Feed | Self::Suggest | Self::Sweep | Self::Giant
        )
    }

    /// The graphs it uses unless another is requested.
    fn usual_graphs(self) -> &'static [Size] {
        match self {
            _ if !self.is_of_a_graph() => &[],
            // Filling the other servers takes its time.
            Self::Resp | Self::Structures => &USUAL[..1],
            _ => &USUAL,
        }
    }

    /// As it is named on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) fn title(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_else(|| self.name())
    }
}

impl Arguments {
    pub(crate) fn wants(&self, measurement: Measurement) -> bool {
        let always = measurement != Measurement::Giant || self.large;
        if self.only.is_empty() { always } else { self.only.contains(&measurement) }
    }

    /// All requested measurements.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Measurement> {
        Measurement::value_variants().iter().copied().filter(|measurement| self.wants(*measurement))
    }

    /// Whether a measurement is requested on this graph.
    pub(crate) fn wants_on(&self, measurement: Measurement, graph: Size) -> bool {
        let usual = measurement.usual_graphs();
        let on_it = self.own_graph().map_or_else(|| usual.contains(&graph), |own| own == graph);
        // The large graph is for the store alone.
        let on_it = on_it || (self.large && graph == LARGE && usual == USUAL);
        self.wants(measurement) && measurement.is_of_a_graph() && on_it
    }

    /// The graphs to be made.
    pub(crate) fn graphs(&self) -> Vec<Size> {
        let mut graphs = self.own_graph().map_or_else(|| USUAL.to_vec(), |own| vec![own]);
        if self.large {
            graphs.push(LARGE);
        }
        graphs.retain(|graph| self.wanted().any(|measurement| self.wants_on(measurement, *graph)));
        graphs.dedup();
        graphs
    }

    fn own_graph(&self) -> Option<Size> {
        self.edges.zip(self.users)
    }

    /// Whether the results of this run replace what is kept of a measurement.
    pub(crate) fn keeps(&self, measurement: Measurement) -> bool {
        !self.dry && (self.write || self.is_usual(measurement))
    }

    fn is_usual(&self, measurement: Measurement) -> bool {
        let usual_graph = match (self.own_graph(), measurement) {
            (_, Measurement::Giant) => self.followers == GIANT,
            (None, _) => true,
            (Some((edges, _)), Measurement::Growth) => edges == LARGE.0,
            (Some(own), _) => !measurement.is_of_a_graph() || measurement.usual_graphs() == [own],
        };
        usual_graph && self.repeat >= REPEAT && self.seconds >= SECONDS && self.times == Times::Rising
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it has to be a number above 0".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Parts that need a process of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Child {
    /// Composes RESULTS.md of what is kept, without measuring anything.
    Compose,
    /// Opens a store and tells how long it took and how much memory it needs.
    #[command(hide = true)]
    Open { folder: PathBuf },
    /// Opens a store with a cache before it, from the snapshot in `snapshot`, and tells what that took.
    #[command(hide = true)]
    OpenCached { folder: PathBuf, snapshot: PathBuf },
    /// Writes after a checkpoint until somebody kills it, telling how much is durable.
    #[command(hide = true)]
    Write { folder: PathBuf, users: u32, seed: u64 },
    /// Builds a giant and tells how long it took.
    #[command(hide = true)]
    Giant { folder: PathBuf, followers: u64 },
    /// Answers every command with nothing.
    #[command(hide = true)]
    Null { address: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Arguments {
        Arguments::parse_from([&["bench"], words].concat())
    }

    #[test]
    fn the_usual_run_is_kept_and_any_other_is_not() {
        for (words, measurement, kept) in [
            (&[][..], Measurement::Resp, true),
            (&["--repeat", "7", "--seconds", "2"], Measurement::Import, true),
            (&["--edges", "10000000", "--users", "200000"], Measurement::Resp, true),
            (&["--edges", "10000000", "--users", "200000"], Measurement::Import, false),
            (&["--edges", "10000000", "--users", "200000"], Measurement::Growth, false),
            (&["--edges", "200000", "--users", "20000"], Measurement::Resp, false),
            (&["--edges", "200000", "--users", "20000"], Measurement::Feed, true),
            (&["--edges", "200000", "--users", "20000"], Measurement::Sweep, true),
            (&["--edges", "200000", "--users", "20000", "--write"], Measurement::Resp, true),
            (&["--repeat", "3"], Measurement::Resp, false),
            (&["--seconds", "0.5"], Measurement::Common, false),
            (&["--times", "random"], Measurement::Disk, false),
            (&["--dry"], Measurement::Resp, false),
            (&["--large"], Measurement::Giant, true),
            (&["--large", "--followers", "1000000"], Measurement::Giant, false),
        ] {
            assert_eq!(arguments(words).keeps(measurement), kept, "{words:?} {measurement:?}");
        }
    }

    #[test]
    fn a_giant_is_built_only_when_it_is_asked_for() {
        for (words, wanted) in [(&[][..], false), (&["--large"], true), (&["--only", "giant"], true)] {
            assert_eq!(arguments(words).wants(Measurement::Giant), wanted, "{words:?}");
        }
        assert!(!arguments(&["--large", "--only", "pages"]).wants(Measurement::Giant));
    }

    #[test]
    fn only_graphs_that_somebody_looks_at_are_made() {
        assert_eq!(arguments(&[]).graphs(), USUAL);
        assert_eq!(arguments(&["--large"]).graphs(), [USUAL[0], USUAL[1], LARGE]);
        assert_eq!(arguments(&["--only", "resp", "--large"]).graphs(), [USUAL[0]]);
        assert_eq!(arguments(&["--only", "common,growth,sweep"]).graphs(), []);
        assert_eq!(arguments(&["--only", "resp", "--edges", "500", "--users", "50"]).graphs(), [(500, 50)]);
        assert_eq!(arguments(&["--large", "--edges", "500", "--users", "50"]).graphs(), [(500, 50), LARGE]);
    }
}
