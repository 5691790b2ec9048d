//! The newest results of one measurement, as kept in the tree.

use serde::{Deserialize, Serialize};

use crate::table::Row;

/// One file in `results`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) run: Run,
    pub(crate) took_seconds: Option<u64>,
    /// Of the programs that were started beside this one.
    pub(crate) versions: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// What is the same for all measurements of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) commit: String,
    pub(crate) date: String,
    /// As they were given; some old runs did not say.
    pub(crate) flags: Option<String>,
    pub(crate) machine: String,
    pub(crate) disk: String,
    /// Load on the machine when the run began.
    pub(crate) load: String,
    pub(crate) about: Vec<String>,
}

impl Run {
    pub(crate) fn lines(&self) -> Vec<String> {
        let how = match self.flags.as_deref() {
            None => "flags not recorded".to_owned(),
            Some("") => "`make bench`".to_owned(),
            Some(flags) => format!("`make bench ARGS=\"{flags}\"`"),
        };
        let mut lines = vec![
            format!("commit {}, {}; {how}", self.commit, self.date),
            self.machine.clone(),
            format!("{}; load {} at the start", self.disk, self.load),
        ];
        lines.extend(self.about.iter().cloned());
        lines
    }
}

impl Record {
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = self.run.lines();
        if let (Some(seconds), Some(first)) = (self.took_seconds, lines.first_mut()) {
            let took = if seconds < 120 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) };
            first.push_str(&format!("; took {took}"));
        }
        if !self.versions.is_empty() {
            lines.insert(1, format!("beside {}", self.versions.join(", ")));
        }
        lines
    }
}
