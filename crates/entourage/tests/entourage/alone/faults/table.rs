//! The table of a run: what was expected of each fault, and what was seen.

use std::io::Write as _;

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<[String; 4]>,
    pub(super) differences: Vec<String>,
}

/// Enough to see what is wrong.
const SHOWN: usize = 5;

impl Table {
    pub(super) fn add(&mut self, fault: &str, expected: &str, seen: String, problems: &[String]) {
        let verdict = if problems.is_empty() { "as expected" } else { "DIFFERS" };
        self.rows.push([fault.to_owned(), expected.to_owned(), seen, verdict.to_owned()]);
        self.differences.extend(problems.iter().take(SHOWN).map(|problem| format!("{fault}: {problem}")));
        if problems.len() > SHOWN {
            self.differences.push(format!("{fault}: and {} more", problems.len() - SHOWN));
        }
    }

    fn text(&self) -> String {
        let header = ["fault", "expected", "seen", ""].map(str::to_owned);
        let width = |column: usize| {
            let cells = std::iter::once(&header).chain(&self.rows);
            cells.map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths = [0, 1, 2, 3].map(width);
        let line = |row: &[String; 4]| {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = format!("|{}|\n", widths.map(|width| "-".repeat(width + 2)).join("|"));
        std::iter::once(line(&header)).chain([rule]).chain(self.rows.iter().map(line)).collect()
    }
}

/// Printed however the run ends, and also where the output of tests that pass is kept back.
impl Drop for Table {
    fn drop(&mut self) {
        if !self.rows.is_empty() {
            let _ = write!(std::io::stderr(), "\n{}", self.text());
        }
    }
}

#[test]
fn columns_are_aligned_and_a_difference_is_kept() {
    let mut table = Table::default();
    table.add("a", "−1 h", "fine".to_owned(), &[]);
    table.add("longer", "x", "not fine".to_owned(), &["lost"; 7].map(str::to_owned));
    let text = table.text();
    let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
    assert!(lengths.len() == 4 && lengths.iter().all(|length| *length == lengths[0]), "{text}");
    assert!(text.contains("| as expected |") && text.contains("| DIFFERS     |"), "{text}");
    assert_eq!(table.differences.len(), SHOWN + 1);
    // Nobody is shown a table of made-up faults.
    table.rows.clear();
}
