//! Rows of figures, and the table, JSON and Markdown they are shown as.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::json;

use crate::machine::Machine;

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// 1 and above is met, whichever way the goal points.
    fn ratio(self, measured: f64) -> f64 {
        match self {
            Self::AtLeast(goal) => measured / goal,
            Self::AtMost(goal) => goal / measured,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!("≥ {}", number(goal)),
            Self::AtMost(goal) => format!("≤ {}", number(goal)),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    data: String,
    what: String,
    unit: &'static str,
    goal: Option<Goal>,
    /// The median of `runs`.
    measured: f64,
    runs: Vec<f64>,
    note: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> Self {
        let measured = median(&runs);
        Self { data: String::new(), what: what.into(), unit, goal: None, measured, runs, note: String::new() }
    }

    pub(crate) fn at_least(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtLeast(goal)), ..self }
    }

    pub(crate) fn at_most(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtMost(goal)), ..self }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn cells(&self) -> [String; 7] {
        let spread = match self.runs.as_slice() {
            [] | [_] => String::new(),
            runs => {
                let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
                let most = runs.iter().copied().fold(0.0, f64::max);
                format!("{}–{} of {}", number(least), number(most), runs.len())
            }
        };
        [
            self.data.clone(),
            self.what.clone(),
            self.goal.map_or_else(String::new, Goal::text),
            format!("{} {}", number(self.measured), self.unit),
            self.goal.map_or_else(String::new, |goal| format!("{:.2}", goal.ratio(self.measured))),
            spread,
            self.note.clone(),
        ]
    }
}

/// Everything a run has measured.
pub(crate) struct Results {
    machine: Machine,
    about: Vec<String>,
    rows: Vec<Row>,
}

const HEADER: [&str; 7] = ["data", "what", "goal", "measured", "ratio", "spread", "note"];

impl Results {
    pub(crate) const fn new(machine: Machine, about: Vec<String>) -> Self {
        Self { machine, about, rows: Vec::new() }
    }

    pub(crate) fn extend(&mut self, data: &str, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            let row = Row { data: data.to_owned(), ..row };
            let cells = row.cells();
            eprintln!("  {}: {} ({}) {}", cells[1], cells[3], cells[4], cells[6]);
            self.rows.push(row);
        }
    }

    fn prose(&self) -> impl Iterator<Item = &str> {
        self.about.iter().map(String::as_str).chain(["Figures are medians; a ratio of 1 and above meets the goal."])
    }

    pub(crate) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(HEADER);
        for row in &self.rows {
            table.add_row(row.cells());
        }
        for column in [2, 3, 4] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let machine = self.machine.lines().join("\n");
        let prose: Vec<&str> = self.prose().collect();
        format!("{machine}\n{}\n\n{table}", prose.join("\n"))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("# Measured\n\nMade by `make bench`; do not edit.\n\n");
        for line in self.machine.lines().iter().map(String::as_str).chain(self.prose()) {
            text.push_str(&format!("- {line}\n"));
        }
        text.push_str(&format!("\n| {} |\n|{}\n", HEADER.join(" | "), "---|".repeat(HEADER.len())));
        for row in &self.rows {
            text.push_str(&format!("| {} |\n", row.cells().join(" | ")));
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                let ratio = row.goal.map(|goal| goal.ratio(row.measured));
                json!({ "row": row, "ratio": ratio })
            })
            .collect();
        format!("{:#}", json!({ "machine": self.machine, "about": self.about, "rows": rows }))
    }
}

pub(crate) fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Three significant digits, thousands set apart.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 1.0 {
        return format!("{value:.3}");
    }
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_easily() {
        for (value, text) in [(0.1234, "0.123"), (2.0, "2.0"), (54_321.4, "54,321"), (1e6, "1,000,000"), (100.0, "100")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_ratio_above_one_meets_the_goal() {
        assert!((Goal::AtLeast(100.0).ratio(150.0) - 1.5).abs() < 1e-9);
        assert!((Goal::AtMost(50.0).ratio(25.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_stands_in_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
