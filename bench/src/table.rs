//! Rows of figures, and their tables.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// 1 and above is met, in whichever direction the goal points.
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

/// The least and the greatest of all runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Spread {
    least: f64,
    most: f64,
    of: usize,
}

impl Spread {
    /// One run has none.
    fn of(runs: &[f64]) -> Option<Self> {
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = runs.iter().copied().fold(0.0, f64::max);
        (runs.len() > 1).then_some(Self { least, most, of: runs.len() })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    data: String,
    what: String,
    unit: String,
    goal: Option<Goal>,
    /// The median of all runs.
    measured: f64,
    spread: Option<Spread>,
    note: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: &str, runs: Vec<f64>) -> Self {
        let (measured, spread) = (median(&runs), Spread::of(&runs));
        let (data, what, unit) = (String::new(), what.into(), unit.to_owned());
        Self { data, what, unit, goal: None, measured, spread, note: String::new() }
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

    pub(crate) fn on(self, data: &str) -> Self {
        Self { data: data.to_owned(), ..self }
    }

    pub(crate) const fn measured(&self) -> f64 {
        self.measured
    }

    /// The graph it was measured on, and its name.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.data, self.what)
    }

    /// Whether this is the beginning of its name, with or without the graph.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.what.starts_with(name) || self.name().starts_with(name)
    }

    pub(crate) fn misses_its_goal(&self) -> bool {
        self.goal.is_some_and(|goal| goal.ratio(self.measured) < 1.0)
    }

    /// One line of progress.
    pub(crate) fn line(&self) -> String {
        let [_, what, _, measured, ratio, _, note] = self.cells();
        format!("{what}: {measured} ({ratio}) {note}")
    }

    fn cells(&self) -> [String; 7] {
        let spread =
            self.spread.map(|spread| format!("{}–{} of {}", number(spread.least), number(spread.most), spread.of));
        [
            self.data.clone(),
            self.what.clone(),
            self.goal.map_or_else(String::new, Goal::text),
            format!("{} {}", number(self.measured), self.unit),
            self.goal.map_or_else(String::new, |goal| format!("{:.2}", goal.ratio(self.measured))),
            spread.unwrap_or_default(),
            self.note.clone(),
        ]
    }
}

const HEADER: [&str; 7] = ["data", "what", "goal", "measured", "ratio", "spread", "note"];

pub(crate) fn text<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(HEADER);
    for row in rows {
        table.add_row(row.cells());
    }
    for column in [2, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = format!("| {} |\n|{}\n", HEADER.join(" | "), "---|".repeat(HEADER.len()));
    for row in rows {
        let cells = row.cells().map(|cell| cell.replace('|', "\\|"));
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

pub(crate) fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Three significant digits, with thousands separators.
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
    fn a_row_knows_its_name_and_whether_it_misses() {
        let row = Row::new("disk, with users", "bytes", vec![3.0, 2.0, 9.0]).at_most(2.9).on("10M edges");
        assert!(row.misses_its_goal() && !row.clone().at_most(3.0).misses_its_goal());
        assert!(row.is_called("disk") && row.is_called("10M edges: disk") && !row.is_called("users"));
        assert_eq!(
            markdown(&[row]).lines().last(),
            Some("| 10M edges | disk, with users | ≤ 2.9 | 3.0 bytes | 0.97 | 2.0–9.0 of 3 |  |")
        );
    }

    #[test]
    fn the_median_stands_in_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
