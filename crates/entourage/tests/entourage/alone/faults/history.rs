//! What the callers of a run asked and heard, with times since its beginning.

use std::time::Duration;

/// How old an answer without a token may be while PostgreSQL is there.
pub(super) const FRESH: Duration = Duration::from_secs(2);

/// Ids are numbers, which are their own keys: the tables of PostgreSQL can be compared with what was acked.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Edge {
    pub(super) follower: u64,
    pub(super) target: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending<T> {
    Done(T),
    /// 503, with its code. A write may have happened.
    Refused(String),
    /// No whole answer came. A write may have happened.
    Unanswered,
    /// Anything else, which nobody should be told.
    Unexpected(String),
}

/// A write to an edge that only one writer writes to, one write after the other.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) server: usize,
    pub(super) edge: Edge,
    /// Whether the edge is there afterwards.
    pub(super) follows: bool,
    pub(super) invoked: Duration,
    pub(super) completed: Duration,
    /// Its token.
    pub(super) ending: Ending<String>,
}

impl Write {
    pub(super) const fn is_acked(&self) -> bool {
        matches!(self.ending, Ending::Done(_))
    }
}

/// What a check said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Check {
    pub(super) follows: bool,
    /// `Entourage-Age`, in seconds.
    pub(super) age: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) server: usize,
    pub(super) edge: Edge,
    /// The write whose token was sent, by its place in the history.
    pub(super) token_of: Option<usize>,
    pub(super) invoked: Duration,
    pub(super) completed: Duration,
    pub(super) ending: Ending<Check>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) writes: Vec<Write>,
    pub(super) reads: Vec<Read>,
    /// Reads after everything had healed, each with the token of an acked write.
    pub(super) last_reads: Vec<Read>,
}

/// When the fault was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub(super) injected: Duration,
    pub(super) healed: Duration,
    /// When every writer had an acked write again that it began after the healing.
    pub(super) back: Duration,
    /// From here on PostgreSQL acked what the standby never got.
    pub(super) cut: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Write,
    Read,
}

/// A request that was refused, or not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) request: Request,
    pub(super) server: usize,
    pub(super) edge: Edge,
    pub(super) invoked: Duration,
    pub(super) completed: Duration,
}
