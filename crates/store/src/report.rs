//! The result of `verify`.

use serde::Serialize;

/// One disagreement, with enough of its place to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What was compared: `mirror`, `count`, `digest`, `events`, `block`, …
    pub check: &'static str,
    pub detail: String,
}

/// What was checked, and everything that did not agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub users: u64,
    pub edges: u64,
    pub records: u64,
    /// Those that are kept and public.
    pub events: u64,
    pub problems: Vec<Problem>,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn problem(&mut self, check: &'static str, detail: impl Into<String>) {
        self.problems.push(Problem { check, detail: detail.into() });
    }
}
